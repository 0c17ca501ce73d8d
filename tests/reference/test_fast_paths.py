"""The fast paths of training compute what PyTorch's own operators do: the loss, and the gradient of every parameter."""

from functools import partial
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from translate.config.model import TransformerConfig
from translate.config.training import TrainingConfig
from translate.data.batching import Batch
from translate.model import attention as attention_module
from translate.model.attention import MultiHeadAttention
from translate.model.build import build_transformer
from translate.model.dropout import Dropout
from translate.model.plain import make_plain
from translate.optimization.objective import build_objective
from translate.system.precision import autocast

NAMES = get_args(get_args(TrainingConfig.model_fields["plain"].annotation)[0])
CPU = torch.device("cpu")
SIZE = 50


def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    source_BS, target_BT = (torch.randint(4, SIZE, (6, width), generator=generator) for width in (9, 7))
    source_mask_BS = torch.arange(9) < torch.tensor([9, 9, 5, 1, 7, 2])[:, None]
    target_mask_BT = torch.arange(7) < torch.tensor([3, 7, 7, 1, 6, 3])[:, None]
    return Batch(source_BS, source_mask_BS, target_BT, target_mask_BT, target_BT[target_mask_BT])


MODELS = {
    "pre-norm": {"norm": "pre"},
    "post-norm": {"norm": "post"},
    "as multi30k-subword.yaml": {"positions": "rotary", "qk_norm": True, "activation": "gelu", "tie": "all"},
    "wide heads, no bias": {"positions": "learned", "d_qk": 32, "d_v": 32, "qkv_bias": False},
}


