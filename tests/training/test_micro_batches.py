"""When memory runs out, batches are cut again, as long as that can help."""

from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

from translate.config.training import TrainingConfig
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
