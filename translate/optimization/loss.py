"""The training loss and the numbers logged with it: sums over tokens, divided once by the tokens of the whole update.

Dimension letters in names: N real target tokens, M these and any padding rows after them, which are ignored (see
`PaddedRows`), R the rows of one block, V target vocabulary. What begins with `twice` has the rows of two passes, one
pass after the other.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from translate.data.batching import IGNORED

ELEMENTS_AT_ONCE = 2**18  # elements of a block of logits: 1 MB in float32, which fits into caches and needs few calls
MIN_PROBABILITY = 1e-30  # float32 has few digits for those below 1e-38, and rounds the smallest to 0


def perplexity(nll: float) -> float:
    """e to the power of `nll`, capped so that a float can hold it."""
    return math.exp(min(nll, 100.0))


def plain_smoothed_loss(
    logits_MV: Tensor, labels_N: Tensor, smoothing: float, scale: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    """The same as `smoothed_loss_`, by PyTorch's own cross-entropy: the plain version, to be read first.

    Rows with the label `IGNORED` do not count.
    """
    logits_NV = logits_MV[: len(labels_N)].float()
    loss = cross_entropy(logits_NV, labels_N, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORED)
    nll = cross_entropy(logits_NV.detach(), labels_N, reduction="sum", ignore_index=IGNORED)
    return scale * loss, torch.stack([loss.detach(), nll])


def smoothed_loss_(
    logits_MV: Tensor, labels_N: Tensor, smoothing: float, scale: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    """`scale` times the summed cross-entropy, to be differentiated, and the sums (2,), with and without smoothing.

    Label smoothing (Szegedy et al., 2016) spreads a share `smoothing` of the probability evenly over the whole
    vocabulary, including the true token and the specials; the true token gets the rest as well, as in
    `torch.nn.functional.cross_entropy`. Rows of logits after those of the labels do not count. Results are float32.

    Logits that require a gradient are overwritten with it, hence the underscore, so it can be asked for only once.
    `scale` is multiplied into each block of it while that is in the cache: a product of the loss would take a pass over
    the whole gradient later.
    """
    loss, sums = _SmoothedLoss.apply(logits_MV, labels_N, smoothing, scale)  # type: ignore[no-untyped-call]
    return loss, sums


class _SmoothedLoss(torch.autograd.Function):
    """Computes loss and gradient together in the forward pass, in blocks of rows that fit into a CPU's cache.

    The gradient with respect to the logits is their softmax minus the smoothed distribution of the label. It overwrites
    the logits, often the largest tensor of all, which nothing else needs, and is all that the backward pass gets. With
    all rows at once, and float32 tensors saved for the backward pass, whole updates of a small model are an eighth
    slower on a CPU.
    """

    @staticmethod
    def forward(ctx: Any, logits_MV: Tensor, labels_N: Tensor, smoothing: float, scale: float) -> tuple[Tensor, Tensor]:
        sums = torch.zeros(2, device=logits_MV.device)
        # Safe to overwrite: if the backward pass of another operation needed the logits, autograd would raise.
        logits_MV = logits_MV.detach()
        logits_NV = logits_MV[: len(labels_N)]
        for rows in _row_blocks(logits_NV):
            logits_RV, labels_R1 = logits_NV[rows].float(), labels_N[rows, None]
            probability_RV = logits_RV.softmax(1)
            normalizer_R1 = _logsumexp(logits_RV, probability_RV, labels_R1)
            sums += _smoothed(logits_RV, normalizer_R1, labels_R1, smoothing)
            if ctx.needs_input_grad[0]:
                logits_NV[rows] = _minus_targets(probability_RV, labels_R1, smoothing, scale)
        if ctx.needs_input_grad[0]:
            logits_MV[len(labels_N) :] = 0
            ctx.save_for_backward(logits_MV)
        ctx.mark_non_differentiable(sums)
        return scale * sums[0], sums

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient_MV,) = ctx.saved_tensors
        return _multiplied_(gradient_MV, loss_gradient), None, None, None


def plain_r_drop_loss(
    twice_MV: Tensor, labels_N: Tensor, smoothing: float, weight: float, scale: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    """The same as `r_drop_loss_`, by PyTorch's own cross-entropy and divergence; `IGNORED` as above."""
    one_NV, other_NV = twice_MV[: 2 * len(labels_N)].chunk(2)
    one_loss, (_, one_nll) = plain_smoothed_loss(one_NV, labels_N, smoothing)
    other_loss, (_, other_nll) = plain_smoothed_loss(other_NV, labels_N, smoothing)
    log_p_NV, log_q_NV = one_NV.float().log_softmax(1), other_NV.float().log_softmax(1)
    both_ways = torch.stack([_divergence(log_p_NV, log_q_NV), _divergence(log_q_NV, log_p_NV)])
    loss = (one_loss + other_loss) / 2 + weight * (both_ways * (labels_N != IGNORED)).sum() / 4
    return scale * loss, torch.stack([loss.detach(), (one_nll + other_nll) / 2])


