"""A target that has only those tokens that occur in its own text."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from translate.config.text import TextConfig
from translate.errors import ConfigError
from translate.text.bpe_dropout import BpeDropout
from translate.text.build import build_codecs
from translate.text.codec import Codec, Codecs
from translate.text.piece_learning import learn_pieces, with_frequent_pieces
from translate.text.pieces import BYTES, CONTINUES
from translate.text.vocabulary import SPECIALS, UNK

GERMAN = ["Das Haus ist groß.", "Das Haus ist klein.", "Der Hund und das Haus.", "Zehn Häuser und ein Hund."] * 3
ENGLISH = ["The house is big.", "The house is small.", "The dog and the house.", "Ten houses and a dog.", "Hint!"] * 3
SETTINGS: dict[str, dict[str, Any]] = {
    "word": {"kind": "word"},
    "whitespace": {"kind": "whitespace"},
    "char": {"kind": "char"},
    "byte": {"kind": "byte"},
    "bpe": {"kind": "bpe", "vocab_size": 90},
    "wordpiece": {"kind": "wordpiece", "vocab_size": 120},
    "unigram": {"kind": "unigram", "vocab_size": 60},
    "unigram with bytes": {"kind": "unigram", "vocab_size": 60, "byte_fallback": True},
    "truecased bpe": {"kind": "bpe", "vocab_size": 90, "truecase": True},
}
PIECES = [name for name in SETTINGS if name not in ("word", "whitespace", "byte")]


def build(name: str, target_min_freq: int, joint: bool = True) -> Codecs:
    settings = {"tokenizer": SETTINGS[name], "joint_vocabulary": joint, "target_min_freq": target_min_freq}
    return build_codecs(TextConfig.model_validate(settings), ("de", "en"), GERMAN, ENGLISH)


def tokens(codec: Codec, lines: list[str]) -> list[list[str]]:
    return [codec.vocabulary.strings(ids) for ids in codec.encode(lines)]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_training_text_is_split_as_before_and_the_target_comes_first(name: str) -> None:
    joint, own = build(name, 0), build(name, 1)
    assert joint.source.vocabulary == joint.target.vocabulary
    assert tokens(own.source, GERMAN) == tokens(joint.source, GERMAN)
    assert tokens(own.target, ENGLISH) == tokens(joint.target, ENGLISH)

    words, first = own.source.vocabulary.words, own.target.vocabulary.words
    assert words[: len(first)] == first
    assert sorted(words) == sorted(joint.source.vocabulary.words)
    assert (len(first) < len(words)) == (name != "byte")


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_target_has(name: str) -> None:
    target = build(name, 1).target
    seen = {token for line in tokens(target, ENGLISH) for token in line}
    kept = set(target.vocabulary.words) - BYTES.keys()
    assert seen - BYTES.keys() <= kept
    for other in kept - seen:  # Of subwords, the characters of the text, and in BPE what is merged on the way.
        assert name in PIECES
        text = other.removeprefix(CONTINUES)
        assert any(text in token for token in seen)
        assert len(text) == 1 or "bpe" in name
    assert not any("ß" in token for token in kept)


@pytest.mark.parametrize("name", PIECES)
def test_new_words_of_known_characters_are_split_into_them(name: str) -> None:
    target = build(name, 1).target
    lines = ["Gun, tin, sun." if "unigram" not in name else "Hound!", "a big mouse"]
    for line, ids in zip(lines, target.encode(lines), strict=True):
        unknown = {character for character in line if character not in "".join(ENGLISH)}
        assert (UNK in ids) == (bool(unknown) and "bytes" not in name)
        assert max(ids) < len(target.vocabulary)
        if not unknown:
            assert target.decode(ids) in (line, line[0].upper() + line[1:])


def test_it_counts_words_of_the_target_alone() -> None:
    source, target = build("word", 6)
    assert target.vocabulary.words == (".", "The", "house", "and", "dog", "is")
    assert source.vocabulary.words[:6] == target.vocabulary.words
    assert "Haus" in source.vocabulary
    assert target.encode(["The Haus is big."]) == [[5, UNK, 9, UNK, 4]]


@pytest.mark.parametrize("name", SETTINGS)
def test_of_a_vocabulary_of_its_own_the_target_needs_all(name: str) -> None:
    own, all_ = build(name, 1, joint=False), build(name, 0, joint=False)
    assert own.source == all_.source
    assert tokens(own.target, ENGLISH) == tokens(all_.target, ENGLISH)
    unused = set(all_.target.vocabulary.words) - set(own.target.vocabulary.words)
    assert not unused.intersection(token for line in tokens(all_.target, ENGLISH) for token in line)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", PIECES)
def test_rare_pieces_are_split(name: str, joint: bool) -> None:
    """Into more frequent ones, so that the text is as before."""
    often, once = build(name, 7, joint).target, build(name, 1, joint).target
    assert len(often.vocabulary) <= len(once.vocabulary)
    encoded = often.encode(ENGLISH)
    assert sum(map(len, encoded)) >= sum(map(len, once.encode(ENGLISH)))
    assert [often.decode(ids) for ids in encoded] == ENGLISH
    if name != "char":
        assert len(often.vocabulary) < len(once.vocabulary)


@pytest.mark.parametrize("name", ["bpe", "truecased bpe"])
def test_bpe_dropout_stays_inside(name: str) -> None:
    target = build(name, 1).target
    dropout, random = BpeDropout(target, 0.5), Random(1)
    for line, ids in zip(ENGLISH, target.encode(ENGLISH), strict=True):
        found = dropout.resegment(ids, random)
        assert max(found) < len(target.vocabulary)
        assert UNK not in found
        assert target.decode(found) == line


def test_names_of_bytes_are_no_text() -> None:
    text = [("de", ["<0x"] * 3), ("en", ["ab"] * 3)]
    _, target = learn_pieces(text, kind="bpe", vocab_size=10, min_freq=2, byte_fallback=True)
    kept = with_frequent_pieces(target, Counter({"<0x41>": 3, "a": 3}), 1).pieces
    assert "<" in target.pieces
    assert set(kept) == {*BYTES, "a"}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_saved(name: str) -> None:
    _, target = build(name, 1)
    saved = Codec.from_dict(json.loads(json.dumps(target.to_dict())))
    assert saved == target
    assert saved.encode(ENGLISH) == target.encode(ENGLISH)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", ["word", "whitespace"])
def test_no_word_is_that_frequent(name: str, joint: bool) -> None:
    most = max(Counter(token for line in tokens(build(name, 0).target, ENGLISH) for token in line).values())
    with pytest.raises(
        ConfigError, match=rf"text\.target_min_freq: 1000 keeps no word .* occurs {most} times; lower it"
    ):
        build(name, 1000, joint)


@pytest.mark.parametrize("setting", [{"min_freq": 10}, {"max_size": 3}])
def test_the_vocabulary_has_no_word_of_the_target(setting: dict[str, int]) -> None:
    settings = {"tokenizer": {"kind": "word", **setting}, "joint_vocabulary": True, "target_min_freq": 1}
    text = ["eins zwei drei"] * 20, ["one two three"] * 3
    with pytest.raises(
        ConfigError, match=r"occurs 0 times; lower text\.tokenizer\.min_freq or raise text\.tokenizer\."
    ):
        build_codecs(TextConfig.model_validate(settings), ("de", "en"), *text)


def test_labels_have_no_part_in_a_joint_vocabulary() -> None:
    source, target = build_codecs(TextConfig(joint_vocabulary=True), ("de", None), GERMAN, ["a", "b", "a"])
    assert "Haus" in source.vocabulary
    assert target.vocabulary.words == ("a", "b")


def test_no_piece_is_that_frequent() -> None:
    """Then characters are left."""
    target = build("unigram", 1000).target
    assert set(target.vocabulary.tokens) == {*SPECIALS, *"".join(ENGLISH)}
