"""The summed loss, equal to PyTorch's own."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div

from translate.data.batching import IGNORED
from translate.optimization import loss as loss_module
from translate.optimization.loss import (
    ELEMENTS_AT_ONCE,
    _row_blocks,
    perplexity,
    plain_r_drop_loss,
    plain_smoothed_loss,
    r_drop_loss_,
    smoothed_loss_,
)


def drawn(rows: int = 7, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Logits of a vocabulary of 11 tokens, and labels."""
    generator = torch.Generator().manual_seed(0)
    logits_NV = 4 * torch.randn(rows, 11, generator=generator)
    return logits_NV.to(dtype).requires_grad_(), torch.randint(0, 11, (rows,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("at_once", [1, 11, 30, 2**18])
def test_equals_cross_entropy_in_value_and_gradient(
    smoothing: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "ELEMENTS_AT_ONCE", at_once)
    logits_NV, labels_N = drawn()
    loss, (_, nll) = smoothed_loss_(logits_NV.clone(), labels_N, smoothing)
    expected = cross_entropy(logits_NV, labels_N, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, cross_entropy(logits_NV, labels_N, reduction="sum"))
    (found_gradient,) = torch.autograd.grad(loss / 3, logits_NV)
    (expected_gradient,) = torch.autograd.grad(expected / 3, logits_NV)
    torch.testing.assert_close(found_gradient, expected_gradient)
    assert not nll.requires_grad


def test_the_loss_of_a_sure_model_keeps_its_digits() -> None:
    """Near the end of training, it decides between models that are equally accurate."""
    generator = torch.Generator().manual_seed(6)
    logits_NV = 2 * torch.randn(4000, 11, generator=generator)
    labels_N = torch.randint(0, 11, (4000,), generator=generator)
    logits_NV.scatter_(1, labels_N[:, None], logits_NV.logsumexp(1, keepdim=True) + 10)
    exact = cross_entropy(logits_NV.double(), labels_N, reduction="sum").item()
    assert 4e-5 < exact / 4000 < 5e-5
    _, (_, nll) = smoothed_loss_(logits_NV, labels_N, 0.0)
    assert nll.item() == pytest.approx(exact, rel=1e-2)


def test_without_smoothing_both_are_the_same() -> None:
    loss, (_, nll) = smoothed_loss_(*drawn(), 0.0)
    assert loss.item() == nll.item()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sums_in_float32_whatever_the_logits(smoothing: float) -> None:
    logits_NV, labels_N = drawn(rows=3000, dtype=torch.bfloat16)
    loss, (_, nll) = smoothed_loss_(logits_NV.clone(), labels_N, smoothing)
    assert loss.dtype is nll.dtype is torch.float32
    exact = cross_entropy(logits_NV.double(), labels_N, reduction="sum", label_smoothing=smoothing)
    assert loss.item() == pytest.approx(exact.item(), rel=1e-5)
    loss.backward()
    assert logits_NV.grad is not None
    assert logits_NV.grad.dtype is torch.bfloat16


LOSSES: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "smoothed": lambda logits, labels, scale=1.0: smoothed_loss_(logits, labels, 0.1, scale),
    "plain smoothed": lambda logits, labels, scale=1.0: plain_smoothed_loss(logits, labels, 0.1, scale),
    "r-drop": lambda logits, labels, scale=1.0: r_drop_loss_(logits, labels[::2], 0.1, 2.0, scale),
    "plain r-drop": lambda logits, labels, scale=1.0: plain_r_drop_loss(logits, labels[::2], 0.1, 2.0, scale),
}


@pytest.mark.parametrize("name", LOSSES)
def test_rows_after_those_of_the_labels_do_not_count(name: str) -> None:
    loss_of = LOSSES[name]
    logits_NV, labels_N = drawn(rows=8)
    further = torch.full((5, logits_NV.shape[1]), 3.0)
    logits_MV = torch.cat([logits_NV.detach(), further]).requires_grad_()
    found, expected = loss_of(logits_MV, labels_N), loss_of(logits_NV, labels_N)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.0)
    (gradient_MV,) = torch.autograd.grad(found[0], logits_MV)
    (gradient_NV,) = torch.autograd.grad(expected[0], logits_NV)
    assert torch.equal(gradient_MV, torch.cat([gradient_NV, torch.zeros_like(further)]))


