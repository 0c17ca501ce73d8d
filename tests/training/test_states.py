"""When a training state is saved, when the run goes on without it, and which random numbers follow it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_updates import CPU, small_model
from torch import nn

from translate.config.training import TrainingConfig
from translate.distributed.parallel import Single
from translate.distributed.processes import SINGLE_PROCESS, Processes, seed_of
from translate.system.uncompiled import Adam
from translate.training import states as states_module
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.states import MAX_WAIT, States, pack, unpack
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
    assert (store.waited, store.saved) == ([MAX_WAIT, 0.0, 0.0], [])
    store.free = True
    states.learner.progress.step = 8
    states.save_when_free()
    assert store.saved == [8]
    states.save_soon()
    assert store.waited[-1] == MAX_WAIT


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


def test_random_states_of_another_number_of_processes_are_made_anew() -> None:
    tensors = pack(Single(nn.Linear(2, 2)), [], SINGLE_PROCESS)
    drawn = []
    processes = Processes()
    processes.count = 2
    for rank, step in ((0, 5), (0, 5), (1, 5), (0, 6)):
        processes.rank = rank
        torch.rand(3)
        unpack(tensors, Single(nn.Linear(2, 2)), [], processes, seed=(1, step))
        drawn.append(torch.rand(3).tolist())
    assert drawn[0] == drawn[1]
    assert len({tuple(numbers) for numbers in drawn}) == 3
    unpack(tensors, Single(nn.Linear(2, 2)), [], SINGLE_PROCESS, seed=(1, 5))
    assert torch.equal(torch.get_rng_state(), tensors["random.cpu"])


def test_random_states_of_more_processes_are_made_anew() -> None:
    single = Single(nn.Linear(2, 2))
    tensors = pack(single, [], SINGLE_PROCESS)
    unpack(tensors | {"random.cpu.1": tensors["random.cpu"]}, single, [], SINGLE_PROCESS, seed=(1, 5))
    assert torch.initial_seed() == seed_of(1, 5, 0)
    assert not torch.equal(torch.get_rng_state(), tensors["random.cpu"])


def test_an_optimizer_goes_on_with_copies_of_a_state() -> None:
    """The state's tensors are maps of its file."""
    single = Single(nn.Linear(2, 2))
    optimizer = Adam(single.model.parameters(), fused=True)
    single.model(torch.ones(2)).sum().backward()
    optimizer.step()
    tensors = pack(single, [optimizer], SINGLE_PROCESS)
    unpack(tensors, single, [optimizer], SINGLE_PROCESS, seed=(1, 5))
    saved = {name: tensor.clone() for name, tensor in tensors.items() if name.startswith("optimizer.0.")}
    optimizer.step()
    assert {name.rpartition(".")[2] for name in saved} == {"step", "exp_avg", "exp_avg_sq"}
    assert all(torch.equal(tensors[name], tensor) for name, tensor in saved.items())


def test_a_state_of_a_gpu_is_read_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda _: pytest.fail("it was set"))
    single = Single(nn.Linear(2, 2))
    tensors = pack(single, [], SINGLE_PROCESS)
    unpack(tensors | {"random.cuda": torch.zeros(16, dtype=torch.uint8)}, single, [], SINGLE_PROCESS, seed=(1, 5))
    assert torch.equal(torch.get_rng_state(), tensors["random.cpu"])


def test_a_state_of_the_cpu_is_read_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    single = Single(nn.Linear(2, 2))
    tensors = pack(single, [], SINGLE_PROCESS)
    seeds: list[int] = []
    monkeypatch.setattr(states_module, "_on_a_gpu", lambda _: True)
    monkeypatch.setattr(torch.cuda, "manual_seed", seeds.append)
    unpack(tensors, single, [], SINGLE_PROCESS, seed=(1, 5))
    assert torch.equal(torch.get_rng_state(), tensors["random.cpu"])
    assert seeds == [seed_of(1, 5, 0)]  # not the numbers that the run began with


def test_a_state_of_a_gpu_goes_on_with_its_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[int]] = []
    monkeypatch.setattr(states_module, "_on_a_gpu", lambda _: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: torch.arange(16, dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state: drawn.append(state.tolist()))
    single = Single(nn.Linear(2, 2))
    unpack(pack(single, [], SINGLE_PROCESS), single, [], SINGLE_PROCESS, seed=(1, 5))
    assert drawn == [[*range(16)]]


def test_a_run_on_the_cpu_leaves_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: pytest.fail("it was asked"))
    assert "random.cuda" not in pack(Single(nn.Linear(2, 2)), [], SINGLE_PROCESS)
