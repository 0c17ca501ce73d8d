"""What is said of text that does not look as it should."""

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from translate.config.data import ParallelDataConfig, ParallelFilterConfig
from translate.data.checks import (
    check_variety,
    count_copies,
    line_lengths,
    log_unknown_share,
    refuse_swapped_files,
    warn_of_copies,
    warn_of_long_lines,
    warn_of_misaligned_lines,
    warn_of_truncated_sources,
    warn_of_wrong_sides,
)
from translate.data.corpus import TextInMemory, TextPair, TextPart
from translate.data.dataset import Dataset, EncodedText
from translate.errors import ConfigError, DataError
from translate.text.vocabulary import UNK

RNG = np.random.default_rng(1)
SOURCE = RNG.integers(1, 30, 2000)
TARGET = np.maximum(1, SOURCE + RNG.integers(-5, 6, 2000))
TEXT = TextPair("train", [], [], "", "", "made up")


def said(source: np.ndarray, target: np.ndarray, caplog: pytest.LogCaptureFixture, text: TextPair = TEXT) -> list[str]:
    caplog.clear()
    warn_of_misaligned_lines(source, target, text)
    return caplog.messages


GERMAN = [f"{('Ein', 'Der')[n % 2]} Hund{n % 7} in Haus{n % 9}" for n in range(120)]
ENGLISH = [f"{('a', 'the')[n % 2]} dog{n % 7} in house{n % 9}" for n in range(120)]
CHINESE = [f"房子{n}里的狗" for n in range(120)]


