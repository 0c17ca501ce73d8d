"""Text that is already tokenized: its tokens are what white space separates, and nothing is learned but their ids."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from translate.config.text import TextConfig
from translate.errors import ConfigError
from translate.text.build import build_codecs
from translate.text.codec import Codec, Codecs
from translate.text.vocabulary import SPECIALS, UNK
from translate.text.whitespace import WhitespaceTokenizer

SPELLED = ["w a l k V;PST", "t a l k V;PST", "s i n g V;V.PTCP;PRS"]
INFLECTED = ["w a l k e d", "t a l k e d", "s i n g i n g"]
FIRST = len(SPECIALS)


def build(**tokenizer: object) -> Codecs:
    settings = {"tokenizer": {"kind": "whitespace", **tokenizer}}
    return build_codecs(TextConfig.model_validate(settings), ("en", "en"), SPELLED, INFLECTED)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("he does n't sleep .", ["he", "does", "n't", "sleep", "."]),
        ("low@@ er &apos;s ▁the ##s <eos>", ["low@@", "er", "&apos;s", "▁the", "##s", "<eos>"]),
        ("  two  spaces\tand\u00a0others\u2028 ", ["two", "spaces", "and", "others"]),
        ("", []),
        (" \t\u3000", []),
    ],
)
def test_white_space_alone_divides(line: str, tokens: list[str]) -> None:
    tokenizer = WhitespaceTokenizer("en")
    assert list(tokenizer.tokenize([line])) == [tokens]
    assert tokenizer.detokenize(tokens) == tokenizer.normalize(line) == " ".join(tokens)


def test_lower_case_is_that_of_the_language() -> None:
    assert list(WhitespaceTokenizer("tr", lowercase=True).tokenize(["IŞIK V;PST"])) == [["ışık", "v;pst"]]
    settings = TextConfig.model_validate({"tokenizer": {"kind": "whitespace", "lowercase": True}})
    source, target = build_codecs(settings, ("en", "tr"), ["I"], ["I"])
    assert (source.vocabulary.words, target.vocabulary.words) == (("i",), ("ı",))


@pytest.mark.parametrize("lowercase", [False, True])
def test_what_is_saved_is_what_was_built(lowercase: bool) -> None:
    for codec in build(lowercase=lowercase):
        assert codec.tokenizer == WhitespaceTokenizer("en", lowercase)
        assert Codec.from_dict(json.loads(json.dumps(codec.to_dict()))) == codec
    assert build(lowercase=lowercase)[0].unknown("W V;PST") == ([] if lowercase else ["W"])


def test_vocabularies_hold_the_most_frequent_tokens_first() -> None:
    source, target = build(min_freq=2)
    assert source.vocabulary.words == ("V;PST", "a", "k", "l")
    assert target.vocabulary.words == ("a", "d", "e", "g", "i", "k", "l", "n")
    assert source.encode(["k l V;FUT"]) == [[FIRST + 2, FIRST + 3, UNK]]
    assert source.unknown("k l V;FUT") == ["V;FUT"]
    assert build(max_size=1)[0].vocabulary.words == ("V;PST",)


def test_a_joint_vocabulary() -> None:
    settings = {"tokenizer": {"kind": "whitespace"}, "joint_vocabulary": True}
    source, target = build_codecs(TextConfig.model_validate(settings), ("en", "en"), SPELLED, INFLECTED)
    assert source.vocabulary == target.vocabulary
    assert {"V;PST", "d"} <= set(source.vocabulary.words)


@example(["a <bos>  <unk>", "\u2028"])  # Hypothesis tries words that it finds in the code.
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_text_comes_back_with_single_spaces(lines: list[str]) -> None:
    settings = TextConfig.model_validate({"tokenizer": {"kind": "whitespace"}})
    _, target = build_codecs(settings, ("en", "en"), ["x"], ["x", *lines])
    saved = Codec.from_dict(json.loads(json.dumps(target.to_dict())))
    assert saved == target
    known = [[SPECIALS[UNK] if token in SPECIALS else token for token in line.split()] for line in lines]
    assert [saved.decode(ids) for ids in target.encode(lines)] == [" ".join(tokens) for tokens in known]


def test_no_library_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    source, _ = build()
    assert source.tokenizer.packages == ()
    assert source.decode(source.encode(["w a l k V;PST"])[0]) == "w a l k V;PST"


def test_no_token_is_frequent_enough() -> None:
    with pytest.raises(ConfigError, match=r"text\.tokenizer\.min_freq: 50 keeps no word"):
        build(min_freq=50)