def _divergence(log_p_NV: Tensor, log_q_NV: Tensor) -> Tensor:
    """KL(p ‖ q) of each row, (N,)."""
    return kl_div(log_q_NV, log_p_NV, reduction="none", log_target=True).sum(1)


def r_drop_loss_(
    twice_MV: Tensor, labels_N: Tensor, smoothing: float, weight: float, scale: float | Tensor = 1.0
) -> tuple[Tensor, Tensor]:
    """The mean of `smoothed_loss_` over two passes, plus their divergence: `weight` · (KL(p ‖ q) + KL(q ‖ p)) / 4.

    `twice_MV` has the logits of one pass followed by those of the other, which give p and q; `labels_N` has the labels
    once; rows after those of both passes do not count. R-Drop (Liang et al., 2021, equation 4) draws the two
    distributions together that dropout has driven apart; this is half of what the paper minimizes, so that with weight
    0 it is the cross-entropy of one pass. Of the sums (2,), the second is without smoothing and divergence. The logits
    are overwritten with their gradient, even if they require none. `scale` is as in `smoothed_loss_`.
    """
    loss, sums = _RDropLoss.apply(twice_MV, labels_N, smoothing, weight, scale)  # type: ignore[no-untyped-call]
    return loss, sums


class _RDropLoss(torch.autograd.Function):
    """Works in blocks of rows like `_SmoothedLoss`; the divergence reuses the probabilities of the cross-entropy."""

    @staticmethod
    def forward(
        ctx: Any, twice_MV: Tensor, labels_N: Tensor, smoothing: float, weight: float, scale: float
    ) -> tuple[Tensor, Tensor]:
        sums = torch.zeros(2, device=twice_MV.device)
        twice_MV = twice_MV.detach()  # Safe to overwrite, as in `_SmoothedLoss`.
        counted = 2 * len(labels_N)
        one_NV, other_NV = twice_MV[:counted].chunk(2)
        for rows in _row_blocks(one_NV):
            one_RV, other_RV = (logits_NV[rows].to(torch.float32, copy=True) for logits_NV in (one_NV, other_NV))
            labels_R1 = labels_N[rows, None]
            p_RV, q_RV = one_RV.softmax(1), other_RV.softmax(1)
            normalizers = _logsumexp(one_RV, p_RV, labels_R1), _logsumexp(other_RV, q_RV, labels_R1)
            for logits_RV, normalizer_R1 in zip((one_RV, other_RV), normalizers, strict=True):
                sums += _smoothed(logits_RV, normalizer_R1, labels_R1, smoothing)
            # weight / 2 · (log p - log q), whose mean under p is weight / 2 · KL(p ‖ q).
            apart_RV = one_RV.sub_(other_RV).sub_(normalizers[0] - normalizers[1]).mul_(weight / 2)
            # The gradient of (KL(p ‖ q) + KL(q ‖ p)) / 2 with respect to p's logits is
            # (p · (log p - log q - KL(p ‖ q) + 1) - q) / 2; that of the cross-entropy is p, minus the targets.
            # For q, p and q swap places, and so `apart_RV` changes its sign.
            of_p, of_q = (one_NV, p_RV, q_RV, 1), (other_NV, q_RV, p_RV, -1)
            for logits_NV, own_RV, its_other_RV, sign in of_p, of_q:
                gradient_RV = torch.mul(own_RV, apart_RV, out=other_RV)  # `sign` times the gradient, until the end
                divergence_R1 = sign * gradient_RV.sum(1, keepdim=True)
                sums[0] += divergence_R1.sum()
                gradient_RV.addcmul_(own_RV, sign * (weight / 2 + 1 - divergence_R1))
                gradient_RV.sub_(its_other_RV, alpha=sign * weight / 2)
                logits_NV[rows] = _minus_targets(gradient_RV, labels_R1, smoothing, scale / 2, sign=sign)
        twice_MV[counted:] = 0
        ctx.save_for_backward(twice_MV)
        sums /= 2
        ctx.mark_non_differentiable(sums)
        return scale * sums[0], sums

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradient_MV,) = ctx.saved_tensors
        return _multiplied_(gradient_MV, loss_gradient), None, None, None, None


