"""Pairs that occur more than once, or on both sides, or in held-out text."""

from dataclasses import replace

import pytest

from translate.config.data import ParallelFilterConfig
from translate.data.copies import count_copies, warn_of_copies
from translate.data.corpus import TextPair


def test_blank_pairs_are_no_copies(caplog: pytest.LogCaptureFixture) -> None:
    both, words, blanks = ["", " "] * 9, ["c"] * 9, [" "] * 9
    train = TextPair("train", ["a", *both, *words, *blanks], ["b", *both, *blanks, *words], "1", "2", "made up")
    valid = TextPair("val", ["c"], ["d"], "3", "4", "made up")
    warn_of_copies(train, valid)
    assert caplog.messages == []


@pytest.mark.parametrize("filters", [None, ParallelFilterConfig(), ParallelFilterConfig(identical=True)])
def test_what_is_copied_is_counted_and_the_first_is_named(
    filters: ParallelFilterConfig | None, caplog: pytest.LogCaptureFixture
) -> None:
    source = [f"a{number}" for number in range(100)]
    target = [f"b{number}" for number in range(98)] + source[98:]
    valid = TextPair("val", ["c"], ["d"], "3", "4", "x")
    warn_of_copies(TextPair("train", source, target, "1", "2", "x"), valid, filters=filters)
    warning = (
        "train: 2 of 100 pairs have the same text on both sides (the first in line 99), which teaches a model to copy"
    )
    remedy = "; data.filter.identical=true drops them" if filters else ""
    assert caplog.messages == ([] if filters and filters.identical else [warning + remedy])


@pytest.mark.parametrize(("pairs", "warned"), [(100, True), (101, False)])
def test_one_copy_in_a_hundred_is_worth_saying(pairs: int, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    source = [f"a{number}" for number in range(pairs)]
    target = [source[0], *(f"b{number}" for number in range(1, pairs))]
    warn_of_copies(TextPair("train", source, target, "1", "2", "x"), TextPair("val", ["c"], ["d"], "3", "4", "x"))
    assert ("1 of 100 pairs have the same text on both sides" in caplog.text) == bool(caplog.messages) == warned


@pytest.mark.parametrize(
    ("repeated", "filters", "warned"),
    [
        (9, ParallelFilterConfig(), False),
        (10, ParallelFilterConfig(), True),
        (10, ParallelFilterConfig(repeated=True), False),
    ],
)
def test_a_tenth_of_pairs_that_repeat_others(
    repeated: int, filters: ParallelFilterConfig, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source = ["again", *(f"a{number}" for number in range(99 - repeated)), *["again"] * repeated]
    target = ["noch einmal", *(f"b{number}" for number in range(99 - repeated)), *["noch einmal"] * repeated]
    valid = TextPair("val", ["c"], ["d"], "3", "4", "x")
    warn_of_copies(TextPair("train", source, target, "1", "2", "x"), valid, filters=filters)
    expected = [
        f"train: {repeated} of 100 pairs repeat others and count as often; data.filter.repeated=true drops repetitions"
    ]
    assert caplog.messages == (expected if warned else [])


@pytest.mark.parametrize(("rows", "warned"), [(5, False), (6, True)])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_a_table(rows: int, warned: bool, turned: bool, caplog: pytest.LogCaptureFixture) -> None:
    sides = [f"a{number}\tb" for number in range(rows)] + ["a"] * (10 - rows), [f"b{number}" for number in range(10)]
    source, target = sides[::-1] if turned else sides
    valid = TextPair("val", ["c"], ["d"], "3", "4", "x")
    warn_of_copies(TextPair("train", source, target, "1", "2", "x"), valid, filters=ParallelFilterConfig())
    expected = [
        f"train: {rows} of 10 pairs have a tab on one side, which may be the rows of a table with the other side in "
        "them; cut -f1 FILE prints the first column"
    ]
    assert caplog.messages == (expected if warned else [])


def test_labelled_text_with_more_columns(caplog: pytest.LogCaptureFixture) -> None:
    """The first of which is the label, and has been cut off."""
    train = TextPair("train", ["a\tb", "c\td"], ["x", "y"], "1", "2", "x", unit="texts")
    warn_of_copies(train, TextPair("val", ["c"], ["x"], "3", "4", "x", unit="texts"))
    assert caplog.messages == [
        "train: 2 of 2 texts have a tab in them, which may begin a further column; cut -f1,2 FILE prints label and "
        "text alone"
    ]


@pytest.mark.parametrize(("pairs", "warned"), [(100, True), (101, False)])
def test_one_known_validation_pair_in_a_hundred_is_worth_saying(
    pairs: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = ([f"{side}{number}" for number in range(pairs)] for side in "ab")
    warn_of_copies(TextPair("train", ["a0"], ["b0"], "1", "2", "x"), TextPair("val", source, target, "3", "4", "x"))
    assert ("val: 1 of 100 different pairs are also in the" in caplog.text) == bool(caplog.messages) == warned


def test_scores_on_known_test_pairs_say_less(caplog: pytest.LogCaptureFixture) -> None:
    train, valid = (TextPair(name, [name], ["a"], f"{name}1", f"{name}2", "x") for name in ("train", "val"))
    test = TextPair("test", ["train", "b"], ["a", "c"], "3", "4", "x")
    warn_of_copies(train, valid, [test, TextPair("test2", ["d"], ["e"], "5", "6", "x")])
    assert caplog.messages == [
        "test: 1 of 2 different pairs are also in the training text, so its scores say less about unseen text; remove "
        "them from one of the two"
    ]


def test_a_leaked_pair_counts_once_in_each_text() -> None:
    train = TextPair("train", ["a", "b", "a", "b"], ["c", "d", "c", "e"], "1", "2", "x")
    valid = TextPair("val", ["a", "a", "b", "f"], ["c", "c", "e", "g"], "3", "4", "x")
    test = TextPair("test", ["b", "f"], ["d", "g"], "5", "6", "x")
    assert count_copies(train, [valid, test]).leaked == [(2, 3), (1, 2)]


def test_the_first_copy_may_be_the_first_pair() -> None:
    train = TextPair("train", ["a", "b", "c"], ["a", "d", "c"], "1", "2", "x")
    found = count_copies(train, [])
    assert (found.identical, found.first_identical) == (2, 0)


@pytest.mark.parametrize("name", ["train", "val"])
def test_text_of_equal_sides_is_warned_of(name: str, caplog: pytest.LogCaptureFixture) -> None:
    hashes = {"train": ("1", "2"), "val": ("3", "4"), name: ("5", "5")}
    warn_of_copies(*(TextPair(text, [text], ["b"], *sides, "x") for text, sides in hashes.items()))
    assert caplog.messages == [f"{name}: source and target are the same text: there is nothing to translate"]


def test_validation_text_that_is_the_training_text_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    text = TextPair("train", ["a"], ["b"], "1", "2", "x")
    warn_of_copies(text, replace(text, name="val"))
    assert caplog.messages == ["the validation text is the training text: its scores say nothing about unseen text"]


def test_other_translations_of_the_training_text_are_other_text(caplog: pytest.LogCaptureFixture) -> None:
    text = TextPair("train", ["a"], ["b"], "1", "2", "x")
    warn_of_copies(text, TextPair("val", ["a"], ["c"], "1", "3", "x"))
    warn_of_copies(text, TextPair("val", ["d"], ["b"], "4", "2", "x"))
    assert caplog.messages == []
