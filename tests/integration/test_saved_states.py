"""The saved states of a run: the last few, whole ones, and what happens to damaged ones."""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_runs import Killed, TinyProject, assert_same_run, at_call, calls_of, kill, newest_state, sigterm, stop, update

from translate.errors import CheckpointError
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.training.checkpoint import StateStore
from translate.training.states import States

pytestmark = pytest.mark.slow


def truncate(state: Path) -> None:
    os.truncate(state, state.stat().st_size // 2)


def empty(state: Path) -> None:
    os.truncate(state, 0)


def flip_a_bit(state: Path) -> None:
    content = bytearray(state.read_bytes())
    content[-100] ^= 1
    state.write_bytes(content)


@pytest.mark.parametrize("damage", [truncate, empty, flip_a_bit])
@pytest.mark.parametrize("keep_last", [1, 2])
def test_a_damaged_state_is_passed_over(
    damage: Callable[[Path], None],
    keep_last: int,
    tiny: TinyProject,
    uninterrupted: Callable[..., RunFolder],
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop(sigterm, update(16), tiny)
    damage(tiny.folder / "run/states/step-00000016.safetensors")
    # Once more before the damaged state is written anew: what is saved on the way must not be taken for an older one.
    stop(sigterm, update(1), tiny, f"training.keep_last={keep_last}", resume=True)
    assert "step-00000016.safetensors is damaged" in caplog.text
    assert "using the previous training state instead" in caplog.text
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == 15
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_a_folder_that_is_moved_is_not_made_again(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    run, elsewhere = tiny.folder / "run", tiny.folder / "elsewhere"

    def move() -> None:
        while not RunFolder(run).has_states():  # The first is written while training goes on.
            time.sleep(0.01)
        run.rename(elsewhere)

    error = stop(move, update(9), tiny, error=CheckpointError)
    assert "its folder does not exist" in str(error)
    assert not run.exists()
    assert_same_run(train(tiny.config(f"output={elsewhere}"), resume=True), uninterrupted())


def held_back(patch: pytest.MonkeyPatch, until: tuple[Any, str, int]) -> None:
    """Let the first state not be written before this call."""
    go_on = Event()
    at_call(patch, StateStore, "_write", 1, lambda: go_on.wait(60))
    at_call(patch, *until, go_on.set)


def states_copied(patch: pytest.MonkeyPatch) -> list[int]:
    """After which updates states are copied from now on."""
    return calls_of(patch, StateStore, "save", lambda _, step, *__: step)


def test_training_goes_on_while_a_slow_disk_writes_a_state(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """States that are due in the meantime, as after updates 4 to 8, are one later state."""
    monkeypatch.setattr("translate.training.states.MAX_WAIT", 0.01)
    steps = states_copied(monkeypatch)
    held_back(monkeypatch, update(9))
    run = train(tiny.config("training.checkpoint_every=2"))
    assert steps[0] < 9  # after the first update that finds the buffers ready
    assert steps[1] >= 9
    assert_same_run(run, uninterrupted("training.checkpoint_every=2"))


def test_a_late_state_is_saved_when_the_run_is_over(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.training.states.MAX_WAIT", 0.01)
    held_back(monkeypatch, (States, "save_if_due", 1))
    run = train(tiny.config("training.checkpoint_every=2"))
    assert newest_state(run)[1]["step"] == 21
    assert_same_run(run, uninterrupted("training.checkpoint_every=2"))


def test_a_late_state_is_saved_before_the_mean_is_measured(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    """If the run is resumed then, the mean is measured once more, and has one row in the log."""
    overrides = ("training.average_last=2", "training.checkpoint_every=20")
    write, go_on = StateStore._write, Event()

    def slowly(self: StateStore, step: int, *state: Any) -> None:
        assert step != 20 or go_on.wait(60)
        write(self, step, *state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("translate.training.states.MAX_WAIT", 0.01)
        patch.setattr(StateStore, "_write", slowly)
        at_call(patch, States, "save_if_due", 1, go_on.set)
        stop(kill, (RunFolder, "finish", 1), tiny, *overrides, error=Killed)
    assert_same_run(train(tiny.config(*overrides), resume=True), uninterrupted(*overrides))


def test_no_sound_state(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    stop(sigterm, update(2), tiny)
    truncate(tiny.folder / "run/states/step-00000002.safetensors")
    with pytest.raises(
        CheckpointError, match=r"no usable training state in .*; start over with --overwrite, or elsewhere with o"
    ):
        train(tiny.config(), resume=True)
    assert "using the previous" not in caplog.text


def test_nothing_to_resume(tiny: TinyProject) -> None:
    with pytest.raises(
        CheckpointError, match=r"no usable training state in .*; start over with --overwrite, or elsewhere with o"
    ):
        train(tiny.config(), resume=True)


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_last_states_are_kept(keep: int, tiny: TinyProject) -> None:
    run = train(tiny.config("training.checkpoint_every=5", f"training.keep_last={keep}"))
    steps = [5, 7, 10, 14, 15, 20, 21][-keep:]
    assert sorted(path.name for path in run.states.iterdir()) == [f"step-{step:08d}.safetensors" for step in steps]


def fill_the_disk(patch: pytest.MonkeyPatch) -> None:
    """For files, but not for the log."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    patch.setattr("translate.system.files.os", SimpleNamespace(**{**vars(os), "fsync": full}))


def test_a_full_disk_leaves_the_states_before_it(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, StateStore, "_write", 2, lambda: fill_the_disk(patch))
        with pytest.raises(
            CheckpointError, match=r"cannot write .*step-00000014\.safetensors: No space left on device"
        ):
            train(tiny.config())
    assert [path.name for path in (tiny.folder / "run/states").iterdir()] == ["step-00000007.safetensors"]
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())