def _multiplied_(gradient_MV: Tensor, factor: Tensor) -> Tensor:
    """The product, in place; on a CPU, nothing is done for a factor of 1."""
    # On a GPU, the factor is not looked at: Python would have to wait until it is computed.
    return gradient_MV if factor.device.type == "cpu" and factor == 1 else gradient_MV.mul_(factor)


def _logsumexp(logits_RV: Tensor, probability_RV: Tensor, labels_R1: Tensor) -> Tensor:
    """The logarithm of the sum of the exponentials, (R, 1): any token's logit minus the log of its probability."""
    token_R1 = labels_R1
    # The label's may be too small for a logarithm; the likeliest token's is at least 1 / V, but takes a CPU a while to
    # find. On a GPU, Python would have to wait to learn whether any is too small.
    if probability_RV.device.type != "cpu" or (probability_RV.gather(1, labels_R1) < MIN_PROBABILITY).any():
        token_R1 = probability_RV.argmax(1, keepdim=True)
    return logits_RV.gather(1, token_R1) - probability_RV.gather(1, token_R1).log()


def _smoothed(logits_RV: Tensor, normalizer_R1: Tensor, labels_R1: Tensor, smoothing: float) -> Tensor:
    """The sums of the smoothed and of the plain negative log-likelihood."""
    # Row by row, because two large sums differ by little more than their rounding where the model is sure.
    nll = (normalizer_R1 - logits_RV.gather(1, labels_R1)).sum()
    uniform = normalizer_R1.sum() - logits_RV.sum() / logits_RV.shape[1]
    return torch.stack([torch.lerp(nll, uniform, smoothing), nll])


def _minus_targets(gradient_RV: Tensor, labels_R1: Tensor, smoothing: float, scale: float, *, sign: int = 1) -> Tensor:
    """`scale` · (`sign` · `gradient_RV` - the smoothed distribution of the labels), which overwrites `gradient_RV`."""
    # A scalar tensor plus a multiple of the gradient: one pass in place of a product and a difference.
    for_all = gradient_RV.new_full((), -scale * smoothing / gradient_RV.shape[1])
    torch.add(for_all, gradient_RV, alpha=sign * scale, out=gradient_RV)
    for_label = torch.full_like(labels_R1, scale * (smoothing - 1), dtype=torch.float32)
    return gradient_RV.scatter_add_(1, labels_R1, for_label)


def _row_blocks(logits_NV: Tensor) -> Iterator[slice]:
    """All rows; on a CPU, as many at a time as a core's cache holds."""
    size = max(1, ELEMENTS_AT_ONCE // logits_NV.shape[1]) if logits_NV.device.type == "cpu" else max(1, len(logits_NV))
    return (slice(start, start + size) for start in range(0, len(logits_NV), size))
