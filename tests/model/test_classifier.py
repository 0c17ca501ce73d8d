"""The classifier: equal to a slow loop, whatever the padding, and searched like a transformer."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from translate.config.decoding import DecodingConfig
from translate.config.model import ClassifierConfig, TransformerConfig
from translate.config.schema import Config
from translate.decoding.search import search
from translate.model.build import NORMS, POSITIONS, build_classifier, build_model, build_transformer
from translate.model.classifier import Classifier
from translate.text.vocabulary import BOS, EOS, SPECIALS

WORDS, LABELS = 19, 5
FIRST = len(SPECIALS)
SIZES = {"d_model": 16, "ffn": 32, "encoder_layers": 2, "heads": 2, "max_positions": 20}
every_variant = pytest.mark.parametrize(("norm", "positions"), list(itertools.product(NORMS, POSITIONS)))


def random_classifier(**settings: Any) -> Classifier:
    """A small one in evaluation mode whose weights are all drawn: no bias is 0, no norm the identity."""
    config = ClassifierConfig.model_validate(SIZES | settings)
    torch.manual_seed(1)
    model = build_classifier(config, source_size=WORDS, labels=LABELS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.3)
    return model.eval()


def random_ids(rows: int, length: int) -> Tensor:
    return torch.randint(FIRST, WORDS, (rows, length), generator=torch.Generator().manual_seed(0))


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]


def logits_of(model: Classifier, source_BS: Tensor, source_mask_BS: Tensor) -> Tensor:
    """(B, L), by the call that training makes."""
    bos_B1 = torch.full((len(source_BS), 1), BOS)
    return model(source_BS, source_mask_BS, bos_B1, torch.ones_like(bos_B1, dtype=torch.bool))


# --- what it computes ------------------------------------------------------------------------------------------------


@every_variant
@torch.no_grad()
def test_the_logits_are_those_of_a_slow_loop(norm: str, positions: str) -> None:
    model, lengths = random_classifier(norm=norm, positions=positions), (9, 1, 4, 6)
    source_BS = random_ids(4, 9)
    found_BL = logits_of(model, source_BS, mask_of(*lengths))
    for row, length in enumerate(lengths):
        output_SD = model.encode(source_BS[row : row + 1, :length], torch.ones(1, 1, 1, length, dtype=torch.bool))[0]
        mean_D = torch.tensor([sum(column) / length for column in output_SD.T.tolist()])
        weights_LD, bias_L = model.projection.weight.tolist(), model.projection.bias.tolist()
        expected_L = [
            bias + sum(a * b for a, b in zip(mean_D.tolist(), weights_D, strict=True))
            for weights_D, bias in zip(weights_LD, bias_L, strict=True)
        ]
        torch.testing.assert_close(found_BL[row], torch.tensor(expected_L), rtol=1e-4, atol=1e-5)


def test_the_encoder_is_that_of_the_transformer() -> None:
    classifier = random_classifier()
    config = TransformerConfig.model_validate(SIZES)
    transformer = build_transformer(config, source_size=WORDS, target_size=WORDS).eval()
    shared = {name: weight for name, weight in classifier.state_dict().items() if not name.startswith("projection.")}
    assert transformer.load_state_dict(shared, strict=False).unexpected_keys == []
    ids_BS, mask_B11S = random_ids(3, 7), mask_of(7, 2, 5)[:, None, None, :]
    assert torch.equal(classifier.encode(ids_BS, mask_B11S), transformer.encode(ids_BS, mask_B11S))


@every_variant
def test_padding_and_batch_mates_change_nothing(norm: str, positions: str) -> None:
    model, lengths = random_classifier(norm=norm, positions=positions), (9, 1, 4, 6)
    # What stands in the padding must not matter, so words stand there.
    source_BS = random_ids(4, 9)
    together_BL = logits_of(model, source_BS, mask_of(*lengths))
    for row, length in enumerate(lengths):
        alone_BL = logits_of(model, source_BS[row : row + 1, :length], mask_of(length))
        torch.testing.assert_close(together_BL[row : row + 1], alone_BL, rtol=1e-5, atol=2e-6)


def test_every_token_counts() -> None:
    model, source_BS = random_classifier(), random_ids(1, 5)
    before_BL = logits_of(model, source_BS, mask_of(5))
    for s in range(5):
        changed_BS = source_BS.clone()
        changed_BS[0, s] = FIRST + (changed_BS[0, s] - FIRST + 1) % (WORDS - FIRST)
        assert (logits_of(model, changed_BS, mask_of(5)) - before_BL).abs().max() > 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", NORMS)
def test_every_parameter_gets_a_gradient_and_no_text_a_nan(norm: str, dtype: torch.dtype) -> None:
    model = random_classifier(norm=norm, attention_dropout=0.1).train()
    source_mask_BS = mask_of(6, 3, 1, 6)
    source_mask_BS[3] = False  # nothing but padding
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
        logits_BL = logits_of(model, random_ids(4, 6), source_mask_BS)
    assert logits_BL.isfinite().all()
    nn.functional.cross_entropy(logits_BL.float(), torch.tensor([0, 4, 2, 1])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # Adding the same to all keys adds the same to all weights of a query before the softmax: nothing changes.
        assert name.endswith(".key.bias") or parameter.grad.abs().max() > 1e-7, name


@pytest.mark.parametrize("kind", ["transformer", "classifier"])
def test_the_kind_of_model_is_built_that_is_asked_for(kind: str) -> None:
    data = "labelled" if kind == "classifier" else "parallel"
    config = Config.model_validate({"model": {"kind": kind, **SIZES}, "data": {"kind": data}})
    model = build_model(config.model, source_size=WORDS, target_size=FIRST + LABELS)
    assert type(model).__name__.lower() == kind
    assert model.projection.out_features == (LABELS if kind == "classifier" else FIRST + LABELS)


def test_a_fresh_projection_prefers_no_label() -> None:
    torch.manual_seed(0)
    config = ClassifierConfig(d_model=64, heads=2)
    model = build_classifier(config, source_size=WORDS, labels=400)
    assert not model.projection.bias.any()
    assert model.projection.weight.std().item() == pytest.approx((2 / (400 + 64)) ** 0.5, rel=0.03)


# --- step by step ----------------------------------------------------------------------------------------------------


def test_first_comes_a_label_then_the_end() -> None:
    model, source_BS, mask_BS = random_classifier(), random_ids(3, 6), mask_of(6, 1, 4)
    expected_BL = logits_of(model, source_BS, mask_BS).softmax(1)
    with torch.inference_mode():
        state = model.start(source_BS, mask_BS)
        state.reorder(torch.zeros(3, 2, dtype=torch.int64))
        first_BKV = model.step(torch.full((3, 2), BOS), state)
        assert first_BKV.dtype is torch.float32
        assert first_BKV.shape == (3, 2, FIRST + LABELS)
        assert (first_BKV[:, :, :FIRST] == -torch.inf).all()
        torch.testing.assert_close(first_BKV[:, :, FIRST:].exp(), expected_BL[:, None, :].expand(3, 2, LABELS))
        state.keep(torch.tensor([0, 2]))
        second_BKV = model.step(torch.full((2, 4), FIRST), state)
    ends = torch.full((2, 4, FIRST + LABELS), -torch.inf)
    ends[:, :, EOS] = 0.0
    assert torch.equal(second_BKV, ends)


def test_what_a_step_gives_may_be_overwritten() -> None:
    model = random_classifier()
    with torch.inference_mode():
        one, other = (model.start(random_ids(2, 3), mask_of(3, 2)) for _ in range(2))
        expected_BV = other.log_probs_BV.clone()
        model.step(torch.full((2, 1), BOS), other).fill_(7.0)
        assert torch.equal(other.log_probs_BV, expected_BV)
        assert torch.equal(model.step(torch.full((2, 1), BOS), one)[:, 0], expected_BV)


def texts(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(4)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [torch.randint(FIRST, WORDS, (length,), generator=generator).tolist() for length in lengths]


@pytest.mark.parametrize("settings", [{"search": "greedy"}, {"beam_size": 1}, {"beam_size": 3}, {"beam_size": 8}])
@pytest.mark.parametrize("limits", [{}, {"max_ratio": 0.01, "max_extra": 0}])
def test_search_finds_the_likeliest_label(settings: dict[str, Any], limits: dict[str, Any]) -> None:
    model, sources = random_classifier(), texts(30)
    found = search(model, sources, DecodingConfig.model_validate({"batch_tokens": 40, **settings, **limits}))
    likeliest = []
    for source, (best,) in zip(sources, found, strict=True):
        ids_BS = torch.tensor([[*source, EOS]])
        probabilities_L = logits_of(model, ids_BS, torch.ones_like(ids_BS, dtype=torch.bool))[0].detach().softmax(0)
        likeliest.append(int(probabilities_L.argmax()))
        assert best.tokens == (FIRST + likeliest[-1],)
        assert best.finished
        assert best.log_probability == pytest.approx(float(probabilities_L.max().log()), abs=1e-5)
    assert len(set(likeliest)) > 2


@pytest.mark.parametrize("beam_size", [LABELS, LABELS + 4])
def test_n_best_are_the_labels_with_probabilities_that_sum_to_1(beam_size: int) -> None:
    found = search(random_classifier(), texts(10), DecodingConfig(beam_size=beam_size), n_best=beam_size)
    for hypotheses in found:
        assert sorted(h.tokens for h in hypotheses) == [(label,) for label in range(FIRST, FIRST + LABELS)]
        assert sum(torch.tensor([h.log_probability for h in hypotheses]).exp()) == pytest.approx(1.0, abs=1e-5)
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_a_text_without_words_has_no_label() -> None:
    (found,) = search(random_classifier(), [[]], DecodingConfig())
    assert found[0].tokens == ()
