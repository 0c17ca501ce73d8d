"""When memory runs out, batches are cut again, as long as that can help."""

import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from translate.config.training import TrainingConfig
from translate.distributed.processes import SINGLE_PROCESS
from translate.training import micro_batches as module
from translate.training.learner import Learner
from translate.training.micro_batches import MicroBatches
from translate.training.progress import Progress
from translate.training.tracking import Bar, NoBar


def learner(processes: int = 1) -> Any:
    made = SimpleNamespace(
        processes=SimpleNamespace(count=processes),
        sharing=processes,
        progress=Progress(),
        config=TrainingConfig(),
        bar=NoBar(),
    )
    made.remedies = partial(Learner.remedies, made)
    return made


def full() -> NoReturn:
    raise MemoryError


def test_pieces_get_smaller_as_long_as_one_batch_has_pairs_to_divide() -> None:
    micro_batches = MicroBatches(learner())

    def work() -> int:
        if micro_batches.count < 4:
            full()
        return micro_batches.count

    assert micro_batches.until_it_fits(work, [np.arange(1), np.arange(8)]) == 4


def test_a_batch_is_not_split_into_more_pieces_than_pairs() -> None:
    micro_batches = MicroBatches(learner())
    tried: list[int] = []

    def work() -> None:
        tried.append(micro_batches.count)
        full()

    with pytest.raises(MemoryError):
        micro_batches.until_it_fits(work, [np.arange(8)])
    assert tried == [1, 2, 4, 8]


@pytest.mark.parametrize("processes", [1, 2])
def test_what_to_change_is_told_for_as_many_processes(processes: int, capsys: pytest.CaptureFixture[str]) -> None:
    several = learner(processes)
    several.bar = Bar(total=1, done=0)
    MicroBatches(several).double()
    assert ("train with fewer than 2 processes" in capsys.readouterr().err) == (processes == 2)


def test_one_of_several_processes_does_not_try_again_alone() -> None:
    micro_batches = MicroBatches(learner(processes=2))
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        full()

    with pytest.raises(MemoryError):
        micro_batches.until_it_fits(work, [np.arange(8)])
    assert (len(tries), micro_batches.count) == (1, 1)


def test_every_batch_of_every_worker_is_split() -> None:
    made = learner()
    made.processes, made.update = SINGLE_PROCESS, SimpleNamespace(workers=2)
    micro_batches = MicroBatches(made)
    micro_batches.count = 2
    shares = micro_batches.of([np.arange(10 * i, 10 * i + 4) for i in range(4)])
    assert [[part.indices.tolist() for part in parts] for parts in shares] == [
        [[0, 2], [1, 3], [20, 22], [21, 23]],
        [[10, 12], [11, 13], [30, 32], [31, 33]],
    ]


def test_smaller_pieces_are_no_remedy_for_other_errors() -> None:
    micro_batches = MicroBatches(learner())
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        micro_batches.until_it_fits(work, [np.arange(8)])
    assert (len(tries), micro_batches.count) == (1, 1)


def test_what_a_try_took_is_free_before_memory_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the operating system gets nothing back."""
    micro_batches = MicroBatches(learner())
    taken: list[weakref.ref[Any]] = []
    left: list[object] = []

    def work() -> None:
        if micro_batches.count == 1:
            activations = np.arange(3)
            taken.append(weakref.ref(activations))
            full()

    monkeypatch.setattr(module, "release_memory", lambda: left.append(taken[0]()))
    micro_batches.until_it_fits(work, [np.arange(8)])
    assert left == [None]
