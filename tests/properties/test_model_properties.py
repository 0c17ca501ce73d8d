"""What holds for every variant of the transformer, whatever its weights."""

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from translate.config.model import TransformerConfig
from translate.model.build import ACTIVATIONS, NORMS, POSITIONS, build_transformer
from translate.model.positions import NO_LIMIT, LearnedPositions, SinusoidalPositions, sinusoids
from translate.model.rows import PaddedRows
from translate.model.transformer import Transformer

PAD, BOS = 1, 2
SOURCE_SIZE, TARGET_SIZE = 19, 23
VARIANTS = list(itertools.product(NORMS, ACTIVATIONS, POSITIONS))
every_variant = pytest.mark.parametrize(("norm", "activation", "positions"), VARIANTS)


def random_model(
    norm: str = "pre", activation: str = "relu", positions: str = "sinusoidal", **more: Any
) -> Transformer:
    """A small transformer in evaluation mode whose weights are all drawn: no bias is 0, no norm the identity."""
    settings = {"d_model": 16, "ffn": 32, "encoder_layers": 2, "decoder_layers": 2, "heads": 2, "max_positions": 20}
    variant = {"norm": norm, "activation": activation, "positions": positions}
    config = TransformerConfig.model_validate(settings | variant | more)
    sizes = (SOURCE_SIZE, SOURCE_SIZE if config.tie == "all" else TARGET_SIZE)
    torch.manual_seed(1)
    model = build_transformer(config, source_size=sizes[0], target_size=sizes[1])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.2)
    return model.eval()


def random_ids(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(4, SOURCE_SIZE, (rows, length), generator=torch.Generator().manual_seed(seed))


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]


# --- the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "table"), [("norm", NORMS), ("activation", ACTIVATIONS), ("positions", POSITIONS)])
def test_tables_hold_the_names_of_the_schema(setting: str, table: dict[str, object]) -> None:
    assert set(table) == set(get_args(TransformerConfig.model_fields[setting].annotation))


# --- who sees what ---------------------------------------------------------------------------------------------------


@every_variant
def test_no_look_ahead(norm: str, activation: str, positions: str) -> None:
    model, length = random_model(norm, activation, positions), 7
    source_BS, target_BT = random_ids(2, 5), random_ids(2, length, seed=1)
    masks = (mask_of(5, 3), mask_of(length, length))
    before_BTV = model(source_BS, masks[0], target_BT, masks[1]).unflatten(0, (2, length))
    for t in range(length):
        changed_BT = target_BT.clone()
        changed_BT[:, t] = 4 + (changed_BT[:, t] - 3) % (SOURCE_SIZE - 4)
        after_BTV = model(source_BS, masks[0], changed_BT, masks[1]).unflatten(0, (2, length))
        assert torch.equal(before_BTV[:, :t], after_BTV[:, :t])
        assert ((before_BTV[:, t:] - after_BTV[:, t:]).abs().amax(dim=2) > 1e-4).all()


@every_variant
def test_every_source_token_is_seen_from_every_target_position(norm: str, activation: str, positions: str) -> None:
    model = random_model(norm, activation, positions)
    source_BS, target_BT = random_ids(1, 5), random_ids(1, 4, seed=1)
    before_TV = model(source_BS, mask_of(5), target_BT, mask_of(4))
    for s in range(5):
        changed_BS = source_BS.clone()
        changed_BS[:, s] = 4 + (changed_BS[:, s] - 3) % (SOURCE_SIZE - 4)
        after_TV = model(changed_BS, mask_of(5), target_BT, mask_of(4))
        assert ((before_TV - after_TV).abs().amax(dim=1) > 1e-5).all()


@every_variant
def test_padding_and_batch_mates_change_nothing(norm: str, activation: str, positions: str) -> None:
    model = random_model(norm, activation, positions).double()
    source_lengths, target_lengths = (9, 1, 4, 6), (2, 8, 5, 1)
    source_mask_BS, target_mask_BT = mask_of(*source_lengths), mask_of(*target_lengths)
    # What stands in the padding must not matter, so words stand there.
    source_BS, target_BT = random_ids(4, 9), random_ids(4, 8, seed=1)
    together = model(source_BS, source_mask_BS, target_BT, target_mask_BT).split(target_lengths)
    for row, (s, t) in enumerate(zip(source_lengths, target_lengths, strict=True)):
        alone_TV = model(source_BS[row : row + 1, :s], mask_of(s), target_BT[row : row + 1, :t], mask_of(t))
        torch.testing.assert_close(together[row], alone_TV, rtol=1e-12, atol=1e-12)


