"""Characters, bytes and parts of words: equal to slow, obvious versions, and exact to the character."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.config.text import TextConfig
from translate.data.splits import open_split
from translate.errors import ConfigError, DataError
from translate.text import piece_learning, pieces
from translate.text.build import build_codecs
from translate.text.casing import Truecaser
from translate.text.piece_learning import LEARNERS, _pre_tokenizer, learn_pieces
from translate.text.pieces import CONTINUES, WITH_WORDS, PieceTokenizer
from translate.text.vocabulary import UNK

ROOT = Path(__file__).resolve().parents[2]

LINES = [
    "low lower lowest slow slower slowest",
    "new newer newest renew renewed (new)",
    "the new law is slower than the low wall",
    "a man and a woman walk along the wall and down the lane",
    "women and men, walking and talking, walked and talked",
    "the lowest wall was renewed when the owner wanted a newer one",
    "who knows how slow the slowest snow owl was then, now and here",
    "  two  spaces\tand a tab, ##hash #2 \u00a0no break\u2028line ",
    "u\u0308ber über <eos> <0x41> 3.14 100% 我爱你。",
]
KNOWN = "".join(sorted(set("".join(LINES))))
SETTINGS: dict[str, dict[str, Any]] = {
    "char": {"min_freq": 1},
    "byte": {},
    "bpe": {"vocab_size": 80, "min_freq": 2, "byte_fallback": False},
    "wordpiece": {"vocab_size": 130, "min_freq": 2},
    "unigram": {"vocab_size": 80, "byte_fallback": False},
}


def learn_one(lines: list[str], **settings: Any) -> PieceTokenizer:
    (tokenizer,) = learn_pieces([("en", lines)], **settings)
    return tokenizer


TOKENIZERS = {kind: learn_one(LINES, kind=kind, **settings) for kind, settings in SETTINGS.items()}
FALLBACKS = {
    kind: learn_one(LINES, kind=kind, **SETTINGS[kind] | {"byte_fallback": True}) for kind in ("bpe", "unigram")
}
BYTE_CODEC = build_codecs(TextConfig.model_validate({"tokenizer": {"kind": "byte"}}), ("de", "en"), ["x"], ["y"])[1]


def test_all_kinds_are_here() -> None:
    assert SETTINGS.keys() == LEARNERS.keys()
    assert len(SETTINGS) == 5


def cut(kind: str, line: str) -> list[str]:
    return next(TOKENIZERS[kind].tokenize([line]))


def pre_tokens(line: str) -> list[str]:
    return [token for token, _ in _pre_tokenizer().pre_tokenize_str(line)]


# --- exactness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("line", LINES)
def test_training_lines_come_back_with_all_their_white_space(kind: str, line: str) -> None:
    tokens = cut(kind, line)
    assert set(tokens) <= set(TOKENIZERS[kind].pieces)
    assert TOKENIZERS[kind].detokenize(tokens) == line


@given(line=st.text(st.sampled_from(KNOWN)), kind=st.sampled_from(sorted(SETTINGS)))
def test_known_characters_come_back(line: str, kind: str) -> None:
    tokens = cut(kind, line)
    assert set(tokens) <= set(TOKENIZERS[kind].pieces)
    assert TOKENIZERS[kind].detokenize(tokens) == (line if line.strip() else "")


@given(line=st.text(), kind=st.sampled_from(sorted(SETTINGS)))
def test_unknown_pieces_stand_for_themselves(line: str, kind: str) -> None:
    assert TOKENIZERS[kind].detokenize(cut(kind, line)) == (line if line.strip() else "")


@given(st.text())
def test_with_bytes_to_fall_back_on_nothing_is_unknown(line: str) -> None:
    for tokenizer in (*FALLBACKS.values(), TOKENIZERS["byte"]):
        tokens = next(tokenizer.tokenize([line]))
        assert set(tokens) <= set(tokenizer.pieces)
        assert tokenizer.detokenize(tokens) == (line if line.strip() else "")


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_lone_surrogate_is_a_question_mark(kind: str) -> None:
    assert cut(kind, "new \udcff") == cut(kind, "new ?")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (" The dog's 12 toys!!", [" The", " dog", "'", "s", " 1", "2", " toys", "!!"]),
        (" a  b\t c\u00a0d\u2028e", [" a", " ", " b", "\t", " c", "\u00a0", "d", "\u2028", "e"]),
        (" u\u0308ber A\u0308", [" u\u0308ber", " A\u0308"]),
        (" कुत्ता सो", [" कुत्ता", " सो"]),
        (" می\u200cخواهم", [" می\u200cخواهم"]),
        (" ##b #2", [" #", "#", "b", " #", "2"]),
        (" <eos> <0x41>", [" <", "eos", ">", " <", "0", "x", "4", "1", ">"]),
        (" \u2764\ufe0f!", [" \u2764\ufe0f!"]),
        (" 我爱你。", [" 我爱你", "。"]),
        (" " + "a" * 130, [" " + "a" * 64, "a" * 64, "a" * 2]),
        (" " + "-" * 65 + "1½", [" " + "-" * 64, "-", "1", "½"]),
    ],
)
def test_pre_tokens_of_a_line(line: str, expected: list[str]) -> None:
    assert pre_tokens(line) == expected


@given(st.text())
def test_pre_tokens_cover_the_line(line: str) -> None:
    assert "".join(pre_tokens(line)) == line


# --- each kind beside an obvious version -----------------------------------------------------------------------------


def test_characters() -> None:
    line = "we lo\u0308w\U0001f415  "
    assert cut("char", line) == list(line)
    counts = Counter("".join(LINES))
    assert list(TOKENIZERS["char"].pieces) == sorted(counts, key=lambda character: (-counts[character], character))
    frequent = learn_one(LINES, kind="char", min_freq=3).pieces
    assert frequent == tuple(character for character in TOKENIZERS["char"].pieces if counts[character] >= 3)


@given(st.text().filter(str.strip))
def test_bytes(line: str) -> None:
    (ids,) = BYTE_CODEC.encode([line])
    assert ids == [4 + byte for byte in line.encode()]
    assert BYTE_CODEC.decode(ids) == line


def test_bytes_that_are_no_text() -> None:
    detokenize = TOKENIZERS["byte"].detokenize
    assert detokenize(["<0x61>", "<0xC3>", "<0x62>"]) == "a\ufffdb"
    assert detokenize(["<0xC3>", "<0xBC>", "<0xC3>"]) == "ü\ufffd"
    assert FALLBACKS["bpe"].detokenize([" a", "<0xFF>", "<0xE6>", "<0x88>", "<0x91>", " b"]) == "a\ufffd我 b"


def naive_merges(words: Counter[tuple[str, ...]], count: int) -> Iterator[tuple[str, str]]:
    """Byte-pair encoding as it was published: merge the most frequent pair everywhere, and again."""
    order = {piece: i for i, piece in enumerate(sorted({piece for word in words for piece in word}))}
    for _ in range(count):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += times
        best = min(pairs, key=lambda pair: (-pairs[pair], order[pair[0]], order[pair[1]]), default=None)
        if best is None or pairs[best] < 2:
            return
        yield best
        order.setdefault("".join(best), len(order))
        words = Counter({merged(word, best): times for word, times in words.items()})


def merged(word: Sequence[str], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)


def naive_bpe(part: str, merges: Sequence[tuple[str, str]]) -> list[str]:
    word = tuple(part)
    for pair in merges:
        word = merged(word, pair)
    return list(word)


def test_bpe_learns_the_published_merges() -> None:
    words = Counter(tuple(part) for line in LINES for part in pre_tokens(f" {line}"))
    expected = [*naive_merges(words, 60)]
    assert len(expected) > 30
    tokenizer = learn_one(LINES, kind="bpe", vocab_size=1000, min_freq=2, byte_fallback=False)
    assert tokenizer.merges == expected
    assert tokenizer.pieces == (*sorted(set(" " + KNOWN)), *dict.fromkeys(map("".join, expected)))


@given(st.text(st.sampled_from("lowernst ( ")))
def test_bpe_merges_in_the_learned_order(line: str) -> None:
    merges = TOKENIZERS["bpe"].merges
    expected = [piece for part in pre_tokens(f" {line}") for piece in naive_bpe(part, merges)] if line.strip() else []
    assert cut("bpe", line) == expected


@given(st.text(st.sampled_from("lowernst (#z")))
def test_wordpiece_takes_the_longest_piece(line: str) -> None:
    known = set(TOKENIZERS["wordpiece"].pieces)

    def pieces(part: str) -> list[str]:
        found: list[str] = []
        rest = part
        while rest:
            prefix = "##" if found else ""
            longest = next((rest[:n] for n in range(len(rest), 0, -1) if prefix + rest[:n] in known), None)
            if longest is None:
                return [part]  # An unknown character makes the whole word unknown.
            found.append(prefix + longest)
            rest = rest[len(longest) :]
        return found

    expected = [piece for part in pre_tokens(f" {line}") for piece in pieces(part)] if line.strip() else []
    assert cut("wordpiece", line) == expected


def test_wordpiece_has_every_character_to_begin_a_word_and_to_continue_one() -> None:
    known = TOKENIZERS["wordpiece"].pieces
    for character in {" ", *KNOWN}:
        assert {character, f"##{character}"} <= set(known)
    assert TOKENIZERS["wordpiece"].detokenize(["##lo", "##w", " #", "#", "##"]) == "low ##"


@given(st.text(st.sampled_from("lowernst "), max_size=14))
def test_unigram_takes_the_likeliest_pieces(line: str) -> None:
    scores = dict(json.loads(TOKENIZERS["unigram"].state)["model"]["vocab"])

    def best(part: str) -> float:
        """The highest sum of log-probabilities, over all ways to cut."""
        ways = (
            [part[i:j] for i, j in itertools.pairwise((0, *ends, len(part)))]
            for count in range(len(part))
            for ends in itertools.combinations(range(1, len(part)), count)
        )
        return max(sum(scores[piece] for piece in way) for way in ways if all(piece in scores for piece in way))

    pieces = cut("unigram", line)
    if line.strip():
        assert sum(scores[piece] for piece in pieces) == pytest.approx(
            sum(best(part) for part in pre_tokens(f" {line}"))
        )
        assert "".join(pieces) == f" {line}"


def test_unigram_tells_frequent_characters_from_rare_ones() -> None:
    scores = dict(json.loads(TOKENIZERS["unigram"].state)["model"]["vocab"])
    assert scores["e"] > min(scores.values())


def test_unigram_knows_whole_words() -> None:
    """The library's trainer alone misses words that nothing goes on from, however frequent."""
    lines = ["and so and so and on, and"] * 20 + ["sand band android"]
    pieces = learn_one(lines, kind="unigram", vocab_size=40, byte_fallback=False).pieces
    assert " and" in pieces
    assert " android" not in pieces  # It occurs once.


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_there_are_as_many_pieces_as_asked_for(kind: str) -> None:
    assert len(TOKENIZERS[kind].pieces) == SETTINGS[kind]["vocab_size"]


