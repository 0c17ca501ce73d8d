"""Which pairs are trained on: what is dropped and why, and how often the others come."""

from dataclasses import replace

import numpy as np
import pytest

from translate.config.data import ParallelFilterConfig
from translate.data.corpus import TextInMemory, TextPart
from translate.data.dataset import Dataset, EncodedText
from translate.data.selection import select_pairs, upsample_pairs
from translate.errors import DataError


def parallel(source: list[str], target: list[str]) -> TextInMemory:
    return TextInMemory("train", source, target, source_sha256="", target_sha256="", variant="made up")


def encoded(lengths: list[int]) -> EncodedText:
    return EncodedText(np.zeros(sum(lengths), np.uint16), np.cumsum([0, *lengths]))


def selected(pairs: list[tuple[str, str]], config: ParallelFilterConfig) -> tuple[list[int], list[str]]:
    text = parallel([source for source, _ in pairs], [target for _, target in pairs])
    source, target = (encoded([len(line.split()) for line in side]) for side in (text.source, text.target))
    indices, report = select_pairs(Dataset(source, target), config, text)
    assert indices.dtype == np.int32  # For millions of pairs, more would take room.
    return indices.tolist(), report


def test_all_pairs_are_kept_where_nothing_is_wrong() -> None:
    assert selected([("ein", "one"), ("zwei drei", "two three")], ParallelFilterConfig()) == ([0, 1], [])


@pytest.mark.parametrize("line", ["„Hund“", "(a)", "... 3", "- 我"])
def test_a_word_may_stand_behind_a_mark(line: str) -> None:
    assert selected([(line, line)], ParallelFilterConfig()) == ([0], [])


def test_much_text_in_a_few_pairs_is_told() -> None:
    one, ten = ("a", "b"), ("a " * 10, "b " * 10)
    for pairs, told in (([one] * 91 + [ten], ""), ([one] * 90 + [ten], "; 10% of all tokens"), ([one, ten], "")):
        _, report = selected(pairs, ParallelFilterConfig(max_tokens=9))
        place = f"first line {len(pairs)}{told}"
        assert report == [f"dropped 1 pair: over 9 tokens on one side (data.filter.max_tokens), {place}"]


def test_each_dropped_pair_is_reported_under_its_first_reason() -> None:
    pairs = [
        ("ein Hund", "a dog"),
        ("@@", "a dog"),
        ("ein Hund", "..."),
        ("", "a dog"),
        ("a b c d e f", "a"),
        ("a b c d", "a"),
        ("我", "12"),
        ("a", "a b c d"),
    ]
    indices, report = selected(pairs, ParallelFilterConfig(max_tokens=5, max_ratio=3.5))
    assert indices == [0, 6]
    assert report == [
        "dropped 1 pair: an empty side, first line 4",
        "dropped 2 pairs: no letter or digit on one side (data.filter.untranslated), first line 2",
        "dropped 1 pair: over 5 tokens on one side (data.filter.max_tokens), first line 5",
        "dropped 2 pairs: one side over 3.5 times the other (data.filter.max_ratio), first line 6",
    ]


def test_limits_are_inclusive_and_the_untranslated_may_stay() -> None:
    config = ParallelFilterConfig(max_tokens=4, max_ratio=4.0, untranslated=False)
    assert selected([("a b c d", "a"), ("@@", "!")], config) == ([0, 1], [])


@pytest.mark.parametrize(("longer", "shorter", "ratio"), [(63, 45, 1.4), (115, 50, 2.3), (126, 45, 2.8)])
def test_a_pair_of_exactly_the_maximum_ratio_stays_although_its_product_is_rounded(
    longer: int, shorter: int, ratio: float
) -> None:
    assert ratio * shorter < longer
    pairs = [("a " * longer, "a " * shorter), ("a " * shorter, "a " * longer), ("a " * (longer + 1), "a " * shorter)]
    assert selected(pairs, ParallelFilterConfig(max_ratio=ratio))[0] == [0, 1]


def test_identical_and_repeated_pairs_are_dropped_if_that_is_asked_for() -> None:
    pairs = [("ein", "one"), ("Ron", "Ron"), ("ein", "one"), ("ein", "a"), ("Ron", "Ron"), ("ein", "one")]
    assert selected(pairs, ParallelFilterConfig()) == ([0, 1, 2, 3, 4, 5], [])
    assert selected(pairs, ParallelFilterConfig(identical=True)) == (
        [0, 2, 3, 5],
        ["dropped 2 pairs: the same text on both sides (data.filter.identical), first line 2"],
    )
    assert selected(pairs, ParallelFilterConfig(repeated=True)) == (
        [0, 1, 3],
        ["dropped 3 pairs: repeats another one (data.filter.repeated), first line 3"],
    )


def test_a_repeated_pair_is_kept_where_it_weighs_most() -> None:
    text = parallel(["a", "b", "a", "c", "a", "b"], ["x"] * 6)
    dataset = Dataset(encoded([1] * 6), encoded([1] * 6))
    parts = (TextPart("all", 2, 1), TextPart("clean", 3, 5), TextPart("more", 1, 1))
    indices, report = select_pairs(dataset, ParallelFilterConfig(repeated=True), replace(text, parts=parts))
    assert indices.tolist() == [1, 2, 3]
    assert report == ["dropped 3 pairs: repeats another one (data.filter.repeated), first all line 1"]


def test_of_repeated_pairs_that_weigh_the_same_the_first_is_kept() -> None:
    text = parallel(["a", "b"] * 50, ["x"] * 100)
    dataset = Dataset(encoded([1] * 100), encoded([1] * 100))
    parts = (TextPart("crawled", 50, 1), TextPart("clean", 50, 2))
    assert select_pairs(dataset, ParallelFilterConfig(repeated=True), replace(text, parts=parts))[0].tolist() == [
        50,
        51,
    ]


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(DataError) as caught:
        selected([("", "a"), ("b", "")], ParallelFilterConfig())
    assert str(caught.value) == (
        "train: nothing is left to train on (dropped 2 pairs: an empty side, first line 1); check the text"
    )
    with pytest.raises(DataError, match=r"an empty side, first line 1; dropped 1 pair: .*; change data\.filter$"):
        selected([("", "a"), ("@@", "@@")], ParallelFilterConfig())


def test_a_dropped_pair_is_named_within_its_corpus() -> None:
    text = parallel(["a", "b", "@@"], ["a", "b", "c"])
    dataset = Dataset(encoded([1, 1, 1]), encoded([1, 1, 1]))
    parts = (TextPart("one", 2, 1), TextPart("two", 1, 1))
    _, report = select_pairs(dataset, ParallelFilterConfig(), replace(text, parts=parts))
    assert report == ["dropped 1 pair: no letter or digit on one side (data.filter.untranslated), first two line 1"]


def test_pairs_are_repeated_by_the_weight_of_their_corpus() -> None:
    text = parallel(["a"] * 6, ["a"] * 6)
    pairs = np.array([0, 2, 3, 4])
    assert upsample_pairs(pairs, text) is pairs
    parts = (TextPart("one", 2, 1), TextPart("two", 1, 3), TextPart("three", 3, 2))
    assert upsample_pairs(pairs, replace(text, parts=parts)).tolist() == [0, 2, 2, 2, 3, 3, 4, 4]
