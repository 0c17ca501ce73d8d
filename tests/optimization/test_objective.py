"""What is minimized: a batch once, or twice with R-Drop."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.config.training import TrainingConfig
from translate.data.batching import Batch
from translate.optimization.loss import plain_r_drop_loss, plain_smoothed_loss, r_drop_loss_, smoothed_loss_
from translate.optimization.objective import CrossEntropy, Objective, RDrop, build_objective

SIZE = 9


@pytest.fixture
def batch() -> Batch:
    rng = np.random.default_rng(0)
    source, target = (torch.from_numpy(rng.integers(4, SIZE, (3, 5))) for _ in range(2))
    mask = torch.arange(5) < torch.tensor([[5], [2], [3]])
    return Batch(source, mask, target, mask, target[mask])


class NoisyScores:
    """Scores that are others for each row of each call, as dropout makes them; remembers them."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, batch: Batch) -> Tensor:
        self.seen = torch.randn(len(batch.labels_N), SIZE, generator=self.generator).requires_grad_()
        return self.seen.clone()  # which the loss may overwrite


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_plain_losses_are_chosen_by_name_and_leave_scores_as_they_are(r_drop: float, plain: bool, batch: Batch) -> None:
    objective = build_objective(TrainingConfig(label_smoothing=0.2, r_drop=r_drop, plain=["loss"] if plain else []))
    of_two, of_one = (plain_r_drop_loss, plain_smoothed_loss) if plain else (r_drop_loss_, smoothed_loss_)
    assert objective == (RDrop(0.2, r_drop, of_two) if r_drop else CrossEntropy(0.2, of_one))
    scores = NoisyScores()(batch.twice() if r_drop else batch)
    objective(scores, batch.labels_N)
    assert (scores._version == 0) == plain


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
@pytest.mark.parametrize("plain", [False, True])
def test_what_is_differentiated_has_the_share_and_the_sums_do_not(r_drop: float, plain: bool, batch: Batch) -> None:
    objective = build_objective(TrainingConfig(r_drop=r_drop), plain=plain)
    loss, (total, _) = objective(NoisyScores()(objective.read(batch)), batch.labels_N, 1 / 3)
    assert loss.item() == pytest.approx(total.item() / 3)


@pytest.mark.parametrize(
    ("objective", "loss_of", "settings"),
    [
        (CrossEntropy(0.1), smoothed_loss_, (0.1,)),
        (CrossEntropy(0.1, plain_smoothed_loss), plain_smoothed_loss, (0.1,)),
        (RDrop(0.1, 5.0), r_drop_loss_, (0.1, 5.0)),
        (RDrop(0.1, 5.0, plain_r_drop_loss), plain_r_drop_loss, (0.1, 5.0)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, CrossEntropy | RDrop) else "",
)
def test_its_loss_is_that_of_one_pass_over_the_batch_or_over_the_batch_twice(
    objective: Objective, loss_of: Callable[..., tuple[Tensor, Tensor]], settings: tuple[float, ...], batch: Batch
) -> None:
    """What the losses themselves are is in test_loss.py."""
    scores = NoisyScores()
    found = objective(scores(objective.read(batch)), batch.labels_N)
    assert len(scores.seen) == len(batch.labels_N) * (2 if isinstance(objective, RDrop) else 1)
    expected = loss_of(scores.seen.clone(), batch.labels_N, *settings)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)