# --- numbers, always -------------------------------------------------------------------------------------------------


def default_kernels() -> AbstractContextManager[None]:
    return nullcontext()


def math_kernel() -> AbstractContextManager[None]:
    return sdpa_kernel(SDPBackend.MATH)


@pytest.mark.parametrize("kernels", [default_kernels, math_kernel])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 6), (6, 1), (2, 2), (5, 7), (17, 16)])
def test_no_nan_at_any_length(
    lengths: tuple[int, int], norm: str, dtype: torch.dtype, kernels: Callable[[], AbstractContextManager[None]]
) -> None:
    """Among the rows a source that is all padding, and one with a single token."""
    model = random_model(norm, attention_dropout=0.1).train()
    source, target = lengths
    source_BS, target_BT = random_ids(3, source), random_ids(3, target, seed=1)
    source_mask_BS = torch.stack([mask_of(source)[0], torch.zeros(source, dtype=torch.bool), torch.arange(source) < 1])
    target_mask_BT = torch.stack([torch.arange(target) < 1, mask_of(target)[0], mask_of(target)[0]])
    with kernels(), torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        logits_NV = model(source_BS, source_mask_BS, target_BT, target_mask_BT)
        logits_NV.float().logsumexp(1).sum().backward()
    assert logits_NV.dtype is dtype
    assert logits_NV.shape == (1 + 2 * target, TARGET_SIZE)
    assert logits_NV.isfinite().all()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("multiple", [1, 4, 7, 32])
def test_padding_rows_of_scores_change_none_before_them(multiple: int) -> None:
    model = random_model().eval()
    source_BS, target_BT = random_ids(2, 5), random_ids(2, 7, seed=1)
    target_mask_BT = torch.arange(7) < torch.tensor([4, 7])[:, None]
    inputs = source_BS, torch.ones_like(source_BS).bool(), target_BT, target_mask_BT
    assert len(model(*inputs, padding_rows=True)) == 11  # in float32 there are none
    rows = [module for module in model.modules() if isinstance(module, PaddedRows)]

    def scores(multiple: int, *, padding_rows: bool) -> Tensor:
        for module in rows:
            module.multiple = multiple
        with torch.autocast("cpu", torch.bfloat16):
            found: Tensor = model(*inputs, padding_rows=padding_rows)
        return found

    expected_NV = scores(1, padding_rows=False)
    logits_MV = scores(multiple, padding_rows=True)
    assert len(logits_MV) == 11 + -11 % multiple
    torch.testing.assert_close(logits_MV[:11], expected_NV, rtol=0.01, atol=0.01)
    torch.testing.assert_close(scores(multiple, padding_rows=False), logits_MV[:11], rtol=0.0, atol=0.0)


def test_a_batch_of_nothing_but_padding() -> None:
    model = random_model().train()
    source_mask_BS = torch.zeros(2, 3, dtype=torch.bool)
    logits_NV = model(random_ids(2, 3), source_mask_BS, random_ids(2, 2), mask_of(2, 2))
    logits_NV.logsumexp(1).sum().backward()
    assert logits_NV.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model(random_ids(2, 3), source_mask_BS, random_ids(2, 2), source_mask_BS[:, :2]).shape == (0, TARGET_SIZE)


@pytest.mark.parametrize("tie", get_args(TransformerConfig.model_fields["tie"].annotation))
@every_variant
def test_every_parameter_gets_a_gradient(norm: str, activation: str, positions: str, tie: str) -> None:
    model = random_model(norm, activation, positions, tie=tie).train()
    logits_NV = model(random_ids(3, 6), mask_of(6, 3, 1), random_ids(3, 5, seed=1), mask_of(2, 5, 4))
    nn.functional.cross_entropy(logits_NV, random_ids(1, len(logits_NV), seed=2)[0]).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # Adding the same to all keys adds the same to all weights of a query before the softmax: nothing changes.
        assert name.endswith(".key.bias") or parameter.grad.abs().max() > 1e-7, name


# --- shared weights --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tie", "shared"), [("none", (0, 1, 2)), ("target", (0, 1, 1)), ("all", (0, 0, 0))], ids=["none", "target", "all"]
)
def test_tying_shares_storage(tie: str, shared: tuple[int, int, int]) -> None:
    model = random_model(tie=tie)
    weights = (model.source_embedding.tokens.weight, model.target_embedding.tokens.weight, model.projection.weight)
    for (a, group_a), (b, group_b) in itertools.combinations(zip(weights, shared, strict=True), 2):
        assert (a is b) == (a.data_ptr() == b.data_ptr()) == (group_a == group_b)
    vocabulary_sized = [p for p in model.parameters() if p.ndim == 2 and p.shape[0] in (SOURCE_SIZE, TARGET_SIZE)]
    assert len(vocabulary_sized) == len(set(shared))


