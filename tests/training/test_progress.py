"""Where a run stands, saved as plain JSON and read again."""

import json
import math
from typing import Any

import pytest

from translate.training.progress import Progress, Sums


def read_back(progress: Progress) -> Progress:
    return Progress.from_dict(json.loads(json.dumps(progress.to_dict(), allow_nan=False)))


@pytest.mark.parametrize(
    ("metric", "nll"), [(0.5, math.inf), (-math.inf, 2.0), (0.5, 2.0)], ids=["no loss", "no metric", "both"]
)
def test_a_state_says_which_model_was_the_best(metric: float, nll: float) -> None:
    progress = Progress(step=9, best_step=7, best_metric=metric, best_nll=nll, recent=Sums(3.0, 2.0, 4), seconds=1.5)
    assert read_back(progress) == progress


def test_a_best_model_whose_loss_was_no_number_stays_the_best() -> None:
    # NaN counts as the worst metric.
    progress = Progress(step=9, best_step=7, best_metric=-math.inf, best_nll=math.inf)
    assert read_back(progress).best_step == 7


@pytest.mark.parametrize(
    ("metric", "nll", "is_score", "better"),
    [
        (34.62, 9.0, True, True),
        (34.6121, 1.0, True, True),
        (34.6131, 2.0, True, False),
        (34.60, 1.0, True, False),
        (34.6131, 2.0, False, True),
        (-math.inf, math.inf, True, False),
    ],
)
def test_scores_that_look_equal_leave_it_to_the_loss(metric: float, nll: float, is_score: bool, better: bool) -> None:
    best = Progress(best_step=7, best_metric=34.613, best_nll=1.5)
    assert best.is_beaten_by(metric, nll, is_score=is_score) == better
    assert Progress().is_beaten_by(metric, nll, is_score=is_score)


@pytest.mark.parametrize(
    ("step", "since_best", "patience", "left"),
    [(5, 3, None, 2), (5, 2, 3, 2), (5, 3, 3, 0), (7, 0, 3, 0), (9, 0, 3, -2), (9, 3, 3, -2)],
)
def test_patience_hides_no_update_too_many(step: int, since_best: int, patience: int | None, left: int) -> None:
    progress = Progress(step=step, validations_since_best=since_best)
    assert progress.updates_left(7, patience) == left


def test_a_run_that_has_lost_its_best_model_starts_to_look_for_one() -> None:
    known: dict[str, Any] = {
        "step": 9,
        "epoch": 1,
        "position": 2,
        "target_tokens": 50,
        "snapshots": [3, 6],
        "seconds": 1.5,
    }
    lost = Progress(**known, validated_step=9, best_step=3, best_metric=0.5, best_nll=2.0, validations_since_best=2)
    assert lost.without_best() == Progress(**known)


def test_a_run_that_was_not_validated_has_no_best_model() -> None:
    assert read_back(Progress(step=5)) == Progress(step=5)


def test_sums_add_up() -> None:
    sums = Sums()
    sums.add(Sums(3.0, 2.0, 4))
    sums.add(Sums(1.5, 1.0, 1))
    assert sums == Sums(loss=4.5, nll=3.0, tokens=5)
