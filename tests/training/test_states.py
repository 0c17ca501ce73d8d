"""When a training state is saved, and when the run goes on without it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_updates import CPU, small_model

from translate.config.training import TrainingConfig
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.processes import SINGLE_PROCESS
from translate.training.states import MOMENT, States
from translate.training.tracking import Bar
from translate.training.writer import Writer


class Store(StateStore):
    """On a disk that is free, and has written the last state, only if it is told so."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), 1, Writer())
        self.free = False
        self.left: int | None = None  # after which update the state was made that is still being written
        self.saved: list[int] = []
        self.waited: list[float] = []

    def save(self, step: int, *_: Any) -> None:
        self.saved.append(step)

    def is_free(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return self.free

    def unwritten(self) -> int | None:
        return self.left


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def states(store: Store) -> States:
    learner = Learner(small_model(), TrainingConfig(), CPU, torch.float32, SINGLE_PROCESS, updates_per_epoch=9)
    learner.progress.step = 5
    return States(learner, store, identity={})


def test_training_waits_a_moment_for_the_previous_state_and_only_once(states: States, store: Store) -> None:
    states.save_soon()
    states.save_when_free()
    states.save_soon()
    assert (store.waited, store.saved) == ([MOMENT, 0.0, 0.0], [])
    store.free = True
    states.learner.progress.step = 8
    states.save_when_free()
    assert store.saved == [8]
    states.save_soon()
    assert store.waited[-1] == MOMENT


def test_only_a_state_that_is_due_is_saved(states: States, store: Store) -> None:
    store.free = True
    states.save_when_free()
    states.save_if_due()
    assert (store.saved, store.waited) == ([], [])
    states.save_soon()
    states.save_when_free()
    states.save_if_due()
    states.save_before_stopping()
    assert store.saved == [5]


def test_at_the_end_a_state_that_is_due_has_to_wait(states: States, store: Store) -> None:
    states.save_soon()
    states.save_if_due()
    assert store.saved == [5]


@pytest.mark.parametrize(
    ("left", "saved_step", "saved", "said"),
    [
        (None, 3, [5], ""),
        (None, 5, [], ""),  # An abandoned update leaves nothing new.
        (5, 5, [], ""),
        (
            3,
            3,
            [],
            "the training state after update 3 was still being written and is kept as the last one; "
            "updates to repeat when resuming: 2\n",
        ),
    ],
)
def test_a_run_that_is_stopped_saves_what_no_state_has_unless_one_is_being_written(
    left: int | None,
    saved_step: int,
    saved: list[int],
    said: str,
    states: States,
    store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    states.learner.bar = Bar(total=9, done=0)
    store.left, states.saved_step = left, saved_step
    states.save_before_stopping()
    assert (store.saved, capsys.readouterr().err) == (saved, said)