@pytest.mark.parametrize("tie", get_args(TransformerConfig.model_fields["tie"].annotation))
def test_fresh_weights_have_the_scale_of_positions(tie: str) -> None:
    """Scaled token vectors and position vectors weigh alike, and padding is the zero vector."""
    torch.manual_seed(0)
    config = TransformerConfig.model_validate({"d_model": 64, "heads": 2, "tie": tie})
    model = build_transformer(config, source_size=400, target_size=400)
    for embedding in (model.source_embedding, model.target_embedding):
        assert (embedding.tokens.weight * embedding.scale).std().item() == pytest.approx(1, abs=0.05)
        assert embedding.positions(0, 50).square().mean().item() == pytest.approx(0.5, abs=0.01)
        assert not embedding.tokens.weight[PAD].any()


@pytest.mark.parametrize("tie", get_args(TransformerConfig.model_fields["tie"].annotation))
def test_a_fresh_projection_prefers_no_token(tie: str) -> None:
    torch.manual_seed(0)
    config = TransformerConfig.model_validate({"d_model": 64, "heads": 2, "tie": tie})
    model = build_transformer(config, source_size=400, target_size=400)
    assert not model.projection.bias.any()
    expected = (2 / (400 + 64)) ** 0.5 if tie == "none" else 64**-0.5
    assert model.projection.weight.std().item() == pytest.approx(expected, rel=0.03)


def test_fresh_layers_are_xavier_without_biases() -> None:
    torch.manual_seed(0)
    config = TransformerConfig.model_validate({"d_model": 64, "heads": 2, "ffn": 256, "d_v": 48})
    model = build_transformer(config, source_size=400, target_size=400)
    for name, layer in [*model.encoder.named_modules(), *model.decoder.named_modules()]:
        if isinstance(layer, nn.Linear):
            assert not layer.bias.any(), name
            expected = (2 / sum(layer.weight.shape)) ** 0.5
            assert layer.weight.std().item() == pytest.approx(expected, rel=0.03), name
            assert layer.weight.abs().max().item() == pytest.approx(3**0.5 * expected, rel=0.03), name


# --- decoding token by token -----------------------------------------------------------------------------------------


def uncached(model: Transformer, source_BS: Tensor, source_mask_BS: Tensor, prefix_BKT: Tensor) -> Tensor:
    """Log-probabilities (B, K, V) of what follows each prefix, from the whole of it."""
    B, K, T = prefix_BKT.shape
    rows = torch.arange(B).repeat_interleave(K)
    everything = torch.ones(B * K, T, dtype=torch.bool)
    logits_NV: Tensor = model(source_BS[rows], source_mask_BS[rows], prefix_BKT.flatten(0, 1), everything)
    return logits_NV.log_softmax(1).unflatten(0, (B, K, T))[:, :, -1]


@every_variant
def test_cached_decoding_equals_the_forward_pass(norm: str, activation: str, positions: str) -> None:
    """While hypotheses are told apart, swapped, doubled and dropped, their number changes, and sentences leave."""
    model, generator = random_model(norm, activation, positions), torch.Generator().manual_seed(3)
    source_BS, source_mask_BS = random_ids(4, 6), mask_of(6, 1, 4, 5)
    source_mask_BS[1] = False
    moves = [(None, 1), (None, 3), ([0, 1, 2, 3], 3), ([0, 2, 3], 5), ([1, 2], 2), (None, 2), ([1], 4), ([0], 1)]
    with torch.inference_mode():
        state = model.start(source_BS, source_mask_BS)
        prefix_BKT = torch.empty(4, 1, 0, dtype=torch.int64)
        for kept, width in moves:
            if kept is not None:
                state.keep(torch.tensor(kept))
                source_BS, source_mask_BS, prefix_BKT = source_BS[kept], source_mask_BS[kept], prefix_BKT[kept]
            B, K, T = prefix_BKT.shape
            parents_BK = torch.randint(0, K, (B, width), generator=generator)
            state.reorder(parents_BK)
            prefix_BKT = prefix_BKT.gather(1, parents_BK[:, :, None].expand(-1, -1, T))
            token_BK = torch.randint(4, TARGET_SIZE, (B, width), generator=generator)
            prefix_BKT = torch.cat([prefix_BKT, token_BK[:, :, None]], dim=2)
            found_BKV = model.step(token_BK, state)
            assert found_BKV.isfinite().all()
            expected_BKV = uncached(model, source_BS, source_mask_BS, prefix_BKT)
            torch.testing.assert_close(found_BKV, expected_BKV, rtol=1e-5, atol=5e-6)
        state.keep(torch.empty(0, dtype=torch.int64))
        state.reorder(torch.empty(0, 1, dtype=torch.int64))


