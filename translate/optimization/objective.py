"""The training objective: cross-entropy, or cross-entropy of two passes that are made to agree."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from translate.config.training import TrainingConfig
from translate.data.batching import Batch
from translate.optimization.loss import plain_r_drop_loss, plain_smoothed_loss, r_drop_loss_, smoothed_loss_

Loss = Callable[..., tuple[Tensor, Tensor]]  # a function of loss.py


class Objective(Protocol):
    """Returns `scale` times the loss to minimize, for the backward pass, and two sums over a batch's target tokens.

    The logits (M, V) are those of the batch that it `read`s: N rows, one for each target position with a label, and
    perhaps some more, which do not count (see loss.py). The sums (2,) are that loss, without `scale`, and the plain
    negative log-likelihood. The plain losses leave out labels that are `IGNORED`; the others take none.
    """

    def read(self, batch: Batch) -> Batch:
        """The batch that the model reads for it."""

    def __call__(self, logits_MV: Tensor, labels_N: Tensor, scale: float | Tensor = 1.0) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy with label smoothing, of one pass."""

    smoothing: float
    loss: Loss = smoothed_loss_

    def read(self, batch: Batch) -> Batch:
        return batch

    def __call__(self, logits_MV: Tensor, labels_N: Tensor, scale: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        return self.loss(logits_MV, labels_N, self.smoothing, scale)


@dataclass(frozen=True)
class RDrop:
    """Two passes with different dropout, and a penalty on how far their outputs differ (R-Drop: Liang et al., 2021)."""

    smoothing: float
    weight: float
    loss: Loss = r_drop_loss_

    def read(self, batch: Batch) -> Batch:
        return batch.twice()

    def __call__(self, logits_MV: Tensor, labels_N: Tensor, scale: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        return self.loss(logits_MV, labels_N, self.smoothing, self.weight, scale)


def build_objective(config: TrainingConfig, *, plain: bool = False) -> Objective:
    """The objective that the settings ask for; with PyTorch's own losses if `plain`, or if the settings say so."""
    plain = plain or "loss" in config.plain
    if config.r_drop > 0:
        return RDrop(config.label_smoothing, config.r_drop, plain_r_drop_loss if plain else r_drop_loss_)
    return CrossEntropy(config.label_smoothing, plain_smoothed_loss if plain else smoothed_loss_)
