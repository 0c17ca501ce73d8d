"""What several processes agree on."""

import json
import logging
import signal
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.torch_version import TorchVersion

from translate.distributed import group as group_module
from translate.distributed.group import Group
from translate.distributed.parallel import PARALLEL
from translate.errors import ConfigError, DataError, TrainingError
from translate.system.interrupt import SHUTDOWN, Interrupted


def group_of(rank: int, count: int) -> Group:
    """One of several processes that have not met."""
    group = Group.__new__(Group)
    group.rank, group.count = rank, count
    return group


@pytest.mark.parametrize(
    ("cuda", "nccl", "backend"), [(True, False, "gloo"), (True, True, "cpu:gloo,cuda:nccl"), (False, True, "gloo")]
)
def test_without_nccl_processes_still_meet(
    cuda: bool, nccl: bool, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with PyTorch for CUDA on Windows, or on a machine without a GPU, where NCCL is there and fails."""
    backends: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: nccl)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **_: backends.append(backend))
    Group(None, 0, 1)
    assert backends == [backend]


def test_processes_wait_for_hours_while_one_encodes_a_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's own limit is half an hour."""
    limits: list[timedelta] = []
    monkeypatch.setattr(dist, "init_process_group", lambda _, *, timeout, **__: limits.append(timeout))
    Group(None, 0, 1)
    assert limits[0] >= timedelta(hours=12)


def test_other_machines_have_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With which this one shares no memory."""
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert Group(None, 0, 4).local_count == 4
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert Group(None, 0, 4).local_count == 2


@pytest.mark.parametrize(("rank", "order"), [(0, ["work", "gather"]), (1, ["gather", "work"])])
def test_the_first_process_works_ahead_of_the_others(
    rank: int, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, done = group_of(rank, 2), []
    monkeypatch.setattr(group, "gather", lambda *_: done.append("gather"))
    with group.first_ahead():
        done.append("work")
    assert done == order


@pytest.mark.parametrize("error", [Interrupted(signal.SIGTERM), DataError("out of memory with a single sentence")])
def test_what_ends_the_work_of_the_first_process_ends_that_of_all(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[object]] = []
    monkeypatch.setattr(dist, "broadcast_object_list", lambda outcome, **_: sent.append(list(outcome)))
    with pytest.raises(type(error)):
        group_of(0, 2).on_first(Mock(side_effect=error))
    monkeypatch.setattr(dist, "broadcast_object_list", lambda outcome, **_: outcome.__setitem__(slice(None), sent[0]))
    with pytest.raises(type(error)):
        group_of(1, 2).on_first(Mock(side_effect=AssertionError("only the first works")))


def test_what_the_first_process_finds_all_have(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[object]] = []
    monkeypatch.setattr(dist, "broadcast_object_list", lambda outcome, **_: sent.append(list(outcome)))
    assert group_of(0, 2).on_first(lambda: 7) == 7
    monkeypatch.setattr(dist, "broadcast_object_list", lambda outcome, **_: outcome.__setitem__(slice(None), sent[0]))
    assert group_of(1, 2).on_first(Mock(side_effect=AssertionError("only the first works"))) == 7


def test_numbers_of_all_processes_arrive_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each in a row of its own, also those of number_from, which have 48 bits."""

    def all_gather(tensors: list[Tensor], tensor: Tensor) -> None:
        for rank, place in enumerate(tensors):
            place.copy_(tensor + rank)

    monkeypatch.setattr(dist, "all_gather", all_gather)
    largest = 2**48 - 3
    assert group_of(1, 3).gather(largest, 0.5).tolist() == [[largest + rank, 0.5 + rank] for rank in range(3)]


def test_the_first_process_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: dict[int, int] = {}
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    for rank in range(3):
        monkeypatch.setattr(logging.getLogger("translate"), "setLevel", partial(levels.__setitem__, rank))
        Group(None, rank, 3)
    assert levels == {1: logging.ERROR, 2: logging.ERROR}


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_says_when_all_may_end(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun kills all processes as soon as one of them exits with an error."""
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(logging.getLogger("translate"), "setLevel", lambda _: None)
    store = Mock()
    Group(store, rank, 2).await_last_message()
    assert store.method_calls == [
        call.set("translate/end", "") if rank == 0 else call.wait(["translate/end"], SHUTDOWN)
    ]


@pytest.mark.parametrize(
    ("rank", "by_torchrun", "outlived"), [(0, False, True), (0, True, False), (1, False, False), (1, True, False)]
)
def test_the_store_is_the_first_process_s_unless_torchrun_runs_it(
    rank: int, by_torchrun: bool, outlived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure it then waits for the others, which would be of no use to anyone else's store."""
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    if by_torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(logging.getLogger("translate"), "setLevel", lambda _: None)
    monkeypatch.setattr(group_module, "follow_environment", lambda: (dist.HashStore(), rank, 2))
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        group._store.add(group_module.TOLD, 1)

    monkeypatch.setattr(time, "sleep", wait)
    group = Group.of_environment()
    group.is_first_to_report("a mistake")
    group.await_last_message()
    assert (len(waits) > 0) == outlived


def test_torchrun_is_told_what_ended_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    group = group_of(1, 2)
    group._store = SimpleNamespace(add=lambda *_: 2)
    assert not group.is_first_to_report("error: die Größe")
    told = json.loads(file.read_text(encoding="utf-8"))["message"]
    assert told["message"] == told["extraInfo"]["py_callstack"] == "error: die Größe"
    assert told["extraInfo"]["timestamp"].isdigit()


def test_one_of_two_that_fail_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    groups, store = [group_of(rank, 2) for rank in range(2)], dist.HashStore()
    for group in groups:
        group._store = store
    assert [group.is_first_to_report("a mistake") for group in groups] == [True, False]


@pytest.fixture
def first_of_three(monkeypatch: pytest.MonkeyPatch) -> Group:
    """The process whose store ends with it, while two others may still ask that store."""
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    return Group(dist.HashStore(), 0, 3, outlived=True)


def test_after_a_failure_the_store_stays_until_the_others_have_asked_it(
    first_of_three: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [first_of_three.is_first_to_report("a mistake")]
    others = (group_of(rank, 3) for rank in (1, 2))

    def another_asks(_: float) -> None:
        other = next(others)
        other._store = first_of_three._store
        asked.append(other.is_first_to_report("the same mistake"))

    monkeypatch.setattr(time, "sleep", another_asks)
    monkeypatch.setattr(first_of_three, "close_connections", lambda: pytest.fail("this could wait for the others"))
    first_of_three.await_last_message()
    assert asked == [True, False, False]


@pytest.mark.parametrize(("failed", "seconds"), [(False, 2.0), (True, 0.0)])
def test_the_store_stays_no_longer_than_is_of_use(
    failed: bool, seconds: float, first_of_three: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure not for ever, because the others may be dead, and otherwise not at all."""
    monkeypatch.setattr(group_module, "LAST_QUESTION", seconds)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    first_of_three.failed = failed
    first_of_three.await_last_message()


@pytest.mark.parametrize(
    ("rank", "local_rank", "reports"),
    [(1, "1", True), (2, "2", False), (3, "0", True), (4, "1", False), (2, None, True)],
)
def test_one_on_each_machine_reports_that_the_first_has_died(
    rank: int, local_rank: str | None, reports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a store, they cannot ask. Not every launcher sets LOCAL_RANK."""
    for name in ("TORCHELASTIC_ERROR_FILE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    if local_rank is not None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
    group = group_of(rank, 5)

    def add(*_: object) -> int:
        raise RuntimeError("failed to recv, got 0 bytes")

    group._store = SimpleNamespace(add=add)
    assert group.is_first_to_report("a mistake") is reports


@pytest.mark.parametrize("by_torchrun", [True, False])
def test_torchrun_cannot_end_a_process_that_is_about_to_report_the_death_of_another(
    by_torchrun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    if by_torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        with pytest.raises(ValueError, match="unrelated"), group_of(1, 2):
            raise ValueError("unrelated")
        signal.raise_signal(signal.SIGTERM)
        assert got == [signal.SIGTERM]
        with pytest.raises(TrainingError, match="another process of this run has ended"), group_of(1, 2):
            raise RuntimeError("[gloo] Connection closed by peer")
        signal.raise_signal(signal.SIGTERM)
        assert len(got) == (1 if by_torchrun else 2)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_every_process_goes_its_own_way() -> None:
    drawn = []
    for rank in range(3):
        torch.manual_seed(1)
        group_of(rank, 3).seed_each_process(seed=1)
        drawn.append(tuple(torch.rand(3).tolist()))
    torch.manual_seed(1)
    assert drawn[0] == tuple(torch.rand(3).tolist())
    assert len(set(drawn)) == 3
    group_of(1, 3).seed_each_process(seed=2)
    assert tuple(torch.rand(3).tolist()) not in drawn  # Another run draws other numbers.


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The identifiers of the CUDA devices that a process sees; a test may change them."""
    seen = ["GPU-a", "GPU-b", "GPU-c"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(seen))
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=seen[number]))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return seen


def own_devices(monkeypatch: pytest.MonkeyPatch, kinds: dict[int, str], count: int) -> list[torch.device]:
    """What processes choose that ask for these kinds of devices, by rank, one after the other, among `count`."""
    told: dict[int, tuple[float, ...]] = {}

    def gather(self: Group, *numbers: float) -> NDArray[np.float64]:
        told[self.rank] = numbers
        return np.array([told.get(rank, (numbers[0], -rank)) for rank in range(count)])

    monkeypatch.setattr(Group, "gather", gather)
    return [group_of(rank, count).own_device(torch.device(kind)) for rank, kind in kinds.items()]


def test_each_process_has_its_own_device(devices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = own_devices(monkeypatch, dict.fromkeys(range(3), "cuda"), 3)
    assert [device.index for device in found] == [0, 1, 2]
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert own_devices(monkeypatch, {4: "cuda"}, 6) == [torch.device("cuda", 1)]
    assert own_devices(monkeypatch, dict.fromkeys(range(6), "cpu"), 6) == [torch.device("cpu")] * 6


def test_processes_that_find_different_kinds_of_devices(devices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"some processes of this run find a CUDA device, .*; use device=cpu for all"):
        own_devices(monkeypatch, {0: "cuda", 1: "cpu"}, 2)


def test_a_launcher_that_shows_each_process_its_own_device(devices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[float, ...]] = []
    monkeypatch.setattr(Group, "gather", lambda self, *numbers: told.append(numbers) or np.array(told))
    for rank in range(3):
        devices[:] = [f"GPU-{rank}"]
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        assert group_of(rank, rank + 1).own_device(torch.device("cuda")).index == 0


def test_more_processes_than_devices(devices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as caught:
        own_devices(monkeypatch, dict.fromkeys(range(4), "cuda"), 4)
    assert str(caught.value) == (
        "more processes than CUDA devices: this machine has 3; "
        "lower processes or torchrun's --nproc-per-node, or use device=cpu"
    )


def test_devices_without_identifiers_are_trusted(devices: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace())
    found = own_devices(monkeypatch, dict.fromkeys(range(4), "cuda"), 4)
    assert [device.index for device in found] == [0, 1, 2, 0]


def test_a_device_that_another_program_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> None:
        raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", refuse)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(TrainingError, match=r"^out of memory on CUDA device 2; does another program use it\?$"):
        group_of(3, 4).own_device(torch.device("cuda"))


def test_a_full_disk_does_not_hide_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "no such folder" / "error.json"))
    group = group_of(0, 2)
    group._store = SimpleNamespace(add=lambda *_: 1)
    assert group.is_first_to_report("error: x")


ENDS = """
import sys
from pathlib import Path
from torch import nn, ones
from translate.distributed.group import Group
from translate.distributed.rendezvous import Rendezvous
from translate.distributed.parallel import PARALLEL

def gloo():
    return {name for task in Path("/proc/self/task").iterdir() if (name := (task / "comm").read_text())[:4] == "gloo"}

group = Group(Rendezvous(1).store, rank=0, count=1)
PARALLEL[sys.argv[1]](nn.Linear(2, 2), group)(ones(1, 2)).sum().backward()
assert gloo()
group.await_last_message()
print(gloo())
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="lists threads as Linux does")
@pytest.mark.skipif(TorchVersion(torch.__version__) < "2.7", reason="gloo's threads have no names")
@pytest.mark.parametrize("name", PARALLEL)
def test_connections_end_before_python_does(name: str) -> None:
    # Threads that are left while Python shuts down can end the process by SIGABRT.
    ended = subprocess.run([sys.executable, "-c", ENDS, name], capture_output=True, encoding="utf-8", timeout=60)
    assert ended.stdout == "set()\n", ended.stderr


LOST = RuntimeError("[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234")


def test_a_lost_connection_is_explained() -> None:
    for lost in (LOST, RuntimeError("Gloo connectFullMesh failed with a timeout")):
        with pytest.raises(TrainingError, match="another process of this run has ended"), group_of(0, 2):
            raise lost


def test_what_ended_the_connections_of_a_gpu_is_quoted() -> None:
    explained = r"cannot continue without it \(NCCL error: unhandled system error\); see its error message"
    with pytest.raises(TrainingError, match=explained), group_of(0, 2):
        raise dist.DistBackendError("NCCL error: unhandled system error\nLast error: Connection refused")


@pytest.mark.parametrize("error", [RuntimeError("shapes do not fit"), AssertionError("gloo"), Interrupted(15)])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, group_of(0, 2):
        raise error
    assert caught.value is error
