"""The limits of CPU time of made-up containers; those of memory are tested in test_free_memory.py."""

import math
from pathlib import Path

import pytest

from translate.system import cgroups
from translate.system.cgroups import cpu_quota


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "CONTROL_GROUPS", tmp_path / "groups")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_no_limit(system: Path) -> None:
    assert cpu_quota() == math.inf
    write(system / "proc/self/cgroup", "5:cpu,cpuacct:/box\n0::/box\n")
    assert cpu_quota() == math.inf
    write(system / "groups/cpu/box/cpu.cfs_quota_us", "-1\n")
    write(system / "groups/cpu/box/cpu.cfs_period_us", "100000\n")
    write(system / "groups/box/cpu.max", "max 100000\n")
    assert cpu_quota() == math.inf


def test_the_lowest_limit_of_a_group_and_those_above_it(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/pod/cri-containerd:1f2e\n")
    write(system / "groups/pod/cri-containerd:1f2e/cpu.max", "150000 100000\n")
    assert cpu_quota() == 1.5
    write(system / "groups/pod/cpu.max", "400000 100000\n")
    assert cpu_quota() == 1.5
    write(system / "groups/pod/cpu.max", "10000 20000\n")
    assert cpu_quota() == 0.5
    write(system / "groups/pod/cri-containerd:1f2e/cpu.max", "max 100000\n")
    assert cpu_quota() == 0.5


def test_a_container_that_sees_its_own_group_as_the_top(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/\n")
    write(system / "groups/cpu.max", "400000 100000\n")
    assert cpu_quota() == 4


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
def test_of_the_first_version(controllers: str, system: Path) -> None:
    write(system / "proc/self/cgroup", f"6:cpuset:/\n5:{controllers}:/docker/1f2e\n4:memory:/docker/1f2e\n0::/\n")
    write(system / "groups/cpu/cpu.cfs_quota_us", "300000\n")  # The container does not see the groups above its own.
    write(system / "groups/cpu/cpu.cfs_period_us", "100000\n")
    assert cpu_quota() == 3


def test_another_controller_whose_name_begins_alike_may_have_other_groups(system: Path) -> None:
    write(system / "proc/self/cgroup", "6:cpuset:/other\n5:cpu:/box\n")
    for group, quota in (("other", 100000), ("box", 300000)):
        write(system / f"groups/cpu/{group}/cpu.cfs_quota_us", f"{quota}\n")
        write(system / f"groups/cpu/{group}/cpu.cfs_period_us", "100000\n")
    assert cpu_quota() == 3


def test_a_list_of_groups_that_cannot_be_read(system: Path) -> None:
    (system / "proc/self/cgroup").mkdir(parents=True)  # As root, a test can read every file.
    write(system / "groups/cpu.max", "400000 100000\n")
    assert cpu_quota() == math.inf
