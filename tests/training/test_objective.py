"""What is minimized: a batch once, or twice with R-Drop."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from translate.config.training import TrainingConfig
from translate.data.batching import Batch
from translate.training.objective import CrossEntropy, PlainCrossEntropy, PlainRDrop, RDrop, build_objective

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


def test_the_settings_choose() -> None:
    assert build_objective(TrainingConfig(label_smoothing=0.2)) == CrossEntropy(0.2)
    assert build_objective(TrainingConfig(label_smoothing=0.2, r_drop=3.0)) == RDrop(0.2, 3.0)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_plain_losses_are_chosen_by_name_and_leave_scores_as_they_are(r_drop: float, plain: bool, batch: Batch) -> None:
    objective = build_objective(TrainingConfig(label_smoothing=0.2, r_drop=r_drop, plain=["loss"] if plain else []))
    with_weight, without = (PlainRDrop, PlainCrossEntropy) if plain else (RDrop, CrossEntropy)
    assert objective == (with_weight(0.2, r_drop) if r_drop else without(0.2))
    scores = NoisyScores()(batch.twice() if r_drop else batch)
    objective(lambda _: scores, batch)
    assert (scores._version == 0) == plain


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_a_share_that_the_loss_is_told_costs_no_multiplication_later(r_drop: float, batch: Batch) -> None:
    scores = NoisyScores()(batch.twice() if r_drop else batch)
    loss, _ = build_objective(TrainingConfig(r_drop=r_drop))(lambda _: scores, batch, 1 / 3)
    changed = scores._version
    (loss * (1 / 3)).backward()
    assert scores._version == changed


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float, batch: Batch) -> None:
    logits = NoisyScores()
    loss, nll = CrossEntropy(smoothing)(logits, batch)
    torch.testing.assert_close(
        loss, F.cross_entropy(logits.seen, batch.labels_N, reduction="sum", label_smoothing=smoothing)
    )
    torch.testing.assert_close(nll, F.cross_entropy(logits.seen, batch.labels_N, reduction="sum"))


@pytest.mark.parametrize("weight", [1.0, 5.0])
def test_r_drop_is_half_of_what_the_paper_writes(weight: float, batch: Batch) -> None:
    logits = NoisyScores()
    loss, nll = RDrop(0.1, weight)(logits, batch)
    p, q = logits.seen.chunk(2)
    entropy = sum(F.cross_entropy(one, batch.labels_N, reduction="sum", label_smoothing=0.1) for one in (p, q))
    log_p, log_q = p.log_softmax(1), q.log_softmax(1)
    apart = (
        F.kl_div(log_q, log_p, reduction="sum", log_target=True),
        F.kl_div(log_p, log_q, reduction="sum", log_target=True),
    )
    expected = (entropy + weight * sum(apart) / 2) / 2
    torch.testing.assert_close(loss, expected)
    surprise = sum(F.cross_entropy(one, batch.labels_N, reduction="sum") for one in (p, q)) / 2
    torch.testing.assert_close(nll, surprise)
    for ours, theirs in zip(*(torch.autograd.grad(t, logits.seen) for t in (loss, expected)), strict=True):
        torch.testing.assert_close(ours, theirs)
