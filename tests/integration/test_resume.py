"""A run that was interrupted ends as if it never had been: to the bit, whatever stopped it, wherever it stopped."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TinyProject, assert_same_run, at_call, newest_state, rows, sentences, write_split

from translate import validation as validation_module
from translate.errors import CheckpointError
from translate.pipeline import train
from translate.runs import RunFolder
from translate.training.checkpoint import StateStore
from translate.training.interrupt import Interrupted
from translate.training.tracking import MetricsLog
from translate.training.trainer import Trainer
from translate.validation import Validator

ROOT = Path(__file__).resolve().parents[2]
UPDATES = 21  # of a tiny run, 7 in each epoch, unless its batches are others

# Dropout is on in all of them.
VARIANTS = {
    "plain": (),
    "states off the beat": ("training.checkpoint_every=4", "training.keep_last=3"),
    "validations off the beat": ("training.validate_every=5", "training.checkpoint_every=3"),
    "accumulation": ("training.batch.max_tokens=60", "training.batch.accumulate=3"),
    "bfloat16": ("training.precision=bfloat16",),
    "muon": ("training.optimizer.kind=muon",),
    "adam and more dropout": (
        "training.optimizer.kind=adam",
        "model.attention_dropout=0.1",
        "model.ffn_dropout=0.1",
    ),
    "tied weights, learned positions": ("model.tie=all", "text.joint_vocabulary=true", "model.positions=learned"),
    "best by loss, cosine": ("training.best=loss", "training.schedule.kind=cosine"),
}


class Killed(BaseException):
    """Stands for kill -9: no code of ours handles it."""


@pytest.fixture(scope="module")
def uninterrupted(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunFolder]:
    """The run with these overrides that nothing stops; each is trained once."""

    @cache
    def run(*overrides: str) -> RunFolder:
        return train(TinyProject(tiny_corpus, tmp_path_factory.mktemp("uninterrupted")).config(*overrides))

    return run


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def kill() -> None:
    raise Killed


def stop(
    act: Callable[[], None],
    moment: tuple[Any, str, int],
    tiny: TinyProject,
    *overrides: str,
    error: type[BaseException] = Interrupted,
    **how: bool,
) -> BaseException:
    """Train until `act` stops the run at a moment: just before the call of owner.name with this number."""
    config = tiny.config(*overrides)
    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, *moment, act)
        with pytest.raises(error) as caught:
            train(config, **how)
    return caught.value


def update(number: int) -> tuple[Any, str, int]:
    """The moment of the update with this number, counted from the start or from the resume."""
    return Trainer, "_update", number


# --- what stopped it, and where --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, UPDATES + 1))
def test_sigterm_at_any_update(number: int, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    stop(sigterm, update(number), tiny)
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == number
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_two_interruptions(name: str, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    overrides = VARIANTS[name]
    stop(sigterm, update(3), tiny, *overrides)
    stop(sigint, update(8), tiny, *overrides, resume=True)
    run = train(tiny.config(*overrides), resume=True)
    assert newest_state(run)[1]["step"] >= UPDATES
    assert_same_run(run, uninterrupted(*overrides))


@pytest.mark.slow
@pytest.mark.parametrize("validation", [1, 2, 3])
def test_sigterm_in_the_middle_of_a_validation(
    validation: int, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    stop(sigterm, (validation_module, "smoothed_loss", validation), tiny)
    progress = newest_state(RunFolder(tiny.folder / "run"))[1]
    assert progress["step"] == 7 * validation
    assert progress["validated_step"] == 7 * (validation - 1)
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


MOMENTS = {
    "in an update": (Trainer, "_update", 11),
    "in a validation": (Validator, "__call__", 2),
    "with a row of the log unwritten": (MetricsLog, "write", 6),
    "with a state unwritten": (StateStore, "save", 3),
    "with an old state not removed": (StateStore, "paths", 4),
    "with the end not marked": (RunFolder, "finish", 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed(moment: str, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    overrides = ("training.checkpoint_every=5",)
    stop(kill, MOMENTS[moment], tiny, *overrides, error=Killed)
    run = train(tiny.config(*overrides), resume=True)
    assert run.finished.is_file()
    assert_same_run(run, uninterrupted(*overrides))


@pytest.mark.slow
def test_kill_9_of_a_process_at_a_random_moment(
    tiny: TinyProject, tiny_corpus: Path, uninterrupted: Callable[..., RunFolder]
) -> None:
    overrides = ("training.max_epochs=24", "training.validate_every=50", "training.checkpoint_every=5", "threads=1")
    tiny.config()  # writes the file
    command = [sys.executable, ROOT / "scripts/train.py", "--config", tiny.folder / "tiny.yaml", *overrides]
    states = tiny.folder / "run/states"
    with (tiny.folder / "stderr").open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        while not any(states.glob("step-*")) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.5))
        process.kill()
    said = (tiny.folder / "stderr").read_text(encoding="utf-8")
    assert process.returncode == -signal.SIGKILL, said
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] < 24 * 7
    assert_same_run(train(tiny.config(*overrides), resume=True), uninterrupted(*overrides))


@pytest.mark.parametrize(("send", "exit_code", "name"), [(sigint, 130, "SIGINT"), (sigterm, 143, "SIGTERM")])
def test_an_interruption_names_its_signal(
    send: Callable[[], None], exit_code: int, name: str, tiny: TinyProject
) -> None:
    error = stop(send, update(1), tiny)
    assert isinstance(error, Interrupted)
    assert str(error) == f"stopped by {name}"
    assert error.exit_code == exit_code


def test_a_second_ctrl_c_stops_at_once(tiny: TinyProject) -> None:
    def twice() -> None:
        sigint()
        sigint()

    stop(twice, update(2), tiny, error=KeyboardInterrupt)
    assert not list((tiny.folder / "run/states").iterdir())


def test_patience_survives(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    # So small a rate changes nothing: the first validation is the best one, and two more use up the patience.
    overrides = ("training.optimizer.lr=1e-15", "training.patience=2", "training.max_epochs=9")
    stop(sigterm, update(16), tiny, *overrides)
    run = train(tiny.config(*overrides), resume=True)
    assert newest_state(run)[1]["step"] == 3 * 7
    assert_same_run(run, uninterrupted(*overrides))


# --- damaged states --------------------------------------------------------------------------------------------------


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
    assert "going back to the state before it" in caplog.text
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == 15
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_no_sound_state(tiny: TinyProject) -> None:
    stop(sigterm, update(2), tiny)
    truncate(tiny.folder / "run/states/step-00000002.safetensors")
    with pytest.raises(CheckpointError, match=r"no training state to resume in .*; start anew with --overwrite"):
        train(tiny.config(), resume=True)


def test_nothing_to_resume(tiny: TinyProject) -> None:
    with pytest.raises(CheckpointError, match=r"no training state to resume in .*; start anew with --overwrite"):
        train(tiny.config(), resume=True)


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_last_states_are_kept(keep: int, tiny: TinyProject) -> None:
    run = train(tiny.config("training.checkpoint_every=5", f"training.keep_last={keep}"))
    steps = [5, 7, 10, 14, 15, 20, 21][-keep:]
    assert sorted(path.name for path in run.states.iterdir()) == [f"step-{step:08d}.safetensors" for step in steps]


def test_a_full_disk_leaves_the_states_before_it(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, StateStore, "save", 2, lambda: patch.setattr("translate.files.os.fsync", full))
        with pytest.raises(
            CheckpointError, match=r"cannot write .*step-00000014\.safetensors: No space left on device"
        ):
            train(tiny.config())
    assert [path.name for path in (tiny.folder / "run/states").iterdir()] == ["step-00000007.safetensors"]
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


# --- what may have changed -------------------------------------------------------------------------------------------


def test_other_settings_are_refused_and_all_named(tiny: TinyProject) -> None:
    stop(sigterm, update(2), tiny)
    with pytest.raises(CheckpointError) as caught:
        train(tiny.config("training.optimizer.lr=0.002", "model.dropout=0.2", "decoding.max_extra=5"), resume=True)
    assert str(caught.value).split("\n") == [
        "cannot resume, because the run began otherwise:",
        "  model.dropout: 0.1 → 0.2",
        "  training.optimizer.lr: 0.005 → 0.002",
        "  decoding.max_extra: 2 → 5",
        "take these changes back, or start a new run with output=…",
    ]


@pytest.mark.parametrize(("split", "name"), [("train", "train"), ("val", "valid")])
def test_another_text_is_refused(split: str, name: str, tiny: TinyProject) -> None:
    corpus = shutil.copytree(tiny.corpus, tiny.folder / "corpus")
    stop(sigterm, update(2), tiny, f"data.root={corpus}")
    with (corpus / f"{split}.en").open("a", encoding="utf-8") as target:
        target.write("neba\n")
    with (corpus / f"{split}.de").open("a", encoding="utf-8") as source:
        source.write("bane\n")
    with pytest.raises(CheckpointError, match=f"the {name} text is another one"):
        train(tiny.config(f"data.root={corpus}"), resume=True)


def test_a_run_may_move_and_search_otherwise(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    stop(sigterm, update(9), tiny)
    corpus = shutil.copytree(tiny.corpus, tiny.folder / "corpus")
    (tiny.folder / "run").rename(tiny.folder / "moved")
    moved = (f"output={tiny.folder}/moved", f"data.root={corpus}", f"data.cache={corpus}/cache2")
    files = f"data.train={{source: {corpus}/train.de, target: {corpus}/train.en}}"
    others = ("decoding.beam_size=2", "decoding.search=greedy", "training.keep_last=1", "training.checkpoint_every=2")
    run = train(tiny.config(*moved, files, *others, "training.samples=0", "threads=1"), resume=True)
    assert run.path == tiny.folder / "moved"
    assert_same_run(run, uninterrupted())


# --- a folder that holds a run ---------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_a_finished_run_stays_as_it_is(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    run = train(tiny.config())
    before = contents(run.path)
    assert train(tiny.config(), resume=True) == run
    assert f"{run.path} is finished: there is nothing to resume" in caplog.text
    assert contents(run.path) == before
    with pytest.raises(CheckpointError, match=r"training\.max_epochs: 3 → 4"):
        train(tiny.config("training.max_epochs=4"), resume=True)


def test_a_run_is_not_overwritten_by_accident(tiny: TinyProject) -> None:
    stop(sigterm, update(2), tiny)
    before = contents(tiny.folder / "run")
    with pytest.raises(CheckpointError) as caught:
        train(tiny.config())
    assert str(caught.value) == (
        f"{tiny.folder}/run already holds a run; --resume goes on with it, --overwrite replaces it, "
        "output=… leaves it alone"
    )
    assert contents(tiny.folder / "run") == before


def test_overwriting_replaces_a_run_and_nothing_else(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    run = train(tiny.config("seed=7", "training.max_epochs=4", "training.keep_last=9"))
    notes = run.path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    stop(sigterm, update(2), tiny, overwrite=True)
    assert not run.finished.exists()
    assert not run.model.exists()
    assert [path.name for path in run.states.iterdir()] == ["step-00000002.safetensors"]
    assert notes.read_text(encoding="utf-8") == "mine"
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_a_mistake_overwrites_nothing(tiny: TinyProject) -> None:
    run = train(tiny.config())
    before = contents(run.path)
    write_split(tiny.folder / "long", "val", *sentences(9, seed=6))
    mistakes = [
        ("data.root=nowhere", "nowhere"),
        ("model.positions=learned,model.max_positions=5", "positions"),
    ]
    for overrides, message in mistakes:
        with pytest.raises(Exception, match=message):
            train(tiny.config(*overrides.split(",")), overwrite=True)
        assert contents(run.path) == before


def test_the_log_is_cut_where_the_state_ends(tiny: TinyProject) -> None:
    stop(sigterm, update(9), tiny)
    run = RunFolder(tiny.folder / "run")
    with run.metrics.open("ab") as file:
        file.write(b'{"kind": "train", "step": 12, "timing": {}}\n{"kind": "tra')
    train(tiny.config(), resume=True)
    steps = [row["step"] for row in rows(run)]
    assert steps == sorted(steps)
    assert 12 in steps
