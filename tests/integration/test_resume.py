"""A run that was interrupted ends as if it never had been: to the bit, whatever stopped it, wherever it stopped."""

import json
import logging
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import (
    Killed,
    TinyProject,
    assert_same_run,
    assert_same_tensors,
    at_call,
    calls_of,
    kill,
    newest_state,
    rows,
    sigint,
    sigterm,
    stop,
    update,
)
from torch import Tensor

from translate.errors import CheckpointError
from translate.evaluation import validation as validation_module
from translate.evaluation.validation import Validator
from translate.model.layers import DecoderLayer
from translate.optimization.update import Update
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.system import interrupt as interrupt_module
from translate.system import precision
from translate.system.interrupt import Interrupted
from translate.training.checkpoint import StateStore
from translate.training.progress import Progress
from translate.training.states import States
from translate.training.tracking import MetricsLog
from translate.training.trainer import Trainer

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
    "tied weights, fewer words in the target": ("model.tie=all", "text={joint_vocabulary: true, target_min_freq: 24}"),
    "R-Drop": ("training.r_drop=2.0",),
    "mean of snapshots": ("training.average_last=2", "training.validate_every=4"),
    "best by loss, cosine": ("training.best=loss", "training.schedule.kind=cosine"),
}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, UPDATES + 1))
def test_sigterm_at_any_update(number: int, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    stop(sigterm, update(number), tiny)
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == number
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [(Update, "accumulate_all", 1), (Update, "accumulate_all", 5), (DecoderLayer, "forward", 5)],
    ids=["at the beginning", "forward pass", "backward pass"],
)
@pytest.mark.parametrize(
    "settings",
    [(), VARIANTS["accumulation"], VARIANTS["R-Drop"], ("training.activation_checkpointing=true",)],
    ids=str,
)
def test_an_update_that_would_take_long_is_made_again(
    settings: tuple[str, ...],
    moment: tuple[Any, str, int],
    tiny: TinyProject,
    monkeypatch: pytest.MonkeyPatch,
    uninterrupted: Callable[..., RunFolder],
) -> None:
    monkeypatch.setattr(interrupt_module, "WORTH_WAITING", -1.0)
    begun, made = calls_of(monkeypatch, Trainer, "_update"), calls_of(monkeypatch, Update, "step")
    stop(sigterm, moment, tiny, *settings)
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == len(made) == len(begun) - 1
    assert_same_run(train(tiny.config(*settings), resume=True), uninterrupted(*settings))


@pytest.mark.slow
def test_the_state_before_an_abandoned_update_is_written_once(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, uninterrupted: Callable[..., RunFolder]
) -> None:
    monkeypatch.setattr(interrupt_module, "WORTH_WAITING", -1.0)
    often = "training.checkpoint_every=1"
    saved = calls_of(monkeypatch, StateStore, "save")
    stop(sigterm, (Update, "accumulate_all", 5), tiny, often)
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == len(saved) > 2
    assert_same_run(train(tiny.config(often), resume=True), uninterrupted(often))


