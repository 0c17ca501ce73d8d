"""How much memory is left, beside what the machine and made-up containers say."""

import math
import os
from pathlib import Path

import pytest
import torch

from translate.system import cgroups
from translate.system import free_memory as module
from translate.system.free_memory import free_memory

CPU = torch.device("cpu")


@pytest.mark.skipif(not Path("/proc/meminfo").is_file(), reason="only Linux says how much memory is available")
def test_it_is_some_of_what_the_machine_has() -> None:
    assert 2**20 < free_memory(CPU) < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of which 4,000,000 KiB are available."""
    write(tmp_path / "proc/meminfo", "MemTotal:  9000000 kB\nMemAvailable:   4000000 kB\nHugePages_Total:   0\n")
    monkeypatch.setattr(module, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "CONTROL_GROUPS", tmp_path / "groups")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_of_a_gpu_what_pytorch_keeps_for_reuse_is_free_too(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda", 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", {gpu: (1000, 8000)}.__getitem__)
    monkeypatch.setattr(torch.cuda, "memory_reserved", {gpu: 700}.__getitem__)
    monkeypatch.setattr(torch.cuda, "memory_allocated", {gpu: 300}.__getitem__)
    assert free_memory(gpu) == 1400


def test_of_the_machine(system: Path) -> None:
    assert free_memory(CPU) == 4_096_000_000
    write(system / "proc/self/cgroup", "4:memory:/not/there\n0::/\n")
    assert free_memory(CPU) == 4_096_000_000


def test_of_a_container(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/pod/one\n")
    write(system / "groups/pod/one/memory.max", "max\n")
    write(system / "groups/pod/one/memory.current", "100\n")
    write(system / "groups/pod/memory.max", "1000\n")
    write(system / "groups/pod/memory.current", "700\n")
    write(system / "groups/pod/memory.stat", "anon 600\ninactive_file 50\nactive_file 20\n")
    assert free_memory(CPU) == 370
    write(system / "groups/pod/one/memory.max", "300\n")
    assert free_memory(CPU) == 200
    write(system / "groups/pod/one/memory.current", "301\n")
    assert free_memory(CPU) == 0


def test_the_name_of_a_container_may_hold_colons(system: Path) -> None:
    """As containerd's do, where systemd manages the groups of the containers."""
    write(system / "proc/self/cgroup", "0::/pods/cri-containerd:1f2e\n")
    write(system / "groups/pods/cri-containerd:1f2e/memory.max", "1000\n")
    write(system / "groups/pods/cri-containerd:1f2e/memory.current", "700\n")
    assert free_memory(CPU) == 300


def test_of_a_container_of_the_first_version(system: Path) -> None:
    write(system / "proc/self/cgroup", "5:cpu,cpuacct:/box\n4:memory:/box\n")
    write(system / "groups/memory/box/memory.limit_in_bytes", "1000\n")
    write(system / "groups/memory/box/memory.usage_in_bytes", "900\n")
    write(system / "groups/memory/box/memory.stat", "inactive_file 1\ntotal_inactive_file 30\ntotal_active_file 5\n")
    assert free_memory(CPU) == 135


def test_nothing_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROC", tmp_path)
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    assert free_memory(CPU) == math.inf
