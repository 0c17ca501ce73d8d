"""Disturbances one after the other, at random moments: the run ends as the one that nothing disturbed.

The trainings are processes of their own, forked from one that has imported all: real signals, real files.
"""

import multiprocessing
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import RLock, Timer
from typing import Any, NoReturn

import pytest
import torch
from tiny_runs import TinyProject, assert_same_run, at_call, newest_state, sigterm, stop, update
from tqdm import tqdm

from translate.config.schema import Config
from translate.errors import CheckpointError
from translate.model_file import SavedModel
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.system.interrupt import Interrupted
from translate.training.checkpoint import StateStore
from translate.training.trainer import Trainer
from translate.training.writer import Writer

OVERRIDES = (
    "training.max_epochs=20",  # of 7 updates
    "training.validate_every=10",
    "training.checkpoint_every=3",
    "training.average_last=2",
    "threads=1",
)
SMALL = 30_000  # bytes, fewer than any file with tensors has


def fill_disk() -> None:
    """From now on no file grows beyond some size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (random.randrange(SMALL), resource.RLIM_INFINITY))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


ACTS = {"kill -9": kill, "SIGTERM": sigterm, "full disk": fill_disk, "truncated state": kill}


def disturbed(config: Config, kind: str, seed: int, resume: bool, answer: Connection) -> None:
    """A process that trains and is disturbed at a random moment; it answers with what it would tell the user."""
    random.seed(seed)
    torch.set_num_threads(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    tqdm.set_lock(RLock())  # Its own one would outlive a process that is killed.
    with pytest.MonkeyPatch.context() as patch:
        if random.random() < 0.2:
            Timer(random.uniform(0, 0.2), ACTS[kind]).start()
        else:
            # In terms of how long an update takes here, and of updates, so that the run gets as far on any machine.
            number, share = random.randrange(2, 7), random.uniform(0, 4)
            since: list[float] = []
            timers: list[Timer] = []

            def begin() -> None:
                since.append(time.perf_counter())

            def start_timer() -> None:
                timers.append(Timer(share * (time.perf_counter() - since[0]), ACTS[kind]))
                timers[0].start()

            at_call(patch, Trainer, "_update", number, begin)
            at_call(patch, Trainer, "_update", number + 1, start_timer)
            at_call(patch, Trainer, "_update", number + 5, lambda: timers[0].join())
        try:
            train(config, resume=resume, overwrite=not resume)
            answer.send("finished")
        except (Interrupted, CheckpointError) as error:
            answer.send(str(error))


def is_to_be_resumed(run: RunFolder) -> bool:
    try:
        StateStore(run.states, 1, Writer()).load_newest()
    except CheckpointError:
        return False
    return True


@pytest.mark.slow
def test_twenty_disturbances(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    undisturbed = uninterrupted(*OVERRIDES)
    config, run = tiny.config(*OVERRIDES), RunFolder(tiny.folder / "run")
    processes = multiprocessing.get_context("forkserver")
    # With what is imported while training.
    processes.set_forkserver_preload(["pytest", "sacrebleu", "torch._dynamo", "translate.pipeline"])
    rng = random.Random(1)
    kinds = [*ACTS] * 5
    rng.shuffle(kinds)
    reached = []
    for kind in kinds:
        ours, theirs = processes.Pipe(duplex=False)
        resume = is_to_be_resumed(run)
        process = processes.Process(target=disturbed, args=(config, kind, rng.randrange(2**32), resume, theirs))
        process.start()
        theirs.close()
        process.join(60)
        said = ours.recv() if process.exitcode == 0 else ""
        ours.close()
        match kind:
            case "SIGTERM":  # Before there is anything to save it ends the process.
                assert said == "stopped by SIGTERM" or process.exitcode == -signal.SIGTERM
            case "full disk":
                assert said.startswith("cannot write ")
            case _:
                assert process.exitcode == -signal.SIGKILL
        states = sorted(run.states.glob("step-*"))
        if kind == "truncated state" and states:
            os.truncate(states[-1], rng.randrange(states[-1].stat().st_size))
        reached.append(int(states[-1].stem.removeprefix("step-")) if states else 0)
    assert len(reached) == 20
    assert max(reached) > 20, reached  # They met a run on its way.
    assert not run.finished.exists()
    train(config, resume=is_to_be_resumed(run), overwrite=not is_to_be_resumed(run))
    assert_same_run(run, undisturbed)


# --- a state that cannot be written while training goes on -----------------------------------------------------------


def disk_is_full(descriptor: int) -> NoReturn:
    raise OSError(28, "No space left on device")


def fill_before_state(patch: pytest.MonkeyPatch, number: int) -> None:
    at_call(patch, StateStore, "_write", number, lambda: patch.setattr("translate.system.files.os.fsync", disk_is_full))


def test_the_run_is_not_finished_before_its_last_state_is_written(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fill_before_state(patch, 3)
        with pytest.raises(CheckpointError, match=r"cannot write .*step-00000021\.safetensors: No space left on"):
            train(tiny.config())
    run = RunFolder(tiny.folder / "run")
    assert not run.finished.exists()
    assert newest_state(run)[1]["step"] == 14
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_training_ends_with_the_next_update_if_a_state_cannot_be_written(tiny: TinyProject) -> None:
    """Not when the next state is due, before which nothing would be saved."""
    update, steps = Trainer._update, []

    def after_writing(trainer: Trainer, *given: Any) -> None:
        while trainer.states.store.unwritten() is not None:
            time.sleep(0.01)
        update(trainer, *given)
        steps.append(trainer.progress.step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", after_writing)
        fill_before_state(patch, 1)
        with pytest.raises(CheckpointError, match=r"cannot write .*step-00000003\.safetensors: No space left on"):
            train(tiny.config("training.checkpoint_every=3", "training.validate_every=20"))
    assert steps == [1, 2, 3, 4]


def test_an_interruption_does_not_say_saved_before_it_is(tiny: TinyProject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fill_before_state(patch, 1)
        error = stop(sigterm, update(3), tiny, error=CheckpointError)
    assert "step-00000003.safetensors: No space left on device; free some space" in str(error)


def test_an_interruption_waits_for_a_slow_disk(tiny: TinyProject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, StateStore, "_write", 1, lambda: time.sleep(0.3))
        stop(sigterm, update(3), tiny)
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == 3


@pytest.mark.parametrize("owner", [SavedModel, StateStore], ids=["best model", "snapshot"])
def test_no_state_is_there_before_the_weights_that_it_counts_on(owner: type, tiny: TinyProject) -> None:
    def fail() -> None:
        raise CheckpointError("cannot write")

    moment = {SavedModel: "save", StateStore: "_write"}[owner]  # A snapshot is the first that is written so.
    stop(fail, (owner, moment, 1), tiny, "training.average_last=2", error=CheckpointError)
    assert list((tiny.folder / "run/states").iterdir()) == []
