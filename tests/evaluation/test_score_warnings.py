"""What is said of text whose scores mislead, and what is not."""

import unicodedata

import pytest

from translate.evaluation.score_warnings import (
    distinct_warning,
    form_warning,
    spaces_warning,
    text_warnings,
)


def test_one_line_in_a_hundred_with_letters_and_marks_apart_is_warned_of() -> None:
    whole = ["schön"] + ["gut"] * 99
    apart = [unicodedata.normalize("NFD", line) for line in whole]
    assert form_warning(whole, apart) is not None
    assert form_warning([*whole, "gut"], [*apart, "gut"]) is None  # fewer than one in a hundred


def test_a_line_with_both_forms_counts_as_apart() -> None:
    warning = form_warning(["sch\u00f6n"], ["scho\u0308n \u00fcber"])
    assert warning is not None
    assert "1 references and 0 translations are in Unicode form NFD" in warning
    assert "but 0 and 1 in NFC" in warning


@pytest.mark.parametrize(
    "line",
    ["Ein Mann .", "Ein Mann . ", "Ein Mann , der", "Ann &apos;s", "Er &amp; &apos;sie", "A two @-@ year @-@ old."],
)
def test_tokenized_text_is_warned_of(line: str) -> None:
    raw = ["Ein Mann.", "AT&T is a company.", "mail@home", "R&D; and more", "."]
    assert text_warnings(raw * 10, raw * 10, "en") == []
    (warning,) = text_warnings(raw * 10, [line] * 10 + raw * 10, "en")
    assert warning.startswith("10 of 60 references look tokenized (a space before the period, ")
    (warning,) = text_warnings([line] * 5 + raw * 9, raw * 10, "en")
    assert warning.startswith("5 of 50 sources look tokenized (")
    assert text_warnings([line] * 4 + raw * 9, raw * 10, "en") == []
    (warning,) = text_warnings([line] * 3, [line] * 3, "en")
    assert warning.startswith("3 of 3 sources and 3 of 3 references look tokenized (")


def test_a_few_long_words_are_no_text_without_spaces() -> None:
    lines = ["Drei Fahrradfahrerinnen."] * 3 + ["Donaudampfschifffahrtsgesellschaft"] * 2
    assert spaces_warning(lines, "jp") is None
    assert spaces_warning(lines[1:] + lines[3:], "jp") is not None


def test_a_single_word_may_have_fifteen_letters() -> None:
    assert spaces_warning(["Straßenbahnzüge"], "jp") is None
    assert spaces_warning(["Straßenbahnzüges"], "jp") is not None


def test_a_tenth_of_the_translations_is_distinct_enough() -> None:
    assert distinct_warning(10, 100, 100) is None
    assert distinct_warning(9, 100, 100) is not None
    assert distinct_warning(9, 100, 18) is not None
    assert distinct_warning(9, 100, 17) is None  # The text repeats itself.