def gradients(
    model_settings: dict[str, Any], settings: TrainingConfig, dtype: torch.dtype
) -> tuple[Tensor, dict[str, Tensor]]:
    torch.manual_seed(1)
    size = {"d_model": 32, "ffn": 64, "heads": 4, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    config = TransformerConfig.model_validate(size | model_settings)
    model = build_transformer(config, source_size=SIZE, target_size=SIZE).train()
    make_plain(model, settings.plain)

    def logits(batch: Batch) -> Tensor:
        with autocast(dtype, CPU):
            scores_MV: Tensor = model(
                batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT, padding_rows=True
            )
        return scores_MV

    objective = build_objective(settings)
    loss, sums = objective(logits(objective.read(batch())), batch().labels_N)
    loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert len(found) == len(list(model.parameters()))
    return sums, found


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)])
def test_loss_and_gradients_are_those_of_plain_float32(
    name: str, r_drop: float, dtype: torch.dtype, tolerance: float
) -> None:
    fast = TrainingConfig(r_drop=r_drop)
    plain = TrainingConfig.model_validate({"r_drop": r_drop, "plain": list(NAMES)})
    sums, found = gradients(MODELS[name], fast, dtype)
    expected_sums, expected = gradients(MODELS[name], plain, torch.float32)
    torch.testing.assert_close(sums, expected_sums, rtol=tolerance / 20, atol=0.0)
    longest = max(gradient.norm().item() for gradient in expected.values())
    for parameter, gradient in expected.items():
        # A key's bias changes nothing: its gradient is zero, and rounding.
        least = 1e-2 * longest
        assert (found[parameter] - gradient).norm() <= tolerance * max(gradient.norm().item(), least), parameter


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_weights_of_attention_are_a_softmax_in_float32(length: int, dtype: torch.dtype, causal: bool) -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(d_model=16, heads=2, dropout=0.0)
    x_BTD = torch.randn(3, length, 16)
    sees_BTT = torch.ones(3, length, length, dtype=torch.bool)
    if causal:
        sees_BTT = sees_BTT.tril()
    else:
        sees_BTT[1, :, length // 2 + 1 :] = False
    with autocast(dtype, CPU):
        kv = attention.keys_values(x_BTD)
        q_BHTK = attention.query(x_BTD).unflatten(2, (2, 8)).transpose(1, 2)
        scores_BHTT = (q_BHTK @ kv.keys_BHSK.transpose(2, 3)).double() * 8**-0.5
        mask_B1TT = None if causal else sees_BTT[:, None]
        weights_BHTT = attention.weights(x_BTD, kv, mask_B1TS=mask_B1TT, causal=causal)
    expected = scores_BHTT.masked_fill(~sees_BTT[:, None], float("-inf")).softmax(-1)
    torch.testing.assert_close(weights_BHTT.double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_long_sentences_keeps_no_weights(
    dtype: torch.dtype, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(d_model=16, heads=2, dropout=0.0, qkv_bias=False)  # A key's has no gradient.
    x_BTD = torch.randn(3, 40, 16)
    mask_B1TT = None if causal else torch.rand(3, 1, 1, 40) > 0.3
    if mask_B1TT is not None:
        mask_B1TT[1] = False

    def gradients_of_inputs(most: int) -> tuple[Tensor, ...]:
        monkeypatch.setattr(attention_module, "MAX_KEPT", most)
        with autocast(dtype, CPU):
            attended_BTD = attention(x_BTD, attention.keys_values(x_BTD), mask_B1TS=mask_B1TT, causal=causal)
        assert attended_BTD.dtype is dtype
        parameters = [*attention.parameters()]
        return attended_BTD.detach(), *torch.autograd.grad(attended_BTD.float().square().sum(), parameters)

    expected = gradients_of_inputs(40 * 40)
    monkeypatch.setattr(attention, "_weights", lambda *_, **__: pytest.fail("it computes weights"))
    tolerance = 1e-5 if dtype is torch.float32 else 0.02
    for tensor, other in zip(gradients_of_inputs(40 * 40 - 1), expected, strict=True):
        torch.testing.assert_close(tensor, other, rtol=tolerance, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("options", [{}, {"dropout": 0.1}, {"d_v": 4}], ids=str)
def test_which_weights_are_kept(options: dict[str, Any], plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's fused kernel for CPUs drops none, and needs keys and values of one width."""
    monkeypatch.setattr(attention_module, "MAX_KEPT", 40 * 40)
    attention = MultiHeadAttention(**{"d_model": 16, "heads": 2, "dropout": 0.0, **options})
    attention.explicit = not plain
    kept: set[torch.Size] = set()

    def noted(tensor: Tensor) -> Tensor:
        kept.add(tensor.shape[-2:])
        return tensor

    for length in (39, 41):
        x_BTD = torch.randn(1, length, 16)
        with saved_tensors_hooks(noted, lambda tensor: tensor):
            attention(x_BTD, attention.keys_values(x_BTD), causal=True)
        assert (torch.Size([length, length]) in kept) == (length * length <= attention.max_kept_weights)
    assert attention.to("meta").max_kept_weights == 0


def test_attention_leaves_bfloat16_to_the_layers_around_it() -> None:
    attention = MultiHeadAttention(d_model=16, heads=2, dropout=0.0)
    inside: list[tuple[bool, torch.dtype]] = []
    attention.dropout.register_forward_hook(
        lambda _, inputs, output: inside.append((torch.is_autocast_enabled("cpu"), output.dtype))
    )
    x_BTD = torch.randn(2, 3, 16)
    with autocast(torch.bfloat16, CPU):
        kv = attention.keys_values(x_BTD)
        assert attention(x_BTD, kv, causal=True).dtype is torch.bfloat16
    assert kv.keys_BHSK.dtype is torch.bfloat16
    assert inside == [(False, torch.float32)]


def test_attention_is_pytorchs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device `meta` is no CPU either."""
    attention = MultiHeadAttention(d_model=16, heads=2, dropout=0.1).to("meta")
    monkeypatch.setattr(attention, "_attend", lambda *_, **__: pytest.fail("it is computed operation by operation"))
    x_BTD = torch.ones(2, 3, 16, device="meta")
    assert attention(x_BTD, attention.keys_values(x_BTD), causal=True).shape == x_BTD.shape


def test_plain_dropout_is_pytorchs() -> None:
    config = TransformerConfig(d_model=16, heads=2, attention_dropout=0.2, ffn_dropout=0.3)
    model = build_transformer(config, source_size=SIZE, target_size=SIZE)
    before = [module.p for module in model.modules() if isinstance(module, Dropout)]
    assert before
    make_plain(model, ["dropout"])
    assert [module.p for module in model.modules() if isinstance(module, nn.Dropout)] == before
    assert not any(isinstance(module, Dropout) for module in model.modules())


def test_plain_rows_are_as_many_as_there_are() -> None:
    model = build_transformer(TransformerConfig(d_model=16, heads=2), source_size=SIZE, target_size=SIZE)
    assert len(products_of(model)) == 1
    make_plain(model, ["rows"])
    assert products_of(model) == {6 * 9, 6 * 7, len(batch().labels_N)}


def products_of(model: nn.Module) -> set[int]:
    """The numbers of rows that the linear layers of the model multiply in a pass in bfloat16."""
    found: set[int] = set()
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: found.add(len(output)))
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    pairs = batch()
    with autocast(torch.bfloat16, CPU):
        model(pairs.source_BS, pairs.source_mask_BS, pairs.target_BT, pairs.target_mask_BT)
    for hook in hooks:
        hook.remove()
    return found


def test_plain_attention_is_pytorchs() -> None:
    model = build_transformer(TransformerConfig(d_model=16, heads=2), source_size=SIZE, target_size=SIZE)
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert attentions
    assert all(attention.explicit for attention in attentions)
    make_plain(model, ["attention"])
    assert not any(attention.explicit for attention in attentions)


def test_plain_attention_and_projection_call_pytorchs_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def noted(operator: Any, *inputs: Any, **options: Any) -> Any:
        called.append(inputs[1] if operator.__name__ == "linear" else "attention")
        return operator(*inputs, **options)

    for name in ("linear", "scaled_dot_product_attention"):
        monkeypatch.setattr(nn.functional, name, partial(noted, getattr(nn.functional, name)))
    model = build_transformer(TransformerConfig(d_model=16, heads=2), source_size=SIZE, target_size=SIZE).train()
    for plain in (False, True):
        called.clear()
        if plain:
            make_plain(model, ["attention", "projection"])
        pairs = batch()
        model(pairs.source_BS, pairs.source_mask_BS, pairs.target_BT, pairs.target_mask_BT)
        assert any(what == "attention" for what in called if isinstance(what, str)) == plain
        assert any(what is model.projection.weight for what in called) == plain


def test_plain_projection_is_pytorchs() -> None:
    model = build_transformer(TransformerConfig(d_model=16, heads=2), source_size=SIZE, target_size=SIZE)
    pairs = batch()
    assert not model(pairs.source_BS, pairs.source_mask_BS, pairs.target_BT, None).is_contiguous()
    make_plain(model, ["projection"])
    assert model(pairs.source_BS, pairs.source_mask_BS, pairs.target_BT, None).is_contiguous()