@pytest.mark.parametrize("name", ["smoothed", "r-drop"])
def test_the_gradient_takes_the_place_of_scores_that_nobody_needs(name: str) -> None:
    logits_NV, labels_N = drawn(rows=8)
    scores_NV = logits_NV.clone()
    (gradient_NV,) = torch.autograd.grad(LOSSES[name](scores_NV, labels_N)[0], scores_NV)
    assert gradient_NV.data_ptr() == scores_NV.data_ptr()
    scores_NV = logits_NV.clone()
    needs_them = scores_NV.square().sum()
    LOSSES[name](scores_NV, labels_N)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        needs_them.backward()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [1 / 3, 1e-4, 0.0])
@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_scale_multiplies_what_is_differentiated_and_not_the_sums(name: str, scale: float, factor: float) -> None:
    logits_NV, labels_N = drawn(rows=8)
    (whole, expected_sums), (part, sums) = (LOSSES[name](logits_NV.clone(), labels_N, each) for each in (1.0, scale))
    assert sums.tolist() == expected_sums.tolist()
    assert part.item() == pytest.approx(scale * whole.item())
    expected, found = (torch.autograd.grad(factor * loss, logits_NV)[0] for loss in (scale * whole, part))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["smoothed", "r-drop"])
def test_a_share_needs_no_product_with_the_whole_gradient(name: str) -> None:
    logits_NV, labels_N = drawn(rows=8)
    for factor, changes in ((1.0, 0), (1 / 300, 1)):
        scores_NV = logits_NV.clone()
        loss, _ = LOSSES[name](scores_NV, labels_N, 1 / 300)
        changed = scores_NV._version
        (factor * loss).backward()
        assert scores_NV._version == changed + changes


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_on_a_cpu_is_any_value_looked_at(name: str, dtype: torch.dtype) -> None:
    """As on a GPU, which would have to be waited for; a tensor on the device `meta` has no values."""
    logits_MV = torch.zeros(9, 11, dtype=dtype, device="meta", requires_grad=True)
    labels_N = torch.zeros(8, dtype=torch.int64, device="meta")
    loss, sums = LOSSES[name](logits_MV.clone(), labels_N)
    (gradient_MV,) = torch.autograd.grad(loss / 3, logits_MV)
    assert (loss.device, sums.device) == (logits_MV.device, logits_MV.device)
    assert (gradient_MV.device, gradient_MV.dtype) == (logits_MV.device, dtype)


