"""The training loss, and what is counted on the way: sums over tokens, divided once by the tokens of the whole step.

Dimension letters in names: N real target tokens, R some of them, V target vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ELEMENTS_AT_ONCE = 2**18  # of the logits: a megabyte in float32, which the cache of a core holds


@dataclass
class Sums:
    """Sums over real target tokens. `loss` is label-smoothed, `nll` is not; both in nats."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0

    def add(self, loss: float, nll: float, tokens: int) -> None:
        self.loss += loss
        self.nll += nll
        self.tokens += tokens


def smoothed_loss(logits_NV: Tensor, labels_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The summed cross-entropy with and without label smoothing (Szegedy et al., 2016), as scalars in float32.

    The true token has probability 1 - smoothing, and `smoothing` is spread evenly over the whole vocabulary, as in
    `torch.nn.functional.cross_entropy`. Only the smoothed one can be differentiated.
    """
    loss, nll = _SmoothedLoss.apply(logits_NV, labels_N, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll


class _SmoothedLoss(torch.autograd.Function):
    """Some rows at a time, with their gradient, while they are in the cache: all of them together are not.

    The same written out in tensors of all rows, in float32 and kept for the backward pass, makes whole updates of a
    small model an eighth slower on a CPU, and takes 350 MB more for a batch of 1500 tokens and a vocabulary of 6000.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, labels_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        size = logits_NV.shape[1]
        sums = torch.zeros(2, device=logits_NV.device)
        gradient_NV = torch.empty_like(logits_NV) if ctx.needs_input_grad[0] else None
        for rows in _some_rows(logits_NV):
            some_RV = logits_NV[rows].float()
            labels_R1 = labels_N[rows, None]
            most_R, place_R = some_RV.max(1)
            probability_RV = some_RV.softmax(1)
            # The greatest probability is at least 1 / V: its logarithm is finite, whatever the logits are.
            normalizer_R = most_R - probability_RV.gather(1, place_R[:, None]).squeeze(1).log()
            nll_R = normalizer_R - some_RV.gather(1, labels_R1).squeeze(1)
            uniform_R = normalizer_R - some_RV.mean(1)
            sums += torch.stack([torch.lerp(nll_R, uniform_R, smoothing).sum(), nll_R.sum()])
            if gradient_NV is not None:
                probability_RV -= smoothing / size
                probability_RV.scatter_add_(
                    1, labels_R1, torch.full_like(labels_R1, smoothing - 1, dtype=torch.float32)
                )
                gradient_NV[rows] = probability_RV
        if gradient_NV is not None:
            ctx.save_for_backward(gradient_NV)
        loss, nll = sums.unbind()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        (gradient_NV,) = ctx.saved_tensors
        return gradient_NV * loss_gradient.to(gradient_NV.dtype), None, None


def divergence(one_NV: Tensor, other_NV: Tensor) -> Tensor:
    """The sum of (KL(p ‖ q) + KL(q ‖ p)) / 2 over the tokens, p and q from the scores of two passes: a float32 scalar.

    R-Drop (Wu et al., 2021) draws the two distributions together that dropout has driven apart.
    """
    return _Divergence.apply(one_NV, other_NV)  # type: ignore[no-untyped-call]


class _Divergence(torch.autograd.Function):
    """Some rows at a time, as the loss."""

    @staticmethod
    def forward(ctx: Any, one_NV: Tensor, other_NV: Tensor) -> Tensor:
        total = torch.zeros((), device=one_NV.device)
        gradients = torch.empty_like(one_NV), torch.empty_like(other_NV)
        for rows in _some_rows(one_NV):
            log_p_RV, log_q_RV = one_NV[rows].float().log_softmax(1), other_NV[rows].float().log_softmax(1)
            p_RV, q_RV = log_p_RV.exp(), log_q_RV.exp()
            apart_RV = log_p_RV.sub_(log_q_RV)
            p_from_q_R1 = (p_RV * apart_RV).sum(1, keepdim=True)
            q_from_p_R1 = -(q_RV * apart_RV).sum(1, keepdim=True)
            total += (p_from_q_R1 + q_from_p_R1).sum() / 2
            gradients[0][rows] = (p_RV * (apart_RV - p_from_q_R1 + 1) - q_RV) / 2
            gradients[1][rows] = (q_RV * (1 - apart_RV - q_from_p_R1) - p_RV) / 2
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, total_gradient: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient * total_gradient.to(gradient.dtype) for gradient in ctx.saved_tensors)


def _some_rows(logits_NV: Tensor) -> Iterator[slice]:
    """All rows, on a CPU as many at a time as the cache of a core holds."""
    size = max(1, ELEMENTS_AT_ONCE // logits_NV.shape[1]) if logits_NV.device.type == "cpu" else max(1, len(logits_NV))
    return (slice(start, start + size) for start in range(0, len(logits_NV), size))
