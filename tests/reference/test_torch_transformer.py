"""The transformer beside PyTorch's own with the same weights, and its parts beside slow, obvious versions."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translate.config.model import TransformerConfig
from translate.model.attention import MultiHeadAttention
from translate.model.build import ACTIVATIONS, NORMS, build_transformer
from translate.model.positions import RotaryEmbedding, sinusoids
from translate.model.transformer import Transformer

PAD = 1
VOCABULARY = 23
SEEN = torch.ones(1, 1, 1, 2, dtype=torch.bool)


def small_transformer(norm: str, activation: str) -> Transformer:
    """Two encoder and three decoder layers in float64, every weight drawn: no bias is 0, no norm the identity."""
    config = TransformerConfig.model_validate(
        {"d_model": 16, "ffn": 40, "encoder_layers": 2, "decoder_layers": 3, "heads": 4, "dropout": 0.0, "tie": "none"}
        | {"norm": norm, "activation": activation}
    )
    torch.manual_seed(5)
    model = build_transformer(config, source_size=VOCABULARY, target_size=VOCABULARY).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, dtype=torch.float64), alpha=0.3)
    return model


def torch_transformer(model: Transformer, norm: str, activation: str) -> nn.Transformer:
    """PyTorch's transformer with the same weights, in tensors of its own."""
    pre = norm == "pre"
    sizes: dict[str, Any] = {"d_model": 16, "nhead": 4, "dim_feedforward": 40, "dropout": 0.0}
    variant: dict[str, Any] = {"activation": activation, "batch_first": True, "norm_first": pre, "dtype": torch.float64}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes, **variant),
        num_layers=2,
        norm=nn.LayerNorm(16, dtype=torch.float64) if pre else None,
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**sizes, **variant),
        num_layers=3,
        norm=nn.LayerNorm(16, dtype=torch.float64) if pre else None,
    )
    reference = nn.Transformer(
        d_model=16, nhead=4, custom_encoder=encoder, custom_decoder=decoder, batch_first=True, dtype=torch.float64
    )
    with torch.no_grad():
        for theirs, ours in paired(reference, model):
            theirs.copy_(torch.cat(ours))
    return reference


Pairs = list[tuple[Tensor, list[Tensor]]]


def paired(reference: nn.Transformer, model: Transformer) -> Pairs:
    """Each parameter of PyTorch's transformer with those of ours that it stands for, packed one behind the other."""
    pairs: Pairs = []

    # Any: PyTorch types what a module holds as a tensor or a module.
    def same(theirs: Any, ours: Any) -> None:
        pairs.extend((a, [b]) for a, b in zip(theirs.parameters(), ours.parameters(), strict=True))

    def attention(theirs: Any, ours: Any) -> None:
        projections = (ours.query, ours.key, ours.value)
        pairs.append((theirs.in_proj_weight, [projection.weight for projection in projections]))
        pairs.append((theirs.in_proj_bias, [projection.bias for projection in projections]))
        same(theirs.out_proj, ours.output)

    def feed_forward(theirs: Any, ours: Any) -> None:
        same(theirs.linear1, ours.expand)
        same(theirs.linear2, ours.contract)

    theirs: Any
    ours: Any
    for theirs, ours in zip(reference.encoder.layers, model.encoder, strict=True):
        attention(theirs.self_attn, ours.self_attention)
        same(theirs.norm1, ours.self_residual)
        feed_forward(theirs, ours.feed_forward)
        same(theirs.norm2, ours.feed_residual)
    for theirs, ours in zip(reference.decoder.layers, model.decoder, strict=True):
        attention(theirs.self_attn, ours.self_attention)
        same(theirs.norm1, ours.self_residual)
        attention(theirs.multihead_attn, ours.cross_attention)
        same(theirs.norm2, ours.cross_residual)
        feed_forward(theirs, ours.feed_forward)
        same(theirs.norm3, ours.feed_residual)
    if reference.encoder.norm is not None:
        same(reference.encoder.norm, model.encoder_norm)
        same(reference.decoder.norm, model.decoder_norm)
    return pairs