@pytest.mark.parametrize(("device", "blocks"), [("cpu", 4), ("meta", 1)])
def test_only_a_cpu_has_a_cache_that_rows_have_to_fit_into(device: str, blocks: int) -> None:
    """A GPU would have less to do in a block than Python, which launches the operations."""
    rows = list(_row_blocks(torch.empty(100, ELEMENTS_AT_ONCE // 32, device=device)))
    assert len(rows) == blocks
    assert [row for block in rows for row in range(100)[block]] == [*range(100)]


def test_scores_stay_where_no_gradient_is_asked_for() -> None:
    logits_NV, labels_N = drawn()
    scores_NV = logits_NV.detach().clone()
    smoothed_loss_(scores_NV, labels_N, 0.1)
    assert torch.equal(scores_NV, logits_NV)


@pytest.mark.parametrize("weight", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("at_once", [1, 30, 2**18])
def test_r_drop_equals_pytorch_in_value_and_gradient(
    weight: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "ELEMENTS_AT_ONCE", at_once)
    one_NV, labels_N = drawn()
    other_NV = torch.randn(one_NV.shape, generator=torch.Generator().manual_seed(1)).requires_grad_()
    passes = [one_NV, other_NV]
    loss, (_, nll) = r_drop_loss_(torch.cat(passes), labels_N, 0.1, weight)
    log_p, log_q = (scores_NV.log_softmax(1) for scores_NV in passes)
    apart = kl_div(log_q, log_p, reduction="sum", log_target=True) + kl_div(
        log_p, log_q, reduction="sum", log_target=True
    )
    smoothed = sum(cross_entropy(scores, labels_N, reduction="sum", label_smoothing=0.1) for scores in passes)
    expected = (smoothed + weight * apart / 2) / 2
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, sum(cross_entropy(scores, labels_N, reduction="sum") for scores in passes) / 2)
    for ours, theirs in zip(*(torch.autograd.grad(3 * t, passes) for t in (loss, expected)), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not nll.requires_grad


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_plain_r_drop_is_the_same_and_ignores_rows_without_a_label(weight: float) -> None:
    twice_NV, labels_N = drawn(rows=14)
    labels_N = labels_N[:7]
    expected = r_drop_loss_(twice_NV.clone(), labels_N, 0.1, weight)
    nothing = torch.full((2, twice_NV.shape[1]), 3.0)
    padded_NV = torch.cat([twice_NV[:7], nothing, twice_NV[7:], nothing + torch.randn(nothing.shape)])
    found = plain_r_drop_loss(padded_NV, torch.cat([labels_N, torch.full((2,), IGNORED)]), 0.1, weight)
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(loss, twice_NV)[0] for loss, _ in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_passes_that_agree_have_the_loss_of_one() -> None:
    logits_NV, labels_N = drawn()
    same_NV = logits_NV.detach().clone().requires_grad_()
    found = r_drop_loss_(torch.cat([logits_NV, same_NV]), labels_N, 0.1, 4.0)
    expected = smoothed_loss_(logits_NV.clone(), labels_N, 0.1)
    torch.testing.assert_close(found, expected)
    halves = torch.autograd.grad(found[0], [logits_NV, same_NV])
    (whole,) = torch.autograd.grad(expected[0], logits_NV)
    for half in halves:
        torch.testing.assert_close(2 * half, whole)


def test_large_logits_stay_finite() -> None:
    logits_NV = torch.tensor([[1e4, -1e4, 0.0]])
    loss, (_, nll) = smoothed_loss_(logits_NV, torch.tensor([1]), 0.1)
    assert nll.item() == pytest.approx(2e4)
    assert loss.item() == pytest.approx(0.9 * 2e4 + 0.1 * 1e4)


@pytest.mark.parametrize("far", [50.0, 80.0, 85.0, 95.0, 1e4])
def test_labels_that_seem_impossible(far: float) -> None:
    logits_NV, labels_N = drawn(rows=8)
    logits_NV = (logits_NV.detach() - far * (torch.arange(11) == labels_N[:, None])).double().requires_grad_()
    plain, fast = (plain_smoothed_loss, plain_r_drop_loss), (smoothed_loss_, r_drop_loss_)
    for (slow, quick), count, settings in zip(zip(plain, fast, strict=True), (8, 4), ((0.1,), (0.1, 2.0)), strict=True):
        expected = slow(logits_NV, labels_N[:count], *settings)
        found = quick(logits_NV.float(), labels_N[:count], *settings)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0.0)
        ours, theirs = (torch.autograd.grad(loss, logits_NV)[0] for loss, _ in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_no_tokens_no_loss() -> None:
    loss, (_, nll) = smoothed_loss_(torch.empty(0, 5), torch.empty(0, dtype=torch.int64), 0.1)
    assert (loss.item(), nll.item()) == (0.0, 0.0)


def test_the_perplexity_of_a_model_that_is_blown_up_is_a_number() -> None:
    assert perplexity(2.0) == pytest.approx(math.e**2)
    assert perplexity(1000.0) == perplexity(math.inf) == math.exp(100)
