"""Which model of a run is the best, by what its validations find."""

import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_updates import CPU, small_model

from translate.config.training import TrainingConfig
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.errors import CheckpointError, DataError
from translate.model.build import Model
from translate.system import terminal
from translate.training.learner import Learner
from translate.training.model_selection import ModelSelection, Validate, Validation, describe_validation
from translate.training.snapshots import Snapshots
from translate.training.tracking import Bar, MetricsLog
from translate.training.writer import Writer


def found(nll: float, bleu: float = 0.0, accuracy: float = 0.5) -> Validation:
    return Validation(nll, accuracy, {"bleu": bleu}, truncated=3, summary=f"nll {nll}", warning=None, samples=[])


class Selection(ModelSelection):
    """That of a run of one update an epoch, which change nothing; notes what is `saved`: kind, loss and step."""

    def __init__(
        self,
        validate: Iterable[Validation] | Validate,
        snapshots: Snapshots | None = None,
        best: Any = "loss",
        processes: Processes = SINGLE_PROCESS,
    ) -> None:
        learner = Learner(small_model(), TrainingConfig(best=best), CPU, torch.float32, processes, updates_per_epoch=1)
        self.saved: list[tuple[str, float, int]] = []
        self.progress = learner.progress
        left = iter(() if callable(validate) else validate)
        super().__init__(learner, validate if callable(validate) else lambda model: next(left), self._save, snapshots)

    def _save(self, kind: str, model: Model, validation: Validation, step: int) -> None:
        self.saved.append((kind, validation.nll, step))

    def validate_after(self, *steps: int, weights: float | None = None) -> None:
        """Validate after each of these updates; they set all weights to this number, if there is one."""
        for step in steps:
            self.progress.step = self.progress.epoch = step
            if weights is not None:
                fill(self.learner.model, weights)
            self.validate()


def fill(model: Model, number: float) -> None:
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, number)


def weight_of(model: Model) -> float:
    return float(next(model.parameters()).detach().flatten()[0])


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path / "snapshots", 2, Writer())


# --- which one is the best -------------------------------------------------------------------------------------------

NAN = math.nan


@pytest.mark.parametrize(
    ("best", "validations", "step"),
    [
        ("loss", [found(3.0), found(1.0), found(2.0)], 2),
        ("loss", [found(-2.001), found(-2.0)], 1),
        ("loss", [found(1.0), found(1.0)], 1),
        ("loss", [found(1.0, bleu=1.0, accuracy=0.5), found(2.0, bleu=2.0, accuracy=0.6)], 1),
        ("bleu", [found(1.0, bleu=34.611), found(2.0, bleu=34.621)], 2),
        ("bleu", [found(1.0, bleu=34.611), found(2.0, bleu=34.614)], 1),  # shown as equal: the loss decides
        ("bleu", [found(3.0), found(2.0), found(1.0)], 3),  # all 0, as BLEU long is for short or unspaced targets
        ("accuracy", [found(1.0, accuracy=0.7312), found(2.0, accuracy=0.7349)], 2),
        ("accuracy", [found(2.0), found(1.0)], 2),
        *((best, [found(NAN), found(2.0), found(3.0)], 2) for best in ("loss", "bleu", "accuracy")),
        *((best, [found(NAN), found(NAN), found(3.0)], 3) for best in ("loss", "bleu", "accuracy")),
        *((best, [found(2.0), found(NAN), found(1.0)], 3) for best in ("loss", "bleu", "accuracy")),
        ("loss", [found(NAN), found(NAN)], 1),  # any is better than none
        ("bleu", [found(1.0, bleu=NAN), found(2.0, bleu=0.0)], 2),
    ],
)
def test_the_best_model(best: str, validations: list[Validation], step: int) -> None:
    selection = Selection(validations, best=best)
    selection.validate_after(*range(1, len(validations) + 1))
    winner = validations[step - 1]
    assert selection.saved[-1] == ("validation", pytest.approx(winner.nll, nan_ok=True), step)
    assert selection.progress.best_step == step


def test_every_model_that_is_better_than_those_before_is_saved() -> None:
    selection = Selection(map(found, [3.0, 4.0, 2.0]))
    selection.validate_after(1, 2, 3)
    assert selection.saved == [("validation", 3.0, 1), ("validation", 2.0, 3)]


def test_the_model_that_training_starts_from_may_remain_the_best(snapshots: Snapshots) -> None:
    """It is no validation of the run: a mean is without it, and patience does not count it."""
    selection = Selection(map(found, [1.0, 2.0]), snapshots)
    selection.measure_start()
    assert (selection.progress.snapshots, selection.progress.validations_since_best) == ([], 0)
    selection.validate_after(1)
    assert selection.saved == [("validation", 1.0, 0)]
    assert (selection.progress.best_step, selection.progress.snapshots) == (0, [1])