def test_a_step_gives_float32_log_probabilities_in_any_arithmetic() -> None:
    model = random_model()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        log_probs_BKV = model.step(torch.full((2, 1), BOS), model.start(random_ids(2, 3), mask_of(3, 2)))
    assert log_probs_BKV.dtype is torch.float32
    torch.testing.assert_close(log_probs_BKV.exp().sum(-1), torch.ones(2, 1))


# --- positions -------------------------------------------------------------------------------------------------------


def test_learned_positions_end() -> None:
    model = random_model(positions="learned", max_positions=6)
    assert model.max_length == 6
    message = "a sequence of 7 tokens is longer than the 6 learned positions"
    fits, long = (random_ids(1, 6), mask_of(6)), (random_ids(1, 7), mask_of(7))
    assert model(*fits, *fits).isfinite().all()
    with pytest.raises(ValueError, match=message):
        model(*long, *fits)
    with pytest.raises(ValueError, match=message):
        model(*fits, *long)
    state = model.start(*fits)
    for _ in range(6):
        model.step(torch.full((1, 1), BOS), state)
    with pytest.raises(ValueError, match=message):
        model.step(torch.full((1, 1), BOS), state)


def test_sinusoids_grow_on_demand() -> None:
    """Also while decoding in inference mode, after which training goes on."""
    long = (random_ids(1, 30), mask_of(30))
    short, round_up = random_model(max_positions=4), random_model(max_positions=100)
    assert short.max_length == NO_LIMIT
    with torch.inference_mode():
        assert torch.equal(short(*long, *long), round_up(*long, *long))
    short.train()(*long, *long).sum().backward()
    assert all(p.grad is not None for p in short.parameters())


def test_grown_sinusoids_are_those_made_at_once() -> None:
    positions = SinusoidalPositions(d_model=8, max_positions=2).double()
    assert torch.equal(positions(3, 9), sinusoids(9, 8)[3:].double())
    assert positions(0, 1).dtype is torch.float64
    assert "table_TD" not in positions.state_dict()


def test_sinusoids_take_no_room_for_positions_that_have_not_occurred() -> None:
    assert len(SinusoidalPositions(d_model=8, max_positions=10**9).table_TD) == 512


def test_positions_are_taken_from_start_to_stop() -> None:
    for positions in (SinusoidalPositions(d_model=8), LearnedPositions(d_model=8, max_positions=10)):
        assert torch.equal(positions(4, 7), positions(0, 10)[4:7])


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_order_of_source_tokens_matters(positions: str) -> None:
    model, target_BT = random_model(positions=positions), random_ids(1, 4, seed=1)
    orders = (torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([[5, 4, 6, 7, 8]]))
    one_TV, other_TV = (model(source_BS, mask_of(5), target_BT, mask_of(4)) for source_BS in orders)
    assert ((one_TV - other_TV).abs().amax(dim=1) > 1e-4).all()


def test_rotary_positions_add_nothing_to_tokens() -> None:
    embedding, ids_BT = random_model(positions="rotary").source_embedding, random_ids(2, 5)
    assert torch.equal(embedding(ids_BT, start=3), embedding.tokens(ids_BT) * embedding.scale)


@pytest.mark.parametrize("embedding_init", ["normal", "xavier"])
def test_tokens_and_learned_positions_start_alike_in_strength(embedding_init: str) -> None:
    torch.manual_seed(1)
    config = TransformerConfig.model_validate(
        {"positions": "learned", "embedding_init": embedding_init, "max_positions": 100}
    )
    embedding = build_transformer(config, source_size=500, target_size=500).source_embedding
    tokens = embedding.tokens.weight.std().item() * embedding.scale
    positions = embedding.positions.weight_TD.std().item()
    if embedding_init == "normal":
        assert tokens == pytest.approx(1.0, abs=0.02)
        assert positions == pytest.approx(2**-0.5, abs=0.02)
    else:
        assert tokens == pytest.approx((2 / (500 + 256)) ** 0.5 * 16, rel=0.02)
        assert positions == pytest.approx((2 / (100 + 256)) ** 0.5, rel=0.02)
