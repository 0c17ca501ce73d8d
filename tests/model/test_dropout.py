"""Dropout: the share it zeroes, what it leaves, and that it can be repeated."""

import pytest
import torch

from translate.model.dropout import Dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_share_of_zeros_and_the_scale_of_the_rest(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    dropped = Dropout(p)(torch.ones(1000, 1001, dtype=dtype))
    zeros = (dropped == 0).double()
    assert zeros.mean().item() == pytest.approx(p, abs=0.002)  # four standard deviations
    assert dropped[dropped != 0].unique().tolist() == [torch.tensor(1 / (1 - p), dtype=dtype).item()]
    # Four neighbours share one draw of 64 bits: no place among them is special, and none knows of the next.
    for place in range(4):
        assert zeros.flatten()[place::4].mean().item() == pytest.approx(p, abs=0.004)
    pairs = zeros[:, :-1] * zeros[:, 1:]
    assert pairs.mean().item() == pytest.approx(p * p, abs=0.003)


def test_the_gradient_passes_where_the_value_does() -> None:
    torch.manual_seed(1)
    x = torch.randn(64, 33, requires_grad=True)
    dropped = Dropout(0.4)(x)
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(dropped == 0, 0.0, 1 / (1 - 0.4)))


def test_the_same_random_state_drops_the_same() -> None:
    x, dropout = torch.ones(7, 5), Dropout(0.5)
    state = torch.get_rng_state()
    first = dropout(x)
    second = dropout(x)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(first, second)


def test_nothing_is_dropped_in_evaluation_or_at_zero() -> None:
    x = torch.randn(4, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