def padded(lengths: list[int], seed: int) -> tuple[Tensor, Tensor]:
    """Random ids of these lengths, and the mask of the real ones."""
    mask_BT = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    ids_BT = torch.randint(4, VOCABULARY, mask_BT.shape, generator=torch.Generator().manual_seed(seed))
    return ids_BT.masked_fill(~mask_BT, PAD), mask_BT


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_equals_torch_nn_transformer_forward_and_backward(norm: str, activation: str) -> None:
    model = small_transformer(norm, activation)
    reference = torch_transformer(model, norm, activation)
    assert sum(p.numel() for p in reference.parameters()) == sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if not name.startswith(("source_embedding", "target_embedding", "projection"))
    )
    source_BS, source_mask_BS = padded([7, 1, 4], seed=1)
    target_BT, target_mask_BT = padded([3, 6, 1], seed=2)

    logits_NV = model(source_BS, source_mask_BS, target_BT, target_mask_BT)
    outside: list[Tensor] = [
        *model.source_embedding.parameters(),
        *model.target_embedding.parameters(),
        *model.projection.parameters(),
    ]
    out_BTD = reference(
        model.source_embedding(source_BS),
        model.target_embedding(target_BT),
        tgt_mask=torch.ones(6, 6, dtype=torch.bool).triu(1),
        src_key_padding_mask=~source_mask_BS,
        tgt_key_padding_mask=~target_mask_BT,
        memory_key_padding_mask=~source_mask_BS,
    )
    expected_NV = model.projection(out_BTD[target_mask_BT])
    torch.testing.assert_close(logits_NV, expected_NV, rtol=1e-10, atol=1e-10)

    weights_NV = torch.randn(logits_NV.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    inside = paired(reference, model)
    ours = torch.autograd.grad((logits_NV * weights_NV).sum(), [*model.parameters()])
    gradient = dict(zip(map(id, model.parameters()), ours, strict=True))
    theirs = torch.autograd.grad((expected_NV * weights_NV).sum(), [parameter for parameter, _ in inside] + outside)
    stand_for = [parts for _, parts in inside] + [[parameter] for parameter in outside]
    for parts, expected in zip(stand_for, theirs, strict=True):
        found = torch.cat([gradient.pop(id(part)) for part in parts])
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert not gradient


def slow_attention(attention: MultiHeadAttention, x_TD: Tensor, y_SD: Tensor, visible_TS: Tensor) -> Tensor:
    """Attention of one sentence, head by head and query by query."""
    d_qk, d_v = (layer.out_features // attention.heads for layer in (attention.query, attention.value))
    q_TD, k_SD, v_SD = attention.query(x_TD), attention.key(y_SD), attention.value(y_SD)
    if isinstance(attention.query_norm, nn.LayerNorm) and isinstance(attention.key_norm, nn.LayerNorm):
        q_TD, k_SD = slow_norm(q_TD, d_qk, attention.query_norm), slow_norm(k_SD, d_qk, attention.key_norm)
    if attention.rotation is not None:
        q_TD, k_SD = slow_turn(q_TD, d_qk), slow_turn(k_SD, d_qk)
    rows = []
    for t in range(len(x_TD)):
        gathered = []
        for head in range(attention.heads):
            part = slice(head * d_qk, (head + 1) * d_qk)
            v_SV = v_SD[:, head * d_v : (head + 1) * d_v]
            keys = [s for s in range(len(y_SD)) if visible_TS[t, s]]
            weights = [math.exp(q_TD[t, part].dot(k_SD[s, part]).item() / math.sqrt(d_qk)) for s in keys]
            parts = [weight / sum(weights) * v_SV[s] for weight, s in zip(weights, keys, strict=True)]
            gathered.append(sum(parts, torch.zeros(d_v, dtype=torch.float64)))
        rows.append(attention.output(torch.cat(gathered)))
    return torch.stack(rows)


def slow_norm(x_TE: Tensor, width: int, norm: nn.LayerNorm) -> Tensor:
    """Each head's part of each row, less its mean and divided by its standard deviation, then weighted."""
    parts = [part - part.mean() for row in x_TE for part in row.split(width)]
    return torch.cat([norm.weight * part / (part.square().mean() + 1e-5).sqrt() for part in parts]).view(x_TE.shape)


def slow_turn(x_TE: Tensor, width: int, start: int = 0) -> Tensor:
    """Each pair of neighbours in each head's part of row p times the matrix that turns by p / 10000^(2i / width).

    Sines and cosines are rounded to float32, as in the table of sinusoids.
    """
    turned = torch.empty_like(x_TE)
    for t in range(len(x_TE)):
        for place in range(0, x_TE.shape[1], 2):
            angle = (start + t) / 10_000 ** ((place % width) / width)
            matrix = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            turned[t, place : place + 2] = torch.tensor(matrix).to(x_TE) @ x_TE[t, place : place + 2]
    return turned


WIDTHS: dict[str, dict[str, Any]] = {
    "narrow": {},
    "wide": {"d_qk": 12, "d_v": 12},
    "no two alike, no bias": {"d_qk": 3, "d_v": 5, "qkv_bias": False},
    "normalized": {"d_qk": 4, "qk_norm": True},
    "rotary": {"rotary": True},
    "rotary and normalized": {"d_qk": 4, "d_v": 5, "qk_norm": True, "rotary": True},
}


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("kind", ["everything", "padding", "any mask", "causal"])
@pytest.mark.parametrize("training", [True, False])
def test_attention_equals_a_loop_over_heads_and_queries(heads: int, widths: str, kind: str, training: bool) -> None:
    generator = torch.Generator().manual_seed(heads)
    attention = MultiHeadAttention(d_model=12, heads=heads, dropout=0.0, **WIDTHS[widths]).double().train(training)
    for parameter in attention.parameters():
        nn.init.normal_(parameter, generator=generator)
    x_BTD = torch.randn(3, 5, 12, generator=generator, dtype=torch.float64)
    y_BSD = x_BTD if kind == "causal" else torch.randn(3, 4, 12, generator=generator, dtype=torch.float64)
    visible_BTS = {
        "everything": torch.ones(3, 5, 4, dtype=torch.bool),
        "padding": (torch.arange(4) < torch.tensor([[1], [4], [0]]))[:, None, :].expand(3, 5, 4),
        "any mask": torch.rand(3, 5, 4, generator=generator) < 0.5,
        "causal": torch.ones(3, 5, 5, dtype=torch.bool).tril(),
    }[kind]
    mask = {"padding": visible_BTS[:, None, :1], "any mask": visible_BTS[:, None]}.get(kind)
    kv = attention.keys_values(y_BSD)
    found = attention(x_BTD, kv, mask_B1TS=mask, causal=kind == "causal")
    expected = torch.stack([slow_attention(attention, *row) for row in zip(x_BTD, y_BSD, visible_BTS, strict=True)])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)

    weights_BHTS = attention.weights(x_BTD, kv, mask_B1TS=mask, causal=kind == "causal")
    torch.testing.assert_close(weights_BHTS.sum(-1), torch.ones(3, heads, 5, dtype=torch.float64))
    gathered = attention.output((weights_BHTS @ kv.values_BHSV).transpose(1, 2).flatten(2))
    sees_BT = visible_BTS.any(-1)
    torch.testing.assert_close(gathered[sees_BT], expected[sees_BT], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("training", [True, False])
def test_attention_that_sees_nothing_gathers_zeros(training: bool) -> None:
    attention = MultiHeadAttention(d_model=8, heads=2, dropout=0.0).train(training)
    x_BTD = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    found = attention(x_BTD, attention.keys_values(x_BTD), mask_B1TS=torch.zeros(1, 1, 1, 3, dtype=torch.bool))
    assert torch.equal(found, attention.output.bias.expand(1, 3, 8))


@pytest.mark.parametrize("mask", [{"mask_B1TS": torch.ones(1, 1, 1, 2)}, {"mask_B1TS": SEEN, "causal": True}])
def test_attention_takes_no_numbers_for_a_mask_and_none_beside_the_causal_one(mask: dict[str, Any]) -> None:
    attention, x_BTD = MultiHeadAttention(d_model=4, heads=2, dropout=0.0), torch.ones(1, 2, 4)
    with pytest.raises(AssertionError, match="a mask of bool, or causal"):
        attention(x_BTD, attention.keys_values(x_BTD), **mask)


@pytest.mark.parametrize("explicit", [True, False])
def test_attention_drops_weights_in_training_only(explicit: bool) -> None:
    attention = MultiHeadAttention(d_model=8, heads=2, dropout=0.5)
    attention.explicit = explicit
    x_BTD = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    kv = attention.keys_values(x_BTD)
    torch.manual_seed(0)
    assert not torch.equal(attention(x_BTD, kv), attention(x_BTD, kv))
    attention.eval()
    assert torch.equal(attention(x_BTD, kv), attention(x_BTD, kv))


def test_sinusoids_equal_the_formula() -> None:
    table = sinusoids(600, 10)
    assert table.dtype == torch.float32
    for p in (0, 1, 2, 17, 599):
        for i in range(5):
            angle = p / 10_000 ** (2 * i / 10)
            assert table[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-7)
            assert table[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-7)


def test_a_rotation_starts_anywhere_and_has_no_end() -> None:
    generator = torch.Generator().manual_seed(1)
    x_BHTK = torch.randn(2, 2, 3, 6, generator=generator, dtype=torch.float64)
    rotation = RotaryEmbedding(6).double()
    for start in (0, 1, 511, 5000):
        found_BHTK = rotation(x_BHTK, start)
        expected = torch.stack([slow_turn(x_TE, 6, start) for x_TE in x_BHTK.transpose(1, 2).flatten(2)])
        torch.testing.assert_close(found_BHTK.transpose(1, 2).flatten(2), expected, rtol=0, atol=1e-6)
    assert rotation(x_BHTK.bfloat16(), 0).dtype is torch.bfloat16


def test_turned_queries_and_keys_know_their_distance_and_nothing_else() -> None:
    generator = torch.Generator().manual_seed(2)
    query_K, key_K = torch.randn(2, 8, generator=generator, dtype=torch.float64)
    rotation = RotaryEmbedding(8).double()
    turned = rotation(torch.stack([query_K, key_K])[:, None, None].expand(2, 1, 40, 8), 0)[:, 0]
    score_TS = turned[0] @ turned[1].T
    for distance in range(-39, 40):
        diagonal = score_TS.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-5)
    assert score_TS[0].std() > 0.1


@pytest.mark.parametrize("eps", [None, 1e-12, 10.0])
def test_the_norm_on_embeddings(eps: float | None) -> None:
    config = TransformerConfig(d_model=16, heads=4, dropout=0.0, embedding_norm_eps=eps)
    embedding = build_transformer(config, source_size=VOCABULARY, target_size=VOCABULARY).source_embedding
    ids_BT, _ = padded([5, 2], seed=1)
    summed_BTD = embedding.tokens(ids_BT) * 4.0 + sinusoids(8, 16)[3:8]
    expected = summed_BTD if eps is None else nn.functional.layer_norm(summed_BTD, (16,), eps=eps)
    torch.testing.assert_close(embedding(ids_BT, start=3), expected)