def test_patience_counts_validations_in_a_row() -> None:
    selection, counted = Selection(map(found, [3.0, 4.0, NAN, 2.0, 4.0, 1.0])), []
    for step in range(6):
        selection.validate_after(step)
        counted.append(selection.progress.validations_since_best)
        assert selection.progress.validated_step == step
    assert counted == [0, 1, 2, 0, 1, 0]


# --- how it is measured ----------------------------------------------------------------------------------------------


def test_a_long_validation_is_not_silent(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def validate(model: Model) -> Validation:
        while not caplog.messages:
            time.sleep(0.001)
        return found(1.0)

    caplog.set_level(logging.INFO, "translate")
    monkeypatch.setattr(terminal, "TELL_EVERY", 0.001)
    Selection(validate).validate_after(7)
    assert caplog.messages[0] == "validation after update 7: 0 s so far"


def test_models_are_measured_without_dropout() -> None:
    def validate(model: Model) -> Validation:
        assert not model.training
        return found(1.0)

    selection = Selection(validate)
    selection.learner.model.train()
    selection.validate_after(1)


def test_all_processes_decide_by_what_the_first_finds_and_it_alone_writes(snapshots: Snapshots) -> None:
    class Second(Processes):
        def on_first(self, work: Callable[[], Any]) -> Any:
            return found(2.0, bleu=7.0)

    selection = Selection(lambda model: pytest.fail("it was measured"), snapshots, best="bleu", processes=Second())
    selection.validate_after(1)
    snapshots.writer.wait()
    assert (selection.progress.best_metric, selection.progress.snapshots) == (7.0, [1])
    assert (selection.saved, snapshots.paths()) == ([], [])


def test_a_validation_is_a_row_of_the_log_and_a_line_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = replace(found(1.0, bleu=7.5), samples=[{"source": "a", "translation": "b"}], warning="few words")
    selection = Selection([told, found(9.0, bleu=7.0)], best="bleu")
    selection.learner.bar = Bar(total=9, done=0)
    with closing(MetricsLog(tmp_path / "log")) as selection.learner.metrics:
        selection.validate_after(4, 5)
    first, second = map(json.loads, (tmp_path / "log").read_text(encoding="utf-8").splitlines())
    assert set(first.pop("timing")) == {"seconds"}
    assert first == {
        "kind": "validation",
        "step": 4,
        "epoch": 4.0,
        "nll": 1.0,
        "perplexity": pytest.approx(math.e),
        "accuracy": 0.5,
        "bleu": 7.5,
        "truncated": 3,
        "best": True,
        "warning": "few words",
        "samples": [{"source": "a", "translation": "b"}],
    }
    assert not second["best"]
    assert capsys.readouterr().err == (
        "epoch 4, update 4: validation nll 1.0 (best so far)\n  source      a\n  translation b\n"
        "  warning: few words\nepoch 5, update 5: validation nll 9.0\n"
    )


def test_the_seconds_of_all_validations_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((1.0, 1.5, 10.0, 12.0))
    monkeypatch.setattr("translate.training.model_selection.time.perf_counter", lambda: next(clock))
    selection = Selection(map(found, [1.0, 2.0]))
    selection.validate_after(1, 2)
    assert selection.seconds == 2.5


@pytest.mark.parametrize("given_up", [True, False])
def test_a_validation_without_memory_is_made_again_if_updates_can_give_up_some(
    given_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Model] = []

    def validate(model: Model) -> Validation:
        tries.append(model)
        if len(tries) == 1:
            raise DataError("out of memory with a single sentence")
        return found(1.0)

    selection = Selection(validate)
    monkeypatch.setattr(selection.learner.update, "give_up_memory", lambda: given_up)
    if given_up:
        selection.validate_after(1)
    else:
        with pytest.raises(DataError, match=r"^out of memory with a single sentence$"):
            selection.validate_after(1)
        assert selection.progress.validated_step == 0  # It is still due when the run is resumed.
    assert len(tries) == len(selection.saved) + 1 == 1 + given_up


# --- the mean of the last ones ---------------------------------------------------------------------------------------


def test_the_mean_is_measured_and_the_weights_stay(snapshots: Snapshots, capsys: pytest.CaptureFixture[str]) -> None:
    measured: list[float] = []

    def validate(model: Model) -> Validation:
        measured.append(weight_of(model))
        return found(9.0 - len(measured))

    selection = Selection(validate, snapshots)
    selection.learner.bar = Bar(total=4, done=0)
    for step, weights in enumerate((100.0, 1.0, 3.0), 1):
        selection.validate_after(step, weights=weights)
    capsys.readouterr()
    selection.measure_mean()
    assert measured == [100.0, 1.0, 3.0, 2.0]
    assert weight_of(selection.learner.model) == 3.0
    assert selection.saved[-1] == ("validation of the mean", 5.0, 3)
    assert capsys.readouterr().err == (
        "average of the weights at the last 2 validations:\nepoch 3, update 3: validation nll 5.0 (best so far)\n"
    )


def test_the_weights_are_back_when_the_validation_of_the_mean_is_stopped(snapshots: Snapshots) -> None:
    def validate(model: Model) -> Validation:
        if weight_of(model) == 2.0:
            raise KeyboardInterrupt
        return found(1.0)

    selection = Selection(validate, snapshots)
    selection.validate_after(1, weights=1.0)
    selection.validate_after(2, weights=3.0)
    with pytest.raises(KeyboardInterrupt):
        selection.measure_mean()
    assert weight_of(selection.learner.model) == 3.0


def test_a_mean_that_is_worse_is_not_kept(snapshots: Snapshots) -> None:
    selection = Selection(map(found, [2.0, 1.0, 3.0, 1.5]), snapshots)
    selection.validate_after(1, 2, 3)
    selection.measure_mean()
    assert selection.saved[-1] == ("validation", 1.0, 2)
    assert selection.progress.best_step == 2


def test_as_many_snapshots_are_expected_as_are_kept(snapshots: Snapshots) -> None:
    selection = Selection(map(found, [4.0, 3.0, 2.0, 1.0]), snapshots)
    selection.validate_after(1, 2, 3, 3)  # The last one is repeated because the best model was lost.
    assert selection.progress.snapshots == [2, 3]


@pytest.mark.parametrize(
    ("validations", "lost", "said"),
    [
        (1, 0, ["there was one validation only, so there is nothing to average"]),
        (2, 1, ["only 1 of the last 2 snapshots are left", "there is nothing to average"]),
        (2, 2, ["only 0 of the last 2 snapshots are left", "there is nothing to average"]),
    ],
)
def test_fewer_than_two_have_no_mean(
    validations: int, lost: int, said: list[str], snapshots: Snapshots, capsys: pytest.CaptureFixture[str]
) -> None:
    selection = Selection(map(found, [2.0, 1.0]), snapshots)
    selection.validate_after(*range(1, validations + 1))
    snapshots.writer.wait()
    for path in snapshots.paths()[:lost]:
        path.unlink()
    selection.learner.bar = Bar(total=9, done=0)
    selection.measure_mean()
    assert capsys.readouterr().err == "".join(f"training.average_last: {line}\n" for line in said)


def test_a_mean_of_fewer_than_asked_for_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", 3, Writer())
    selection = Selection(map(found, [3.0, 2.0, 1.0, 4.0]), snapshots)
    selection.validate_after(1, 2, 3)
    snapshots.writer.wait()
    snapshots.paths()[0].unlink()
    selection.learner.bar = Bar(total=9, done=0)
    selection.measure_mean()
    assert capsys.readouterr().err.startswith(
        "training.average_last: only 2 of the last 3 snapshots are left\n"
        "average of the weights at the last 2 validations:\n"
    )


def test_without_snapshots_there_is_no_mean() -> None:
    selection = Selection(map(found, [2.0, 1.0]))
    selection.validate_after(1, 2)
    selection.measure_mean()  # A third validation would find nothing.
    assert selection.progress.snapshots == []


def test_processes_that_find_different_snapshots(snapshots: Snapshots) -> None:
    class OneOfTwo(Processes):
        def gather(self, *numbers: float) -> Any:
            return np.array([[numbers[0]], [numbers[0] + 1]])

    with pytest.raises(CheckpointError, match="the processes find different snapshots; they must share one output"):
        Selection([], snapshots, processes=OneOfTwo()).measure_mean()


def test_all_processes_read_snapshots_only_once_the_first_has_written_them(
    snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    class Second(Processes):
        def on_first(self, work: Callable[[], Any]) -> Any:
            events.append("waited")

    monkeypatch.setattr(snapshots, "mean", lambda: events.append("read") or (0, {}))
    Selection([], snapshots, processes=Second()).measure_mean()
    assert events == ["waited", "read"]


def test_of_a_long_text_the_beginning_is_shown() -> None:
    sample = {"source": "x" * 400, "translation": "y" * 401}
    validation = Validation(1.0, 0.5, {}, truncated=0, summary="", warning=None, samples=[sample])
    shown = describe_validation(validation, epoch=1.0, step=2, best=False)
    assert shown.splitlines()[1:] == [f"  source      {'x' * 400}", f"  translation {'y' * 400}…"]


def test_a_warning_of_a_validation_is_shown() -> None:
    validation = Validation(1.0, 0.5, {}, truncated=0, summary="", warning="all alike", samples=[])
    shown = describe_validation(validation, epoch=1.0, step=2, best=False)
    assert shown.endswith("\n  warning: all alike")