@pytest.mark.parametrize(
    ("source", "target", "warned"),
    [
        (GERMAN, ENGLISH, False),
        (ENGLISH, GERMAN, True),
        ([line.upper() for line in ENGLISH], GERMAN, True),
        (ENGLISH, ENGLISH, False),
        (GERMAN, GERMAN, False),
        (["日本語"] * 120, ["中文"] * 120, False),
    ],
)
def test_swapped_sides_of_the_validation_text(
    source: list[str], target: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    train = TextPair("train", GERMAN, ENGLISH, "1", "2", "x")
    warn_of_wrong_sides(train, TextPair("val", source, target, "3", "4", "x"))
    expected = "the source of val has the words of the target of train, and its target those of the source: one of the"
    assert [message.startswith(expected) for message in caplog.messages] == [True] * warned


OTHERS = [f"狗{n}的房子里" for n in range(120)]


def test_swapped_sides_without_spaces(caplog: pytest.LogCaptureFixture) -> None:
    train, valid = TextPair("t", ENGLISH, CHINESE, "1", "2", "x"), TextPair("v", ENGLISH, OTHERS, "3", "4", "x")
    warn_of_wrong_sides(train, valid)
    assert caplog.messages == []
    warn_of_wrong_sides(train, replace(valid, source=valid.target, target=valid.source))
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(("training", "validation", "warned"), [(120, 99, 0), (99, 120, 0), (100, 100, 1)])
def test_too_few_lines_to_tell(training: int, validation: int, warned: int, caplog: pytest.LogCaptureFixture) -> None:
    train = TextPair("train", GERMAN[:training], ENGLISH[:training], "1", "2", "x")
    warn_of_wrong_sides(train, TextPair("val", ENGLISH[:validation], GERMAN[:validation], "3", "4", "x"))
    assert len(caplog.messages) == warned


def test_a_side_is_judged_by_its_first_thousand_lines(caplog: pytest.LogCaptureFixture) -> None:
    train = TextPair("train", GERMAN * 9, ENGLISH * 9, "1", "2", "x")
    warn_of_wrong_sides(train, TextPair("val", ENGLISH * 9 + GERMAN * 90, GERMAN * 99, "3", "4", "x"))
    assert len(caplog.messages) == 1
    caplog.clear()
    blank = [""] * 900
    warn_of_wrong_sides(train, TextPair("val", blank + ENGLISH, blank + GERMAN, "3", "4", "x"))
    assert len(caplog.messages) == 1


def test_both_sides_may_share_most_of_their_words(caplog: pytest.LogCaptureFixture) -> None:
    whole, part = ["a b c d e"] * 120, ["a b c"] * 120
    warn_of_wrong_sides(TextPair("train", whole, part, "1", "2", "x"), TextPair("val", part, whole, "2", "1", "x"))
    some, others = ["a b c"] * 120, ["c d e"] * 120  # in the validation text, half of the words are of the other side
    valid = TextPair("val", ["a c d e"] * 120, ["c d a b"] * 120, "3", "4", "x")
    warn_of_wrong_sides(TextPair("train", some, others, "1", "2", "x"), valid)
    assert caplog.messages == []


def with_names(lines: list[str], names: int) -> list[str]:
    """The lines, with so many words in each that occur nowhere else."""
    return [" ".join([line, *(f"Name{n}-{m}" for m in range(names))]) for n, line in enumerate(lines)]


@pytest.mark.parametrize(
    ("source", "target", "warned"),
    [
        (ENGLISH, ENGLISH, "the source of mono has the words of the target of val: is it in the wrong language?"),
        (GERMAN, GERMAN, "the target of mono has the words of the source of val: is it in the wrong language?"),
        (GERMAN, ENGLISH, None),
        ([f"{line} xxen" for line in ENGLISH], ENGLISH, None),  # told apart by a tag
        (with_names(ENGLISH, 12), ENGLISH, "the source of mono has the words of the target of val: is it in the wrong"),
        (with_names(ENGLISH, 13), ENGLISH, None),  # of whose words less than a quarter are in the validation text
        ([f"{german} {english}" for german, english in zip(GERMAN, ENGLISH, strict=True)], ENGLISH, None),
        ([""] * 120, ENGLISH, None),
    ],
)
def test_one_side_of_a_corpus_in_the_wrong_language(
    source: list[str], target: list[str], warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as text that a model of the other direction has copied instead of translated."""
    mono = TextPair("mono", source, target, "1", "2", "x")
    train = replace(mono, corpora=(TextPair("train", GERMAN, ENGLISH, "3", "4", "x"), mono))
    valid = TextPair("val", GERMAN, ENGLISH, "5", "6", "x")
    warn_of_wrong_sides(train, valid)
    assert [warned is not None and message.startswith(warned) for message in caplog.messages] == [True] * bool(warned)


def test_of_a_corpus_with_equal_sides_there_is_another_warning(caplog: pytest.LogCaptureFixture) -> None:
    copies = TextPair("train", ENGLISH, ENGLISH, "1", "1", "x")
    warn_of_wrong_sides(copies, TextPair("val", GERMAN, ENGLISH, "3", "4", "x"))
    assert caplog.messages == []


def test_lengths_are_words_or_characters() -> None:
    assert line_lengths(["Ein Hund schläft.", ""], "de").tolist() == [3, 0]
    assert line_lengths(["两只狗。", ""], "zh").tolist() == [4, 0]


def test_lines_that_belong_together_are_long_together(caplog: pytest.LogCaptureFixture) -> None:
    assert said(SOURCE, TARGET, caplog) == []
    short = RNG.integers(1, 4, (2, 2000))  # as in a dictionary
    assert said(*short, caplog) == []
    odd = SOURCE.copy(), TARGET.copy()
    odd[0][700], odd[1][1300] = 800, 900  # whose translations are short
    assert said(*odd, caplog) == []
    few, enough = SOURCE[:99], SOURCE[:100]
    assert said(few, 30 - few, caplog) == []
    (message,) = said(enough, 30 - enough, caplog)
    assert message.startswith("train: from line 1 to line 100, source and target lengths")


@pytest.mark.parametrize("pairs", [150, 250, 2000])
def test_shuffled_lines(pairs: int, caplog: pytest.LogCaptureFixture) -> None:
    shuffled = np.random.default_rng(1).permutation(TARGET[:pairs])
    assert len(said(SOURCE[:pairs], shuffled, caplog)) == 1
    assert said(SOURCE[:pairs], TARGET[:pairs], caplog) == []


@pytest.mark.parametrize("longest", [2, 6])  # With 6, the standard deviation is 1.7.
@pytest.mark.parametrize("turned", [False, True])
def test_lines_of_about_one_length_say_nothing_of_their_translations(
    turned: bool, longest: int, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(1)
    sides = rng.integers(1, longest, 2000, endpoint=True), rng.integers(1, 30, 2000)
    assert said(*(sides[::-1] if turned else sides), caplog) == []


@pytest.mark.parametrize(("missing", "first", "last"), [(0, 1, 200), (1100, 1201, 1400)])
def test_a_line_that_one_side_lacks(missing: int, first: int, last: int, caplog: pytest.LogCaptureFixture) -> None:
    shifted = np.delete(TARGET, missing)
    assert said(SOURCE[:-1], shifted, caplog) == [
        f"train: from line {first} to line {last}, source and target lengths are not correlated: the lines may be "
        "misaligned, for example because one side lacks a line there or shortly before"
    ]


def test_the_place_is_that_in_its_corpus(caplog: pytest.LogCaptureFixture) -> None:
    text = replace(TEXT, parts=(TextPart("clean", 900, 1), TextPart("crawled", 1100, 1)))
    (message,) = said(SOURCE, np.concatenate([TARGET[:1100], TARGET[1100:][::-1]]), caplog, text)
    assert message.startswith("train: from crawled line 301 to crawled line 500, source and target lengths")


def test_lines_that_training_drops_make_validation_slow(caplog: pytest.LogCaptureFixture) -> None:
    lengths = [3, 200, 201, 4, 900]
    source, target = (EncodedText(np.zeros(9999, np.uint16), np.cumsum([0, *side])) for side in (lengths, [999] * 5))
    valid, text = Dataset(source, target), replace(TEXT, name="val")
    warn_of_long_lines(valid, text, 900)
    assert caplog.messages == []
    warn_of_long_lines(valid, text, 200)
    assert caplog.messages == [
        "val: pairs longer than any trained on (data.filter.max_tokens is 200): 2, the first in line 3, of 201 tokens; "
        "each validation may take much longer because of them"
    ]


def test_sources_that_validations_truncate_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    lines = EncodedText.of([[5] * 10, [5] * 11])
    warn_of_truncated_sources(Dataset(lines, lines), TEXT, 11)
    assert caplog.messages == []
    warn_of_truncated_sources(Dataset(lines, lines), TEXT, 10)
    assert caplog.messages == [
        "train: pairs of which validations read only the first decoding.max_source (10) tokens: 1, the first in line "
        "2, of 11 tokens"
    ]


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


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["de", "en"] * 5, []),
        (["de", "de", "en"], []),
        (["Ein Haus", "Ein Hund", "Ein Mann"], ["train.tsv: 3 of 3 labels occur only once; each line is label, tab"]),
        (["label", *["de", "en"] * 5], ["train.tsv: the label 'label' of line 1 occurs only there: is it a header?"]),
    ],
)
def test_labels_that_may_be_something_else(
    labels: list[str], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    check_variety(TextInMemory("train.tsv", ["a"] * len(labels), labels, "", "", "x", unit="texts"))
    assert [message[: len(start)] for message, start in zip(caplog.messages, said, strict=True)] == said


def test_a_single_label() -> None:
    with pytest.raises(
        DataError, match=r"^train\.tsv: all texts have the label 'de'; give texts of at least two labels$"
    ):
        check_variety(TextInMemory("train.tsv", ["a", "b"], ["de", "de"], "", "", "x", unit="texts"))


@pytest.mark.parametrize(
    ("source", "target", "refused"),
    [
        ("a.en", "a.de", True),
        ("crawl/*.en.gz", "crawl/*.de.gz", True),
        ("a.de", "a.en", False),
        ("a.en", "a.txt", False),
        ("a.txt", "a.de", False),
        ("of.en.de", "of.de.en", False),
        ("of.en.de", "of.de", False),
    ],
)
@pytest.mark.parametrize("key", ["train", "valid"])
def test_files_named_after_the_other_language(key: str, source: str, target: str, refused: bool) -> None:
    data = ParallelDataConfig.model_validate({key: {"source": Path(source), "target": Path(target)}})
    expected = (
        f"the source language is 'de', but the source is {source}, and its translation is {target}; swap the two "
        "files, or data.source and data.target"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(expected)}$") if refused else nullcontext():
        refuse_swapped_files(data)


def test_the_last_lines_are_looked_at_too(caplog: pytest.LogCaptureFixture) -> None:
    target = np.concatenate([TARGET[:200], TARGET[200:399][::-1]])
    (message,) = said(SOURCE[:399], target, caplog)
    assert message.startswith("train: from line 200 to line 399, source and target lengths are not correlated")


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


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (0, 201, "val: 10.1% of the target tokens are out of vocabulary"),
        (200, 0, "val: 10.0% of the source tokens are out of vocabulary"),
        (1, 0, "val: less than 0.1% of the source tokens are out of vocabulary"),
        (2, 20, "val: 0.1% of the source tokens and 1.0% of the target tokens are out of vocabulary"),
        (0, 3, "val: 0.1% of the target tokens are out of vocabulary"),
        (0, 0, None),
    ],
)
def test_how_much_is_unknown(source: int, target: int, message: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    sides = [EncodedText.of([[UNK] * unknown + [5] * (2000 - unknown)]) for unknown in (source, target)]
    log_unknown_share(Dataset(*sides), replace(TEXT, name="val"))
    assert caplog.messages == ([] if message is None else [message])
    assert all((record.levelname == "WARNING") == (target > 200) for record in caplog.records)
