"""What every kind of tokenizer keeps to, whatever text it meets; each kind of the table is tested by itself."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.config.keys import kind_of, sections_of
from translate.config.text import TextConfig
from translate.errors import CheckpointError
from translate.text.build import build_codecs
from translate.text.codec import Codec, Codecs
from translate.text.tokenizers import TOKENIZERS, tokenizer_from_dict
from translate.text.vocabulary import BOS, EOS, PAD, UNK

KINDS = [str(kind_of(section)) for section in sections_of(TextConfig.model_fields["tokenizer"])]
SETTINGS: dict[str, dict[str, Any]] = {kind: {"kind": kind} for kind in KINDS}
for kind in ("bpe", "unigram"):
    SETTINGS[f"{kind} with bytes"] = {"kind": kind, "byte_fallback": True}
SETTINGS["few bpe pieces"] = {"kind": "bpe", "vocab_size": 60}

GERMAN = [
    "Der große Hund schläft, die Katze bellt nicht.",
    "Die Katze schläft. Der Hund bellt: 12 Hunde bellen!",
    "Ein Mann fährt mit dem Fahrrad (seinem alten Fahrrad).",
    "Der Mann geht mit dem Hund über die Straße.",
    "A\u0308pfel und Äpfel, \u00a0zwei  Wörter\tund mehr.",
]
ENGLISH = [
    "The big dog sleeps, the cat doesn't bark.",
    "The cat sleeps. The dog barks: 12 dogs bark!",
    "A man is riding a bicycle (his old bicycle).",
    "The man walks across the street with the dog.",
    "apples and apples, two words and more.",
]
PLAIN = 4  # lines of the German text that hold nothing odd, and come back exactly from words, too


@cache
def codecs(name: str, joint: bool = False) -> Codecs:
    return learn(name, ("de", "en"), GERMAN, ENGLISH, joint)


def learn(name: str, languages: tuple[str, str], source: list[str], target: list[str], joint: bool = False) -> Codecs:
    config = TextConfig.model_validate({"tokenizer": SETTINGS[name], "joint_vocabulary": joint})
    return build_codecs(config, languages, source, target)


def test_every_kind_of_the_schema_is_in_the_table() -> None:
    assert len(KINDS) > 5
    assert {*KINDS, "label"} == TOKENIZERS.keys()


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_known_text_comes_back(name: str, joint: bool) -> None:
    source, target = codecs(name, joint)
    for codec, lines in ((source, GERMAN[:PLAIN]), (target, ENGLISH)):
        encoded = codec.encode(lines)
        assert [codec.decode(ids) for ids in encoded] == lines
        assert all(UNK not in ids for ids in encoded)
    assert (source.language, target.language) == ("de", "en")
    assert (source.vocabulary == target.vocabulary) == (joint or name == "byte")


@pytest.mark.parametrize("name", [name for name, settings in SETTINGS.items() if settings["kind"] != "byte"])
def test_lower_case(name: str) -> None:
    config = TextConfig.model_validate({"tokenizer": {**SETTINGS[name], "lowercase": True}})
    codec = build_codecs(config, ("de", "en"), GERMAN, ENGLISH)[0]
    assert [codec.decode(ids) for ids in codec.encode(GERMAN[:PLAIN])] == [line.lower() for line in GERMAN[:PLAIN]]
    assert codec.encode(["HUND"]) == codec.encode(["hund"])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("line", ["", " ", "   ", "\t", "\r", "\u00a0", "\u2028 \u0085", "\u3000"])
def test_nothing_comes_of_a_blank_line(name: str, line: str) -> None:
    codec = codecs(name)[0]
    assert codec.encode([line]) == [[]]
    assert codec.encode(["Hund", line, "Hund"]) == [*codec.encode(["Hund"]), [], *codec.encode(["Hund"])]
    assert codec.unknown(line) == []


ODD = [
    "A\u0308pfel und U\u0308bel",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",
    "那只狗在睡觉。",
    "कुत्ता सो रहा है",
    "Der\x00Hund \ud800 \ufffd",
    "Der Hund\u2028schläft.\r",
    "<unk> <pad> <bos> <eos> [UNK] <0x41> ## ##n",
    "<eos>",
    "<unk>",
    "##",
]


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("line", ODD)
def test_odd_text_makes_ids_but_never_a_special(name: str, line: str) -> None:
    codec = codecs(name)[0]
    check_ids(codec, line)
    tokens = codec.tokenize(line)
    assert codec.unknown(line) == [
        token for token, index in zip(tokens, codec.encode([line])[0], strict=True) if index == UNK
    ]
    if name != "word":
        assert codec.tokenizer.detokenize(tokens) == codec.tokenizer.normalize(codec.prepare(line))


@pytest.mark.parametrize("name", SETTINGS)
def test_source_text_is_the_same_however_its_letters_are_written(name: str) -> None:
    # Learned from text that is written otherwise than what is translated, in both ways.
    composed, decomposed = (
        learn(name, ("de", "en"), german, ENGLISH)[0]
        for german in (GERMAN, [normalize("NFD", line) for line in GERMAN])
    )
    assert composed == decomposed
    for line in ["Ein Vögelchen schläft.", "Die 각 im Café Ö"]:
        apart = normalize("NFD", line)
        assert apart != line
        assert composed.encode([apart]) == composed.encode([line])
        assert composed.unknown(apart) == composed.unknown(line)


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "word"])
def test_target_text_is_written_as_in_training(name: str) -> None:
    lines = [normalize("NFD", line) for line in GERMAN]
    codec = learn(name, ("en", "de"), ENGLISH, lines)[1]
    assert [codec.decode(ids) for ids in codec.encode(lines[:PLAIN])] == lines[:PLAIN]


@given(line=st.text(), name=st.sampled_from(sorted(SETTINGS)))
def test_any_text_makes_ids_but_never_a_special(line: str, name: str) -> None:
    check_ids(codecs(name)[0], line)


def check_ids(codec: Codec, line: str) -> None:
    (ids,) = codec.encode([line])
    assert bool(ids) == bool(line.strip())
    assert not {PAD, BOS, EOS} & set(ids)
    assert set(ids) <= set(range(len(codec.vocabulary)))
    assert len(codec.tokenize(line)) == len(ids)


@given(ids=st.lists(st.integers(0, 10_000)), name=st.sampled_from(sorted(SETTINGS)))
def test_any_ids_make_text(ids: list[int], name: str) -> None:
    codec = codecs(name)[1]
    text = codec.decode([index % len(codec.vocabulary) for index in ids])
    text.encode("utf-8")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_line_of_ten_thousand_words(name: str) -> None:
    codec = codecs(name)[0]
    line = " ".join(["Hund"] * 10_000)
    (ids,) = codec.encode([line])
    assert len(ids) >= 10_000
    assert codec.decode(ids) == line


@pytest.mark.parametrize("name", SETTINGS)
def test_json_round_trip(name: str) -> None:
    codec = codecs(name)[0]
    copy = Codec.from_dict(json.loads(json.dumps(codec.to_dict())))
    assert copy == codec
    assert copy.fingerprint == codec.fingerprint
    assert copy.encode(GERMAN + ODD) == codec.encode(GERMAN + ODD)


def test_what_is_learned_another_way_has_another_fingerprint() -> None:
    everything = [*SETTINGS.values(), *({**settings, "lowercase": True} for settings in SETTINGS.values())]
    everything = [settings for settings in everything if settings != {"kind": "byte", "lowercase": True}]
    assert len(everything) > 10
    fingerprints = {
        build_codecs(TextConfig.model_validate({"tokenizer": settings}), ("de", "en"), GERMAN, ENGLISH)[0].fingerprint
        for settings in everything
    }
    assert len(fingerprints) == len(everything)


class Stream:
    """Lines that nobody holds, nor has counted."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_learning_again_from_a_stream_gives_the_same(name: str, joint: bool) -> None:
    config = TextConfig.model_validate({"tokenizer": SETTINGS[name], "joint_vocabulary": joint})
    again = build_codecs(config, ("de", "en"), Stream(GERMAN), Stream(ENGLISH))
    assert [codec.fingerprint for codec in again] == [codec.fingerprint for codec in codecs(name, joint)]


@pytest.mark.parametrize("name", SETTINGS)
def test_the_packages_that_cut_are_named(name: str) -> None:
    expected = {"word": ("spacy",), "whitespace": ()}
    assert codecs(name)[0].tokenizer.packages == expected.get(name, ("tokenizers",))


def test_an_unknown_kind_is_from_another_version() -> None:
    with pytest.raises(
        CheckpointError, match=r"tokenizer of kind 'runes', but this version supports only word, whitespace, char, b"
    ):
        tokenizer_from_dict({"kind": "runes"})


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "byte"])
def test_a_lower_casing_codec_comes_back_as_one(name: str) -> None:
    config = TextConfig.model_validate({"tokenizer": {**SETTINGS[name], "lowercase": True}})
    codec = build_codecs(config, ("de", "en"), GERMAN, ENGLISH)[0]
    assert Codec.from_dict(json.loads(json.dumps(codec.to_dict()))) == codec
