"""Merges left out at random: as often as the paper says, and never a character lost."""

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from translate.config.text import TextConfig
from translate.text.bpe_dropout import BpeDropout
from translate.text.build import build_codecs
from translate.text.codec import Codec
from translate.text.pieces import PieceTokenizer

LINES = ["low lower lowest", "slow slower slowest", "new newer newest, the lowest wall", "\u00fcber  den Wall"]


def learned(lines: Sequence[str] = LINES, **settings: object) -> Codec:
    config = TextConfig.model_validate({"tokenizer": {"kind": "bpe", "min_freq": 1, **settings}})
    return build_codecs(config, ("en", "de"), lines, lines)[0]


CODEC, FALLBACK = learned(), learned(byte_fallback=True)
codecs = st.sampled_from([CODEC, FALLBACK])
texts = st.text(st.sampled_from("lowernst  ,\tü狗\u0308")) | st.text()


def test_there_is_something_to_leave_out() -> None:
    assert isinstance(CODEC.tokenizer, PieceTokenizer)
    assert len(CODEC.tokenizer.merges) > 15
    assert CODEC.tokenize("lowest") == [" lowest"]


def resegment(codec: Codec, line: str, p: float, seed: int = 0) -> list[int]:
    return BpeDropout(codec, p).resegment(codec.encode([line])[0], Random(seed))


@given(codecs, texts)
@example(CODEC, "\U00020000\U00020000lowest狗\U00020001er")
def test_nothing_left_out_is_plain_bpe(codec: Codec, line: str) -> None:
    assert resegment(codec, line, 0.0) == codec.encode([line])[0]


@given(texts.filter(str.strip))
def test_everything_left_out_is_characters(line: str) -> None:
    assert resegment(CODEC, line, 1.0) == CODEC.vocabulary.ids(f" {CODEC.prepare(line)}")


def test_the_text_may_have_the_rarest_ideographs() -> None:
    codec = learned(["\U00020000 \U00020000", "b"])
    assert codec.tokenize("\U00020000") == [" \U00020000"]
    assert resegment(codec, "\U00020000 狗 \U00020001b", 0.0) == codec.encode(["\U00020000 狗 \U00020001b"])[0]


def test_unknown_letters_end_no_pre_token() -> None:
    """Text without spaces is cut after every 64 letters, counted from the beginning of a run."""
    codec = learned(["我们今天去学校" * 3] * 20)
    line = "我们今天龘" + "我们今天去学校" * 20
    assert resegment(codec, line, 0.0) == codec.encode([line])[0]


@given(texts, st.floats(0, 1), st.integers(0, 9))
def test_the_text_stays(line: str, p: float, seed: int) -> None:
    ids = resegment(FALLBACK, line, p, seed)
    assert FALLBACK.decode(ids) == (FALLBACK.prepare(line) if line.strip() else "")


def probabilities(word: tuple[str, ...], merges: list[tuple[str, str]], p: float) -> Counter[tuple[str, ...]]:
    """How likely a word ends in each segmentation: the paper's algorithm, with every draw tried both ways."""
    possible = [(place, pair) for place, pair in enumerate(pairwise(word)) if pair in merges]
    found: Counter[tuple[str, ...]] = Counter()
    for left_out in product([False, True], repeat=len(possible)):
        chance = 1.0
        for out in left_out:
            chance *= p if out else 1 - p
        kept = [candidate for candidate, out in zip(possible, left_out, strict=True) if not out]
        if not kept:
            found[word] += chance
            continue
        place, (left, right) = min(kept, key=lambda candidate: (merges.index(candidate[1]), candidate[0]))
        merged = (*word[:place], left + right, *word[place + 2 :])
        for end, part in probabilities(merged, merges, p).items():
            found[end] += chance * part
    return found


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("word", ["lowest", "newer"])
def test_segmentations_are_as_frequent_as_the_paper_says(word: str, p: float) -> None:
    assert isinstance(CODEC.tokenizer, PieceTokenizer)
    expected = probabilities(tuple(f" {word}"), CODEC.tokenizer.merges, p)
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) > 8
    dropout, random, draws = BpeDropout(CODEC, p), Random(1), 20_000
    (ids,) = CODEC.encode([word])
    counts = Counter(tuple(CODEC.vocabulary.strings(dropout.resegment(ids, random))) for _ in range(draws))
    assert counts.keys() <= expected.keys()
    for segmentation, chance in expected.items():
        deviation = (chance * (1 - chance) / draws) ** 0.5
        assert counts[segmentation] / draws == pytest.approx(chance, abs=4.5 * deviation + 1 / draws)


def segmentations(seed: int) -> Iterator[list[int]]:
    dropout = BpeDropout(CODEC, 0.3)
    return (dropout.resegment(ids, Random(f"{seed} {number}")) for number, ids in enumerate(CODEC.encode(LINES * 5)))


def test_random_numbers_are_the_callers() -> None:
    assert [*segmentations(1)] == [*segmentations(1)]
    assert [*segmentations(1)] != [*segmentations(2)]


def test_memory_does_not_grow_with_pre_tokens_that_hardly_recur() -> None:
    """As in languages without spaces."""
    dropout, random = BpeDropout(CODEC, 0.1), Random(1)
    lines = CODEC.encode(["".join(random.choices("lowernst", k=60)) for _ in range(300)])
    tracemalloc.start()
    try:
        for ids in lines:
            dropout.resegment(ids, random)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 500_000


def test_the_same_merge_is_made_from_the_left() -> None:
    codec = learned(["baab aa", "aa"])
    assert codec.tokenize("baaab") == [" b", "aa", "a", "b"]
    assert resegment(codec, "baaab", 0.0) == codec.encode(["baaab"])[0]