def test_a_state_that_is_due_where_a_validation_is_is_written_once(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = calls_of(monkeypatch, StateStore, "save")
    train(tiny.config("training.checkpoint_every=7", "training.max_epochs=2"))
    assert len(saved) == 2


def test_the_time_of_updates_is_kept_with_their_tokens(tiny: TinyProject) -> None:
    stop(sigterm, update(7), tiny)  # The last of an epoch, before its row is written.
    run = train(tiny.config(), resume=True)
    lines = map(json.loads, run.metrics.read_text(encoding="utf-8").splitlines())
    timing = {row["step"]: row["timing"] for row in lines if row["kind"] == "train"}
    seconds = timing[7]["seconds"] - timing[4]["seconds"]
    (target_tokens,) = [row["target_tokens"] for row in rows(run) if row["kind"] == "train" and row["step"] == 7]
    assert 0 < timing[7]["target_tokens_per_second"] <= 1.01 * target_tokens / seconds


def test_the_seconds_of_a_resumed_run_are_its_own(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="translate")
    stop(sigterm, update(9), tiny)
    resume = Trainer.resume

    def long_ago(self: Trainer, tensors: dict[str, Tensor], progress: Progress) -> None:
        progress.seconds += 1000.0
        resume(self, tensors, progress)

    monkeypatch.setattr(Trainer, "resume", long_ago)
    finished = json.loads(train(tiny.config(), resume=True).finished.read_bytes())
    assert 0 <= finished["update_seconds"] <= finished["seconds"] < 1000
    assert finished["resumed_after"] == 9
    assert f"finished in {finished['seconds']} s since it was resumed after update 9: " in caplog.text


@pytest.mark.parametrize("lost", [1, 2])
def test_a_mean_of_fewer_snapshots_is_said_to_be_one(
    lost: int, tiny: TinyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    averaged = ("training.average_last=3", "training.checkpoint_every=1")
    stop(sigterm, update(20), tiny, *averaged)
    for path in sorted((tiny.folder / "run/snapshots").glob("step-*"))[:lost]:
        path.unlink()
    run = train(tiny.config(*averaged), resume=True)
    said = capsys.readouterr().err
    assert f"training.average_last: only {3 - lost} of the last 3 snapshots are left\n" in said
    assert ("training.average_last: there is nothing to average" in said) == (lost == 2)
    assert "there was one validation only" not in said
    assert newest_state(run)[1]["snapshots"] == [7, 14, 21]


def test_a_validation_that_is_repeated_has_one_snapshot(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    averaged = ("training.average_last=4",)
    stop(kill, (RunFolder, "finish", 1), tiny, *averaged, error=Killed)
    (tiny.folder / "run/model.safetensors").unlink()
    run = train(tiny.config(*averaged), resume=True)
    assert newest_state(run)[1]["snapshots"] == [7, 14, 21]
    assert "snapshots are left" not in capsys.readouterr().err


def test_sigterm_while_a_state_is_written_waits_for_that_one_alone(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder], capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = threading.Event()
    write, unwritten = StateStore._write, StateStore.unwritten

    def slow_disk(self: StateStore, *arguments: Any) -> None:
        assert stopped.wait(60.0)
        write(self, *arguments)

    def asked_at_the_end(self: StateStore) -> int | None:
        found = unwritten(self)
        stopped.set()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateStore, "_write", slow_disk)
        patch.setattr(StateStore, "unwritten", asked_at_the_end)
        at_call(patch, *update(9), sigterm)
        with pytest.raises(Interrupted):
            train(tiny.config())
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == 7
    said = (
        "the training state after update 7 was still being written and is kept as the last one; "
        "updates to repeat when resuming: 2"
    )
    assert said in capsys.readouterr().err
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


def test_a_signal_does_not_wait_for_the_validation_that_is_due(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Validator, "__call__", lambda *_: pytest.fail("it was validated"))
    stop(sigterm, update(7), tiny)
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["validated_step"] == 0


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
def test_sigterm_while_the_mean_is_measured(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    overrides = ("training.average_last=2",)
    stop(sigterm, (validation_module, "smoothed_loss_", 4), tiny, *overrides)
    assert_same_run(train(tiny.config(*overrides), resume=True), uninterrupted(*overrides))


def test_the_mean_does_not_take_the_place_of_the_weights(tiny: TinyProject) -> None:
    """A run that is stopped again while the mean is measured saves its state once more."""
    overrides = ("training.average_last=2",)
    stop(sigterm, (validation_module, "smoothed_loss_", 4), tiny, *overrides)
    before, _ = newest_state(RunFolder(tiny.folder / "run"))
    stop(sigterm, (validation_module, "smoothed_loss_", 1), tiny, *overrides, resume=True)
    assert_same_tensors(newest_state(RunFolder(tiny.folder / "run"))[0], before)


@pytest.mark.slow
@pytest.mark.parametrize("validation", [1, 2, 3])
def test_sigterm_in_the_middle_of_a_validation(
    validation: int, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    stop(sigterm, (validation_module, "smoothed_loss_", validation), tiny)
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
        goal = random.randrange(5, 100)
        while not any(int(path.stem[5:]) >= goal for path in states.glob("step-*")) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.05))
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


def test_a_second_ctrl_c_stops_at_once(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt_module, "ECHO", 0)

    def twice() -> None:
        sigint()
        sigint()

    stop(twice, update(2), tiny, error=KeyboardInterrupt)
    assert not list((tiny.folder / "run/states").iterdir())


def test_buffers_are_filled_after_the_first_update_of_every_start(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first copy of a state would take long otherwise."""
    reserved = calls_of(monkeypatch, States, "reserve", lambda self: self.learner.progress.step)
    stop(sigterm, update(9), tiny)
    train(tiny.config(), resume=True)
    assert reserved == [1, 10]


def test_patience_survives(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    # So small a rate changes nothing: the first validation is the best one, and two more use up the patience.
    overrides = ("training.optimizer.lr=1e-15", "training.patience=2", "training.max_epochs=9")
    stop(sigterm, update(16), tiny, *overrides)
    run = train(tiny.config(*overrides), resume=True)
    assert newest_state(run)[1]["step"] == 3 * 7
    assert_same_run(run, uninterrupted(*overrides))


@pytest.mark.parametrize("kind", ["constant", "inverse_sqrt"])
def test_a_longer_run(kind: str, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    schedule = f"training.schedule.kind={kind}"
    ended = train(tiny.config(schedule, "training.max_epochs=1"))
    assert newest_state(ended)[1]["step"] == 7
    stop(sigterm, update(9), tiny, schedule, resume=True)
    assert json.loads(ended.finished.read_bytes())["updates"] == 7  # There is a finished model all the time.
    assert "max_epochs: 3" in ended.config.read_text(encoding="utf-8")
    run = train(tiny.config(schedule), resume=True)
    assert json.loads(run.finished.read_bytes())["updates"] == UPDATES
    assert_same_run(run, uninterrupted(schedule))


def test_a_longer_run_that_was_killed_just_before_its_end_is_not_the_one_that_finished(tiny: TinyProject) -> None:
    schedule = "training.schedule.kind=constant"
    ended = train(tiny.config(schedule, "training.max_epochs=1"))
    stop(kill, (RunFolder, "finish", 1), tiny, schedule, error=Killed, resume=True)
    assert newest_state(ended)[1]["step"] == UPDATES
    assert json.loads(train(tiny.config(schedule), resume=True).finished.read_bytes())["updates"] == UPDATES


def test_a_run_that_would_end_in_other_weights_is_not_made_longer(tiny: TinyProject) -> None:
    for setting, reason in (
        ("training.schedule.kind=cosine", "the cosine schedule depends on the length of the run"),
        ("training.average_last=2", "training.average_last depends on where the run ends"),
    ):
        train(tiny.config(setting, "training.max_epochs=1"), overwrite=True)
        with pytest.raises(CheckpointError) as caught:
            train(tiny.config(setting), resume=True)
        assert f"  training.max_epochs: 1 → 3, but {reason}; a new run can start from its model" in str(caught.value)


def test_more_patience(
    tiny: TinyProject,
    uninterrupted: Callable[..., RunFolder],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    overrides = ("training.optimizer.lr=1e-15", "training.patience=2", "training.max_epochs=9")  # Nothing gets better.
    run = train(tiny.config(*overrides, "training.patience=1"))
    assert newest_state(run)[1]["step"] == 2 * 7
    assert "early stopping (training.patience): validations without a better model: 1" in capsys.readouterr().err
    with caplog.at_level(logging.INFO, "translate"):
        assert train(tiny.config(*overrides, "training.patience=1"), resume=True) == run
    assert f"{run.path} is finished: there is nothing to resume" in caplog.text
    run = train(tiny.config(*overrides), resume=True)
    assert newest_state(run)[1]["step"] == 3 * 7
    assert_same_run(run, uninterrupted(*overrides))


def test_stopping_at_the_last_update_is_not_early(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny.config("training.optimizer.lr=1e-15", "training.patience=1", "training.max_epochs=2"))
    assert "early stopping" not in capsys.readouterr().err


def test_the_log_is_cut_where_the_state_ends(tiny: TinyProject) -> None:
    stop(sigterm, update(9), tiny)
    run = RunFolder(tiny.folder / "run")
    with run.metrics.open("ab") as file:
        file.write(b'{"kind": "train", "step": 12, "timing": {}}\n{"kind": "tra')
    train(tiny.config(), resume=True)
    steps = [row["step"] for row in rows(run)]
    assert steps == sorted(steps)
    assert 12 in steps


def test_the_arithmetic_stays_what_was_measured_first(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "_speed_up_of_bfloat16", lambda rows, width: 2.0)
    stop(sigterm, update(3), tiny, "training.precision=auto")
    monkeypatch.setattr(precision, "_speed_up_of_bfloat16", lambda rows, width: 0.04)  # as on another machine
    run = train(tiny.config("training.precision=auto"), resume=True)
    assert json.loads(run.finished.read_bytes())["dtype"] == "bfloat16"
    assert sum("0.04 times as fast as float32" in message for message in caplog.messages) == 1


def test_the_same_text_may_be_named_in_another_way(tiny: TinyProject) -> None:
    files = f"{{source: {tiny.corpus}/train.de, target: {tiny.corpus}/train.en}}"
    run = train(tiny.config("training.max_steps=2"))
    for way in ("train", "[train]", "[{split: train}]", files, f"[{files}]"):
        assert train(tiny.config("training.max_steps=2", f"data.train={way}"), resume=True) == run
    valid = f"data.valid={{source: {tiny.corpus}/val.de, target: {tiny.corpus}/val.en}}"
    assert train(tiny.config("training.max_steps=2", valid), resume=True) == run
    with pytest.raises(CheckpointError, match="the train text has changed: the weights of its corpora\n"):
        train(tiny.config("training.max_steps=2", "data.train=[{split: train, weight: 2}]"), resume=True)
