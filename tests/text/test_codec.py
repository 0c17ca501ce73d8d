"""Text to ids and back, with codecs learned from a small text of our own and, where it is there, from Multi30k."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.config.text import TextConfig
from translate.data.corpus import TextInMemory
from translate.data.splits import open_split
from translate.errors import ConfigError
from translate.system import pool
from translate.text import build
from translate.text.build import build_codecs
from translate.text.casing import Truecaser
from translate.text.codec import Codec, Codecs
from translate.text.spacing import Spacing
from translate.text.vocabulary import BOS, EOS, PAD, UNK

GERMAN = ["Der Hund schläft.", "Die Katze schläft, der Hund bellt.", "Ein Hund bellt!"]
ENGLISH = ["The dog sleeps.", "The cat sleeps, the dog barks.", "A dog doesn't sleep!"]


def codecs(**settings: object) -> Codecs:
    joint = settings.pop("joint_vocabulary", False)
    config = TextConfig.model_validate({"tokenizer": {"kind": "word", **settings}, "joint_vocabulary": joint})
    return build_codecs(config, ("de", "en"), GERMAN, ENGLISH)


@pytest.fixture(scope="module")
def german() -> Codec:
    return codecs()[0]


@pytest.fixture(scope="module")
def english() -> Codec:
    return codecs()[1]


def test_ids_by_hand(german: Codec, english: Codec) -> None:
    # Most frequent first, ties by code point: Hund 3, then "." bellt schläft 2, then "!" "," Der Die Ein Katze der 1.
    assert german.vocabulary.words == ("Hund", ".", "bellt", "schläft", "!", ",", "Der", "Die", "Ein", "Katze", "der")
    assert german.encode(GERMAN) == [[10, 4, 7, 5], [11, 13, 7, 9, 14, 4, 6, 5], [12, 4, 6, 8]]
    # dog 3, "." The sleeps 2, then "!" "," A barks cat does n't sleep the 1.
    assert english.encode(ENGLISH) == [[6, 4, 7, 5], [6, 12, 7, 9, 16, 4, 11, 5], [10, 4, 13, 14, 15, 8]]
    assert (german.language, english.language) == ("de", "en")


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("joint", [False, True])
def test_round_trip(lowercase: bool, joint: bool) -> None:
    for codec, lines in zip(codecs(lowercase=lowercase, joint_vocabulary=joint), (GERMAN, ENGLISH), strict=True):
        expected = [line.lower() if lowercase else line for line in lines]
        assert [codec.decode(ids) for ids in codec.encode(lines)] == expected


def test_a_joint_vocabulary_counts_both_sides() -> None:
    source, target = codecs(joint_vocabulary=True)
    assert source.vocabulary == target.vocabulary
    assert source.vocabulary.words[:2] == (".", "Hund")
    assert len(source.vocabulary) == 4 + 11 + 13 - 3  # "." "," "!" are the same word in both.


def test_limits_of_the_vocabulary() -> None:
    source, target = codecs(min_freq=2, max_size=2)
    assert source.vocabulary.words == ("Hund", ".")
    assert target.encode(["The dog barks."]) == [[UNK, 4, UNK, 5]]


@pytest.mark.parametrize("kind", ["word", "char", "unigram", "bpe", "wordpiece"])
def test_what_is_known_of_another_language(kind: str) -> None:
    """Nothing, even where the space before its words is a token of its own that is known."""
    source, _ = codecs(kind=kind)
    foreign, mixed, german = source.encode(["我喜欢 吃苹果", "苹果 Hund", GERMAN[0]])
    assert source.count_known(foreign)[0] == 0 < source.count_known(foreign)[1]
    assert 0 < source.count_known(mixed)[0] < source.count_known(mixed)[1]
    assert source.count_known(german) == (len(german), len(german))


def test_a_vocabulary_without_words_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        codecs(min_freq=4)
    assert str(caught.value) == (
        "text.tokenizer.min_freq: 4 keeps no word of the training text, "
        "whose most frequent one occurs 3 times; lower it"
    )


def test_unknown_words(english: Codec) -> None:
    line = "The zebra sleeps, gnu."
    assert english.unknown(line) == ["zebra", "gnu"]
    assert english.encode([line]) == [[6, UNK, 7, 9, UNK, 5]]
    assert english.decode(english.encode([line])[0]) == "The <unk> sleeps, <unk>."
    assert english.tokenize(line) == ["The", "zebra", "sleeps", ",", "gnu", "."]


def test_specials_frame_a_text_and_are_not_part_of_it(english: Codec) -> None:
    assert english.decode([BOS, 6, 4, PAD, 7, 5, EOS, 6, 4, EOS]) == "The dog sleeps."
    assert english.decode([BOS, 6, UNK, EOS, 4]) == "The <unk>"
    assert english.decode([]) == english.decode([EOS]) == english.decode([PAD, PAD]) == ""


def test_spacing_comes_from_the_first_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["a dog .", "the cat .", "a dog, a cat, a gnu."]
    (late,) = build_codecs(TextConfig(), ("en", "de"), lines, ["."])[0].encode(["a gnu, a dog."])
    monkeypatch.setattr(build, "SPACING_LINES", 2)
    monkeypatch.setattr(build, "CHUNK", 1)
    first, _ = build_codecs(TextConfig(), ("en", "de"), lines, ["."])
    assert first.encode(["a gnu, a dog."]) == [late]
    assert first.decode(late) == "a gnu , a dog ."
    assert first.tokenizer.spacing.joins_left == frozenset()


@pytest.mark.parametrize("special", ["<unk>", "<pad>", "<bos>", "<eos>"])
def test_text_never_makes_a_special(special: str) -> None:
    line = f"a {special} b"
    source, _ = build_codecs(TextConfig(), ("de", "en"), [line], [line])
    (ids,) = source.encode([line])
    assert not {PAD, BOS, EOS} & set(ids)
    (ids,) = source.encode([special])
    assert not {PAD, BOS, EOS} & set(ids)


ODD = [
    "",
    "   ",
    "\u00a0",
    "\r",
    "\u2028",
    "The dog\u2028sleeps.\r",
    "The\u00a0dog sleeps.",
    "The \U0001f415 sleeps. \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "那只狗在睡觉。",
    "The\x00dog \ud800.",
    "dog " * 10_000,
]


def test_any_line_gives_one_line(english: Codec) -> None:
    encoded = english.encode(ODD)
    assert len(encoded) == len(ODD)
    assert encoded[:5] == [[]] * 5
    assert all(encoded[5:])
    assert encoded[-1] == [4] * 10_000
    for ids in encoded:
        assert "\n" not in english.decode(ids)
        assert len(english.decode(ids).splitlines()) <= 1


@given(st.lists(st.text(), max_size=5))
def test_any_text_is_encoded(english: Codec, lines: list[str]) -> None:
    encoded = english.encode(lines)
    assert len(encoded) == len(lines)
    for line, ids in zip(lines, encoded, strict=True):
        assert bool(ids) == bool(line.strip())
        assert set(ids) <= {UNK, *range(4, len(english.vocabulary))}
        assert len(english.tokenize(line)) == len(ids)


# Sentences of a grammar whose every pair of neighbours the training text has shown, or its rules cover.
TEMPLATES = [
    "The {a} doesn't see the {b}.",
    "A {a} ({b}) sleeps.",
    'The {a} says "{b}", not "{a}"!',
    "Is it the {a}'s {b}-{a}?",
    "{a}, {b} and the {a}; it can't be.",
]
NOUNS = ["dog", "cat", "Bird", "house", "T"]


def fill(template: str, a: str, b: str) -> str:
    names = [name for _, name, _, _ in Formatter().parse(template) if name]
    assert set(names) == {"a", "b"}
    return template.format(a=a, b=b)


@pytest.fixture(scope="module")
def grammar() -> Codec:
    # Each noun beside each other one only once: most pairs of the sentences below are unseen.
    lines = [fill(template, noun, NOUNS[(i + 1) % 5]) for template in TEMPLATES for i, noun in enumerate(NOUNS)]
    return build_codecs(TextConfig(), ("en", "de"), lines, ["."])[0]


@given(
    st.lists(
        st.builds(fill, st.sampled_from(TEMPLATES), st.sampled_from(NOUNS), st.sampled_from(NOUNS)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([" ", "  ", "\u00a0", "\t", " \r\u2028"]),
)
def test_known_words_come_back(grammar: Codec, sentences: Sequence[str], gap: str) -> None:
    line = gap.join(["", *sentences, ""])
    assert [word for word in grammar.unknown(line) if word.strip()] == []
    assert grammar.tokenizer.detokenize(grammar.tokenize(line)) == " ".join(line.split())
    (plain,) = grammar.encode([" ".join(sentences)])
    assert grammar.decode(plain) == " ".join(sentences)


def test_json_round_trip_keeps_the_fingerprint(german: Codec, english: Codec) -> None:
    copy = Codec.from_dict(json.loads(json.dumps(german.to_dict())))
    assert copy == german
    assert copy.fingerprint == german.fingerprint
    assert len(german.fingerprint) == 64
    assert english.fingerprint != german.fingerprint
    assert codecs(lowercase=True)[0].fingerprint != german.fingerprint
    assert codecs(max_size=5)[0].fingerprint != german.fingerprint


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("word", {"language": "nl"}),
        ("word", {"model": "de_core_news_sm"}),
        ("word", {"lowercase": True}),
        ("word", {"spacing": Spacing()}),
        ("bpe", {"language": "nl"}),
        ("bpe", {"kind": "wordpiece"}),
        ("bpe", {"lowercase": True}),
        ("bpe", {"state": "{}"}),
        ("bpe", {"truecaser": Truecaser(frozenset({"der"}), "de")}),
    ],
)
def test_the_fingerprint_knows_all_of_the_tokenizer(kind: str, change: dict[str, Any]) -> None:
    codec = codecs(kind=kind)[0]
    tokenizer: Any = codec.tokenizer
    other = replace(codec, tokenizer=replace(tokenizer, **change))
    assert other != codec
    assert other.fingerprint != codec.fingerprint


def test_a_model_from_before_text_was_composed_reads_it_as_it_did(german: Codec) -> None:
    saved = german.to_dict()
    del saved["composes"]
    before = Codec.from_dict(saved)
    assert before == replace(german, composes=False)
    assert before.fingerprint != german.fingerprint
    assert before.tokenize("scha\u0308fst") == ["scha\u0308fst"]
    assert german.tokenize("scha\u0308fst") == ["sch\u00e4fst"]


@pytest.mark.slow
def test_words_counted_by_several_processes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [codec.to_dict() for codec in codecs_of_many_lines()]
    monkeypatch.setattr(build, "CHUNK", 50)
    monkeypatch.setattr(build, "SPACING_LINES", 200)
    monkeypatch.setattr(pool, "cores", lambda: 2)
    assert [codec.to_dict() for codec in codecs_of_many_lines()] != expected  # The later lines have other spaces.
    monkeypatch.setattr(build, "SPACING_LINES", 10_000)
    assert [codec.to_dict() for codec in codecs_of_many_lines()] == expected


def codecs_of_many_lines() -> Codecs:
    german, english = ([f"{line} ({n % 90})" for n in range(100) for line in lines] for lines in (GERMAN, ENGLISH))
    return build_codecs(TextConfig(), ("de", "en"), [*german, *(line.replace(".", " .") for line in german)], english)


# --- the real corpus -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def training_text(multi30k: Path) -> TextInMemory:
    return open_split(multi30k, "train", "de", "en").in_memory()


@pytest.fixture(scope="module")
def real_codecs(training_text: TextInMemory) -> Codecs:
    return build_codecs(TextConfig(), ("de", "en"), training_text.source, training_text.target)


@pytest.mark.slow
def test_the_published_table(training_text: TextInMemory, real_codecs: Codecs) -> None:
    german, english = real_codecs
    assert (len(german.vocabulary), len(english.vocabulary)) == (19214, 10837)
    assert [BOS, *german.encode(training_text.source[:1])[0], EOS] == [
        *(2, 21, 85, 257, 31, 87, 22, 94, 7, 16, 112, 7910, 3209, 4, 3)
    ]
    assert [BOS, *english.encode(training_text.target[:1])[0], EOS] == [
        *(2, 19, 25, 15, 1169, 808, 17, 57, 84, 336, 1339, 5, 3)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("split", "exact"), [("train", (28849, 28993)), ("val", (1013, 1014)), ("test_2016_flickr", (999, 999))]
)
def test_share_of_exact_round_trips(multi30k: Path, real_codecs: Codecs, split: str, exact: tuple[int, int]) -> None:
    """The figures of docs/text.md."""
    text = open_split(multi30k, split, "de", "en").in_memory()
    for codec, lines, count in zip(real_codecs, (text.source, text.target), exact, strict=True):
        cut = codec.tokenizer.tokenize(lines)
        same = sum(codec.tokenizer.detokenize(tokens) == line for tokens, line in zip(cut, lines, strict=True))
        assert same == count
