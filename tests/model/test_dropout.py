"""Dropout: the share it zeroes, what it leaves, that it can be repeated, and where in a model it stands."""

from typing import Any

import pytest
import torch
from torch import nn

from translate.config.model import TransformerConfig
from translate.model.build import NORMS, build_transformer, embedding
from translate.model.dropout import Dropout
from translate.model.layers import FeedForward


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [2**-16, 0.1, 0.37, 0.99])
def test_what_is_dropped_are_the_least_draws_of_sixteen_bits(p: float, dtype: torch.dtype) -> None:
    x = torch.randn(37, 1003).to(dtype)
    state = torch.get_rng_state()
    drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = drawn.view(torch.int16)[: x.numel()].view(x.shape).int() + 2**15 >= round(p * 2**16)
    torch.set_rng_state(state)
    assert torch.equal(Dropout(p)(x), x * (kept.to(dtype) * (1 / (1 - p))))


def test_hardly_anything_is_left_by_a_p_of_nearly_one() -> None:
    torch.manual_seed(1)
    dropped = Dropout(1 - 1e-6)(torch.ones(2000, 5000))
    assert (dropped != 0).double().mean().item() == pytest.approx(1e-6, rel=0.9)
    assert dropped.amax().item() == pytest.approx(1e6, rel=1e-3)


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
    assert Dropout(2**-18)(x) is x  # rounds to zero


def test_a_gpu_has_pytorchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `meta` is no CPU either."""
    rates: list[float] = []
    monkeypatch.setattr(nn.functional, "dropout", lambda x, p: rates.append(p) or x)
    Dropout(0.3)(torch.ones(3, device="meta"))
    assert rates == [0.3]


# --- in a model ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_each_dropout_of_a_model_is_used_once_with_its_own_rate(norm: str) -> None:
    small: dict[str, Any] = {"d_model": 8, "ffn": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "norm": norm}
    config = TransformerConfig(**small, dropout=0.1, attention_dropout=0.2, ffn_dropout=0.3)
    model = build_transformer(config, source_size=9, target_size=9)
    used: list[tuple[str, float]] = []
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(lambda module, *_, name=name: used.append((name, module.p)))
    ids, mask = torch.tensor([[4, 5]]), torch.tensor([[True, True]])
    model(ids, mask, ids, mask)
    assert used == [
        ("source_embedding.dropout", 0.1),
        ("encoder.0.self_attention.dropout", 0.2),
        ("encoder.0.self_residual.dropout", 0.1),
        ("encoder.0.feed_forward.dropout", 0.3),
        ("encoder.0.feed_residual.dropout", 0.1),
        ("target_embedding.dropout", 0.1),
        ("decoder.0.self_attention.dropout", 0.2),
        ("decoder.0.self_residual.dropout", 0.1),
        ("decoder.0.cross_attention.dropout", 0.2),
        ("decoder.0.cross_residual.dropout", 0.1),
        ("decoder.0.feed_forward.dropout", 0.3),
        ("decoder.0.feed_residual.dropout", 0.1),
    ]


def test_a_feed_forward_drops_what_its_activation_gives() -> None:
    layer = FeedForward(d_model=4, hidden=1000, activation=nn.Sigmoid(), dropout=0.3)
    layer.contract = nn.Identity()
    dropped = layer(torch.zeros(100, 4))
    assert dropped.unique().tolist() == pytest.approx([0.0, 0.5 / 0.7])
    assert (dropped == 0).double().mean().item() == pytest.approx(0.3, abs=0.01)


def test_an_embedding_drops_what_its_norm_gives() -> None:
    layer = embedding(nn.Embedding(9, 1000), TransformerConfig(d_model=1000, dropout=0.3, embedding_norm_eps=1e-5))
    ids = torch.arange(9)[None]
    dropped, whole = layer(ids), layer.eval()(ids)
    torch.testing.assert_close(dropped, torch.where(dropped == 0, 0.0, whole / 0.7))
    assert (dropped == 0).double().mean().item() == pytest.approx(0.3, abs=0.03)
