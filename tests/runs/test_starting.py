"""Which models a run may start from, and which sentences its model has no positions for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from translate.config.model import TransformerConfig
from translate.config.schema import Config
from translate.data.corpus import TextPair, TextPart
from translate.data.dataset import Dataset, EncodedText
from translate.errors import CheckpointError, DataError
from translate.model.build import Model, build_model
from translate.runs.starting import check_lengths, refuse_other_settings

BPE = {"kind": "bpe", "vocab_size": 40}


def config(**sections: Any) -> Config:
    return Config.model_validate(sections)


@pytest.mark.parametrize(
    ("of_start", "asked"),
    [
        ({}, {"seed": 7, "training": {"r_drop": 1.0}, "decoding": {"beam_size": 2}, "data": {"root": "elsewhere"}}),
        ({}, {"model": {"dropout": 0.3, "attention_dropout": 0.2, "ffn_dropout": 0.1}}),
        ({}, {"model": {"embedding_init": "xavier"}}),
        ({}, {"model": {"max_positions": 1024}}),
        ({"model": {"positions": "rotary"}}, {"model": {"positions": "rotary", "max_positions": 1024}}),
        ({"text": {"tokenizer": BPE}}, {"text": {"tokenizer": {**BPE, "dropout": 0.1}}}),
    ],
)
def test_settings_that_neither_weights_nor_vocabularies_depend_on(
    of_start: dict[str, Any], asked: dict[str, Any]
) -> None:
    refuse_other_settings(Path("model"), config(**of_start), config(**asked))


@pytest.mark.parametrize(
    ("of_start", "asked", "told"),
    [
        ({"model": {"ffn": 16}}, {"model": {"ffn": 32}}, "model.ffn: 16 → 32"),
        ({"data": {"source": "de"}}, {"data": {"source": "nl"}}, "data.source: 'de' → 'nl'"),
        ({"data": {"target": "en"}}, {"data": {"target": "nl"}}, "data.target: 'en' → 'nl'"),
        (
            {"model": {"positions": "learned"}},
            {"model": {"positions": "learned", "max_positions": 1024}},
            "model.max_positions: 512 → 1024",
        ),
        (
            {"text": {"tokenizer": BPE}},
            {"text": {"tokenizer": {**BPE, "vocab_size": 41, "dropout": 0.1}}},
            "text.tokenizer.vocab_size: 40 → 41",
        ),
    ],
)
def test_settings_that_they_depend_on(of_start: dict[str, Any], asked: dict[str, Any], told: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        refuse_other_settings(Path("model"), config(**of_start), config(**asked))
    assert str(caught.value) == (
        f"training cannot start from model, which has other settings:\n  {told}\n"
        "undo these changes, or leave training.start_from out"
    )


def with_positions(number: int) -> Model:
    sizes: dict[str, Any] = {"d_model": 8, "ffn": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    settings = TransformerConfig(**sizes, positions="learned", max_positions=number)
    return build_model(settings, source_size=9, target_size=9)


@pytest.mark.parametrize(
    ("parts", "place"),
    [((), "train line 4"), ((TextPart("news", 2, 1), TextPart("talks", 3, 1)), "talks line 2")],
)
def test_the_longest_sentence_is_named_that_is_trained_on(parts: tuple[TextPart, ...], place: str) -> None:
    """In a text of several parts, by its line in one of them."""
    source, target = (EncodedText.of([[5] * length for length in side]) for side in ([9, 2, 3, 4, 2], [1, 7, 3, 8, 2]))
    text = TextPair("train", [], [], "", "", "", parts=parts)
    trained = np.array([1, 1, 2, 3, 4])
    with pytest.raises(DataError) as caught:
        check_lengths(with_positions(7), Dataset(source, target), trained, text, "; raise it")
    assert str(caught.value) == (
        f"{place} has 9 tokens, including the end token (more such lines: 1), but model.max_positions is 7; raise it"
    )
    with pytest.raises(DataError, match="9 tokens, including the end token, but"):
        check_lengths(with_positions(8), Dataset(source, target), trained, text, "; raise it")
    check_lengths(with_positions(9), Dataset(source, target), trained, text, "; raise it")
