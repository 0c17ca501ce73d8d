"""The best model and the summary that a run leaves."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from saved_models import ENGLISH, GERMAN, save_model

from translate.config.schema import Config
from translate.errors import TrainingError
from translate.model_file import SavedModel
from translate.runs.folder import RunFolder
from translate.runs.result import BestModel, finish, origin
from translate.system.paths import commit
from translate.training.model_selection import Validation
from translate.training.progress import Progress
from translate.training.writer import Writer

SECONDS = {"text_seconds": 0.04, "rehearsal_seconds": 1.26, "update_seconds": 30.0, "validation_seconds": 2.0}
FIGURES = {"nll": 1.5, "accuracy": 0.25, "bleu": 30.5}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """One whose model was the best after update 3."""
    run = RunFolder(tmp_path / "run")
    run.make()
    saved = SavedModel.load(save_model(run.model))
    SavedModel(saved.config, GERMAN, ENGLISH, saved.weights, {"validation": {"step": 3, **FIGURES}}).save(run.model)
    return run


def end(run: RunFolder, config: Config, resumed_after: int = 0, best_nll: float = 1.5) -> None:
    progress = Progress(step=9, target_tokens=700, best_nll=best_nll)
    finish(run, config, progress, {"device": "cpu"}, resumed_after, {**SECONDS, "seconds": 40.0})


def config_of(run: RunFolder, **training: Any) -> Config:
    config = SavedModel.load(run.model).config
    return config.model_copy(update={"training": config.training.model_copy(update=training)})


@pytest.mark.parametrize(
    ("best", "told"),
    [("loss", {"best_loss": 1.5}), ("accuracy", {"best_accuracy": 0.25}), ("bleu", {"best_bleu": 30.5})],
)
def test_the_summary_of_a_run(best: str, told: dict[str, float], run: RunFolder) -> None:
    before = run.model.stat().st_mtime_ns
    end(run, config_of(run, best=best))
    assert json.loads(run.finished.read_bytes()) == {
        "device": "cpu",
        "updates": 9,
        "target_tokens": 700,
        "best_update": 3,
        **told,
        "resumed_after": 0,
        "text_seconds": 0.0,
        "rehearsal_seconds": 1.3,
        "update_seconds": 30.0,
        "validation_seconds": 2.0,
        "seconds": 40.0,
    }
    assert run.model.stat().st_mtime_ns == before  # The file is not written again.


@pytest.mark.parametrize(("resumed_after", "since"), [(0, ""), (5, " since it was resumed after update 5")])
def test_where_the_time_went_is_told(
    resumed_after: int, since: str, run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    end(run, config_of(run, best="bleu"), resumed_after)
    assert caplog.messages == [
        f"finished in 40.0 s{since}: 0.0 s for preparing the text, 1.3 s for the trial batch, 30.0 s for updates, "
        "2.0 s for validation, the rest for startup and saving"
    ]


def test_a_run_is_over_before_that_is_told(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("translate.runs.result.log.info", interrupted)
    with pytest.raises(KeyboardInterrupt):
        end(run, config_of(run, best="bleu"))
    assert run.finished_after() == 9


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_a_run_without_a_finite_loss_fails(loss: float, run: RunFolder) -> None:
    with pytest.raises(TrainingError) as caught:
        end(run, config_of(run, best="bleu"), best_nll=loss)
    assert str(caught.value) == (
        "the loss was infinite or NaN at every validation: the model is useless; lower training.optimizer.lr, or "
        "check that training.optimizer.eps is large enough, and start over with --overwrite"
    )
    assert not run.finished.exists()


@pytest.mark.parametrize(("nll", "stored"), [(1.5, 1.5), (math.nan, None)])
def test_a_model_file_says_what_was_measured_and_has_the_weights_of_then(
    nll: float, stored: float | None, run: RunFolder
) -> None:
    saved, writer = SavedModel.load(run.model), Writer()
    save_best = BestModel(run.model, saved.config, (GERMAN, ENGLISH), {"commit": "abc"}, writer)
    model = saved.model()
    save_best("validation of the mean", model, Validation(nll, 0.5, {"bleu": 7.0}, 0, "", None, []), 12)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    writer.wait()
    found = SavedModel.load(run.model)
    assert found.about == {
        "commit": "abc",
        "validation": {"kind": "validation of the mean", "step": 12, "nll": stored, "accuracy": 0.5, "bleu": 7.0},
    }
    assert (found.config, found.source, found.target) == (saved.config, GERMAN, ENGLISH)
    assert all(torch.equal(found.weights[name], weight) for name, weight in saved.weights.items())


@pytest.mark.parametrize(("start", "longest"), [(None, 5), (3, 5), (7, 7)])
def test_where_a_model_comes_from(start: int | None, longest: int) -> None:
    parts = (SimpleNamespace(variant="sha256 1"), SimpleNamespace(variant="sha256 2"))
    text: Any = SimpleNamespace(
        train=SimpleNamespace(variant="2 corpora", parts=parts), valid=SimpleNamespace(variant="sha256 3")
    )
    learner: Any = SimpleNamespace(device=torch.device("cpu"), update=SimpleNamespace(dtype=torch.bfloat16))
    plan: Any = SimpleNamespace(indices=np.array([0, 2]), source_lengths=np.array([5, 9, 2]))
    saved: Any = None if start is None else SimpleNamespace(longest_source=start)
    assert origin(text, plan, learner, saved) == {
        "train": "2 corpora",
        "train_parts": ["sha256 1", "sha256 2"],
        "valid": "sha256 3",
        "longest_source": longest,
        "commit": commit(),
        "torch": torch.__version__,
        "device": "cpu",
        "dtype": "bfloat16",
    }
