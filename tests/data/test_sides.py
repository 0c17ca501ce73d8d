"""Sides that do not belong together."""

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from translate.config.data import ParallelDataConfig
from translate.data.corpus import TextPair, TextPart
from translate.data.sides import (
    line_lengths,
    refuse_swapped_files,
    warn_of_misaligned_lines,
    warn_of_wrong_sides,
)
from translate.errors import ConfigError

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
