"""Labels: never cut, numbered in alphabetical order, and given back as they were."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.config.text import TextConfig
from translate.text.build import build_codecs
from translate.text.codec import Codec
from translate.text.labels import LabelTokenizer
from translate.text.vocabulary import SPECIALS, UNK

TEXTS = ["Ein Hund bellt.", "A dog barks.", "Eine Katze schläft."]


def label_codec(*labels: str) -> Codec:
    texts = [TEXTS[0]] * len(labels)
    return build_codecs(TextConfig(), ("de", None), texts, labels)[1]


def test_a_label_is_one_token() -> None:
    found = LabelTokenizer().tokenize(["de", " very good! ", "<eos>", "", " "])
    assert list(found) == [["de"], ["very good!"], ["<eos>"], [], []]


def test_ids_are_in_alphabetical_order() -> None:
    codec = label_codec("two words", "de", "de", "<eos>", "<unk>")
    assert codec.vocabulary.words == ("<eos>", "<unk>", "de", "two words")
    first = len(SPECIALS)
    assert codec.encode(["two words", "de", "<eos>", "fr"]) == [[first + 3], [first + 2], [first], [UNK]]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip), min_size=1, max_size=5))
def test_labels_come_back(labels: list[str]) -> None:
    codec = label_codec(*labels)
    codec = Codec.from_dict(json.loads(json.dumps(codec.to_dict())))
    for label, ids in zip(labels, codec.encode(labels), strict=True):
        assert len(ids) == 1
        assert codec.decode(ids) == label.strip()


@pytest.mark.parametrize("kind", ["word", "char"])
def test_the_texts_are_encoded_as_a_source_is(kind: str) -> None:
    config = TextConfig.model_validate({"tokenizer": {"kind": kind, "lowercase": True}})
    alone, labels = build_codecs(config, ("de", None), TEXTS, ["de", "en", "de"])
    assert alone == build_codecs(config, ("de", "en"), TEXTS, TEXTS)[0]
    assert labels.vocabulary.words == ("de", "en")
