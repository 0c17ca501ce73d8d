"""Files written behind the back of training: what was copied, in order, and nothing after a failure."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
import torch
from torch import Tensor

from translate.errors import CheckpointError
from translate.training.writer import Writer

PATIENCE = 10.0  # seconds


@pytest.fixture
def writer() -> Iterator[Writer]:
    with closing(Writer()) as writer:
        yield writer


class Disk:
    """What was written, in order; a write ends when it is let."""

    def __init__(self) -> None:
        self.written: list[tuple[str, float]] = []
        self.free = threading.Event()

    def write(self, name: str) -> Callable[[Mapping[str, Tensor]], None]:
        def write(tensors: Mapping[str, Tensor]) -> None:
            assert self.free.wait(PATIENCE)
            self.written.append((name, tensors["weight"].sum().item()))

        return write


def weights(value: float) -> dict[str, Tensor]:
    return {"weight": torch.nn.Parameter(torch.full((2, 3), float(value))), "count": torch.tensor(7)}


def test_what_changes_after_the_copy_is_not_written(writer: Writer) -> None:
    disk, own = Disk(), weights(1.0)
    writer.submit("model", own, disk.write("model"))
    with torch.no_grad():
        own["weight"].zero_()
    assert disk.written == []
    disk.free.set()
    writer.wait()
    assert disk.written == [("model", 6.0)]


def test_kinds_do_not_wait_for_each_other_and_keep_their_order(writer: Writer) -> None:
    disk = Disk()
    for number, kind in enumerate(("model", "snapshots", "states")):
        writer.submit(kind, weights(number), disk.write(kind))
    assert disk.written == []
    disk.free.set()
    writer.wait()
    assert disk.written == [("model", 0.0), ("snapshots", 6.0), ("states", 12.0)]


def test_the_next_of_a_kind_waits(writer: Writer) -> None:
    disk = Disk()
    writer.submit("states", weights(1.0), disk.write("first"))
    threading.Timer(0.1, disk.free.set).start()
    writer.submit("states", weights(2.0), disk.write("second"))
    assert disk.written[:1] == [("first", 6.0)]
    writer.wait()
    assert disk.written == [("first", 6.0), ("second", 12.0)]


def test_a_kind_is_free_once_its_last_file_is_written(writer: Writer) -> None:
    disk = Disk()
    assert writer.is_free("states", 0.0)
    writer.submit("states", weights(1.0), disk.write("states"))
    assert not writer.is_free("states", 0.01)
    assert writer.is_free("model", 0.0)
    threading.Timer(0.1, disk.free.set).start()
    assert writer.is_free("states", PATIENCE)


def test_buffers_are_reserved_without_waiting_and_change_nothing_that_is_not_written(writer: Writer) -> None:
    """As after the first update of a run that has saved the model which it starts from."""
    disk = Disk()
    writer.submit("states", weights(2.0), disk.write("states"))
    writer.reserve("states", weights(0.0))
    assert disk.written == []
    disk.free.set()
    writer.submit("states", weights(3.0), disk.write("states"))
    writer.wait()
    assert disk.written == [("states", 12.0), ("states", 18.0)]


def test_transposed_and_other_shapes(writer: Writer) -> None:
    found: list[dict[str, Tensor]] = []
    matrix = torch.arange(6.0).reshape(2, 3)
    for tensors in ({"a": matrix.T}, {"a": matrix}, {"a": matrix.int(), "b": torch.tensor(1)}):
        writer.submit("states", tensors, lambda copies: found.append({n: t.clone() for n, t in copies.items()}))
        writer.wait()
        assert found[-1].keys() == tensors.keys()
        assert all(torch.equal(found[-1][name], tensor) for name, tensor in tensors.items())
        assert all(found[-1][name].dtype is tensor.dtype for name, tensor in tensors.items())


def test_memory_is_reserved_and_kept(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that nothing was written to is only promised: the first copy would take ten times as long."""
    places: list[int] = []
    monkeypatch.setattr(torch, "empty", torch.ones)
    writer.reserve("states", weights(0.0))
    writer.wait()
    buffer = writer._copies["states"]["weight"]
    assert not buffer.any()
    reserved = buffer.data_ptr()
    for value in (1.0, 2.0):
        writer.submit("states", weights(value), lambda copies: places.append(copies["weight"].data_ptr()))
    writer.wait()
    assert places == [reserved, reserved]


def test_copies_of_parameters_remember_no_operations(writer: Writer) -> None:
    """Otherwise those of a whole run would be kept, one for each file."""
    copies: list[Tensor] = []
    for value in (1.0, 2.0):
        writer.submit("snapshots", weights(value), lambda found: copies.extend(found.values()))
    writer.wait()
    assert not any(copy.requires_grad for copy in copies)


def fail(_: Mapping[str, Tensor]) -> None:
    raise CheckpointError("cannot write")


def test_after_a_failure_nothing_is_written(writer: Writer) -> None:
    disk = Disk()
    disk.free.set()
    writer.submit("model", weights(1.0), fail)
    while not writer._last_of["model"].done():
        time.sleep(0.001)
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"^cannot write$"):
            writer.submit("states", weights(1.0), disk.write("states"))
        with pytest.raises(CheckpointError, match=r"^cannot write$"):
            writer.wait()
    assert disk.written == []


def test_what_is_asked_for_before_a_failure_is_not_written_either(writer: Writer) -> None:
    disk, failing = Disk(), threading.Event()

    def fail_late(tensors: Mapping[str, Tensor]) -> None:
        assert failing.wait(PATIENCE)
        fail(tensors)

    disk.free.set()
    writer.submit("model", weights(1.0), fail_late)
    writer.submit("states", weights(1.0), disk.write("states"))
    failing.set()
    with pytest.raises(CheckpointError, match=r"^cannot write$"):
        writer.wait()
    assert disk.written == []


def test_closing_waits_and_says_nothing(writer: Writer) -> None:
    written: list[int] = []

    def write(_: Mapping[str, Tensor]) -> None:
        time.sleep(0.05)
        written.append(1)

    with closing(Writer()) as other:
        other.submit("states", weights(1.0), write)
    assert written == [1]
    with closing(Writer()) as other:
        other.submit("states", weights(1.0), fail)


def test_its_operations_use_one_thread(writer: Writer, two_threads: None) -> None:
    seen: list[int] = []
    writer.submit("model", weights(1.0), lambda _: seen.append(torch.get_num_threads()))
    writer.wait()
    assert seen == [1]
    assert torch.get_num_threads() == 2