def test_bytes_to_fall_back_on_are_not_counted() -> None:
    for kind, tokenizer in FALLBACKS.items():
        assert len(tokenizer.pieces) == len(TOKENIZERS[kind].pieces) + 256 == 80 + 256
        assert tokenizer.pieces[256:] == TOKENIZERS[kind].pieces


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_vocabulary_without_room_for_the_characters_is_refused(kind: str) -> None:
    characters = len(set(" " + KNOWN)) * (2 if kind == "wordpiece" else 1)
    with pytest.raises(ConfigError) as caught:
        learn_one(LINES, kind=kind, **{**SETTINGS[kind], "vocab_size": characters - 1})
    assert str(caught.value) == (
        f"text.tokenizer.vocab_size: {characters - 1} is less than the {characters} pieces that the single characters "
        "of the training text need; raise it to that or more, or lower text.tokenizer.character_coverage"
    )
    exactly = learn_one(LINES, kind=kind, **{**SETTINGS[kind], "vocab_size": characters})
    assert len(exactly.pieces) == characters


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_vocabulary_that_single_characters_nearly_fill_is_warned_of(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines, characters = ["abcabc abc"] * 9, 8 if kind == "wordpiece" else 4
    settings = {key: value for key, value in SETTINGS[kind].items() if key != "vocab_size"}
    learn_one(lines, kind=kind, vocab_size=2 * characters, **settings)
    assert caplog.messages == []
    learn_one(lines, kind=kind, vocab_size=2 * characters - 1, **settings)
    assert caplog.messages == [
        f"single characters take {characters} of the {2 * characters - 1} pieces of text.tokenizer.vocab_size: raise "
        "it, or lower text.tokenizer.character_coverage"
    ]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_the_rarest_characters_get_no_piece(kind: str) -> None:
    """Pieces are those of a text that is divided where the rare characters stand; ties go by code point."""
    frequent, settings = ["so low a wall, so low a wall"] * 40, {**SETTINGS[kind], "vocab_size": 30}
    lines = [*frequent, "a爱wall-b", "low_"]
    total = sum(len(f" {line}") for line in lines)
    tokenizer = learn_one(lines, kind=kind, character_coverage=(total - 3.5) / total, **settings)
    texts = [*(f" {line}" for line in frequent), " a", "wall-", " low"]
    assert tokenizer.state == LEARNERS[kind](texts, **settings).to_str()
    assert tokenizer.detokenize(next(tokenizer.tokenize(["wall爱wall"]))) == "wall爱wall"


def test_all_characters_are_covered_unless_asked_otherwise() -> None:
    lines = ["ab" * 1000, "爱"]
    assert "爱" in learn_one(lines, **SETTINGS["bpe"], kind="bpe").pieces
    assert "爱" not in learn_one(lines, **SETTINGS["bpe"], kind="bpe", character_coverage=0.999).pieces


def test_characters_that_are_all_too_rare_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        learn_one(["aab"], kind="char", min_freq=3)
    assert str(caught.value) == (
        "text.tokenizer.min_freq: 3 keeps no character of the training text, "
        "whose most frequent one occurs 2 times; lower it"
    )


@pytest.mark.parametrize("kind", SETTINGS)
def test_blank_text_is_refused(kind: str) -> None:
    with pytest.raises(DataError, match="every line of the training text is blank"):
        learn_one(["", "  "], kind=kind, **SETTINGS[kind])


# --- the library -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SETTINGS)
def test_without_the_library_joining_works_and_cutting_says_what_is_missing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = cut(kind, LINES[0])
    copy = PieceTokenizer.from_dict(TOKENIZERS[kind].to_dict())
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert copy.detokenize(tokens) == LINES[0]
    with pytest.raises(
        ConfigError, match=r"needs the package 'tokenizers', .*: pip install tokenizers\. .*data\.cache"
    ):
        list(copy.tokenize(["new"]))


def test_the_library_says_nothing(tmp_path: Path) -> None:
    """No progress bars, and no warning of forks."""
    program = f"""
import logging, os, subprocess
from translate.text.piece_learning import learn_pieces
logging.getLogger("translate").setLevel("ERROR")  # These vocabularies are too small, which is ours to say.
for kind, settings in {SETTINGS!r}.items():
    (tokenizer,) = learn_pieces([("en", {LINES!r} * 50)], kind=kind, **settings)
    list(tokenizer.tokenize({LINES!r} * 50))
subprocess.run(["true"], check=True)
if child := os.fork():
    os.waitpid(child, 0)
else:
    list(tokenizer.tokenize({LINES!r} * 50))
"""
    environment = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
    # Python itself warns of forks beside threads from 3.12 on.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize(("asked", "inside"), [(None, "true"), ("false", "false"), ("true", "true")])
def test_the_library_has_several_threads_only_to_learn_unigram_pieces(
    asked: str | None, inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more, a process that is forked later would wait for them forever."""
    learn, seen = piece_learning._trained, []
    monkeypatch.setattr(pieces, "ASKED", asked)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", asked or "false")

    def noted(*inputs: Any) -> Any:
        seen.append(os.environ["TOKENIZERS_PARALLELISM"])
        return learn(*inputs)

    monkeypatch.setattr(piece_learning, "_trained", noted)
    for kind in ("bpe", "unigram", "wordpiece"):
        learn_pieces([("en", LINES * 50)], kind=kind, **SETTINGS[kind])
    assert seen == [asked or "false", inside, asked or "false"]
    assert os.environ["TOKENIZERS_PARALLELISM"] == (asked or "false")


def test_unigram_pieces_are_the_same_on_one_core_and_on_all() -> None:
    program = f"""
import hashlib, logging
from translate.text.piece_learning import learn_pieces
logging.getLogger("translate").setLevel("ERROR")
(tokenizer,) = learn_pieces([("en", {LINES!r} * 50)], kind="unigram", **{SETTINGS["unigram"]!r})
print(hashlib.sha256(tokenizer.state.encode()).hexdigest())
"""
    found = set()
    for variables in ({"TOKENIZERS_PARALLELISM": "false"}, {"RAYON_NUM_THREADS": "2"}, {"RAYON_NUM_THREADS": "7"}):
        kept = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
        command = [sys.executable, "-c", program]
        found.add(subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, env=kept | variables, check=True).stdout)
    assert len(found) == 1


@pytest.mark.parametrize("kind", sorted(WITH_WORDS))
def test_numbers_are_digits_whether_they_were_in_the_training_text_or_not(kind: str) -> None:
    lines = [f"{number} dogs" for number in (1234, 1234, 567, 89, 10)]
    (tokenizer,) = learn_pieces([("en", lines)], kind=kind, **SETTINGS[kind] | {"vocab_size": 60})
    for number in ("1234", "4321"):
        (tokens,) = tokenizer.tokenize([f"the {number}"])
        assert [token.removeprefix(CONTINUES).strip() for token in tokens if token[-1].isdigit()] == list(number)


# --- the real corpus -------------------------------------------------------------------------------------------------


FIGURES = {
    "char": (73_692, 62_283),
    "byte": (74_967, 62_283),
    "bpe": (15_208, 14_211),
    "wordpiece": (15_236, 14_209),
    "unigram": (15_234, 14_263),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNERS)
def test_the_real_corpus_comes_back(multi30k: Path, kind: str) -> None:
    """The tokens of the validation text, as in docs/text.md, and every line to the character."""
    train = open_split(multi30k, "train", "de", "en").in_memory()
    config = TextConfig.model_validate({"tokenizer": {"kind": kind}})
    codecs = build_codecs(config, ("de", "en"), train.source, train.target)
    for split in ("val", "test_2016_flickr"):
        text = open_split(multi30k, split, "de", "en").in_memory()
        encoded = [codec.encode(lines) for codec, lines in zip(codecs, (text.source, text.target), strict=True)]
        assert not any(UNK in ids for side in encoded for ids in side)
        for codec, side, lines in zip(codecs, encoded, (text.source, text.target), strict=True):
            assert [codec.decode(ids) for ids in side] == lines
        if split == "val":
            assert tuple(sum(map(len, side)) for side in encoded) == FIGURES[kind]


# --- truecasing ------------------------------------------------------------------------------------------------------

GERMAN = ["Der Hund und der Mann.", "Ein Mann und ein Hund.", "Und der Hund."]
ENGLISH = ["The dog and the man.", "Die by the dog and die."]


def test_a_truecaser_without_words_still_begins_lines_with_a_capital() -> None:
    tokenizer = replace(TOKENIZERS["bpe"], truecaser=Truecaser(frozenset(), "en"))
    copy = PieceTokenizer.from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert copy == tokenizer
    assert copy.detokenize([" l", "ow"]) == "Low"


def test_a_tokenizer_from_before_truecasing_has_none() -> None:
    saved = TOKENIZERS["bpe"].to_dict()
    del saved["truecaser"]
    assert PieceTokenizer.from_dict(saved) == TOKENIZERS["bpe"]


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_each_language_has_its_own_case(kind: str, joint: bool) -> None:
    settings = {"kind": kind, "vocab_size": 60, "truecase": True}
    config = TextConfig.model_validate({"tokenizer": settings, "joint_vocabulary": joint})
    source, target = build_codecs(config, ("de", "en"), GERMAN, ENGLISH)
    assert source.encode(["Der Hund."]) == source.encode(["der Hund."])
    assert target.encode(["The dog."]) == target.encode(["the dog."])
    assert "".join(source.tokenize("Und der Hund")).replace("##", "") == " und der Hund"
    assert [target.decode(ids) for ids in target.encode(["the dog", "The man", "Dog"])] == ["The dog", "The man", "Dog"]
    assert target.tokenizer.normalize("the dog") == "The dog"
    copy = type(target).from_dict(json.loads(json.dumps(target.to_dict())))
    assert copy == target
    assert copy.fingerprint == target.fingerprint


def test_text_in_small_letters_stays_so() -> None:
    config = TextConfig.model_validate({"tokenizer": {"kind": "bpe", "vocab_size": 60, "truecase": True}})
    source, target = build_codecs(config, ("de", "en"), GERMAN, [line.lower() for line in ENGLISH])
    assert source.decode(source.encode(["der Hund"])[0]) == "Der Hund"
    assert target.decode(target.encode(["the dog"])[0]) == "the dog"


def test_a_share_that_is_reached_exactly_needs_no_further_character() -> None:
    assert learn_one(["a" * 9 + "b"], kind="char", min_freq=1, character_coverage=0.9).pieces == ("a",)
