"""What is said of text whose scores mislead, and what is not."""

import unicodedata

import pytest

from translate.evaluation.score_warnings import (
    distinct_warning,
    form_warning,
    processed_warnings,
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


RAW = [
    "Ein Mann.",
    "AT&T is a company.",
    "mail@home",
    "R&D; and more",
    ".",
    "NÃO, À LA CARTE, ÂME",
    "Wait ... no.",
    "MANHû",
    "猫",
]
RAW += ["Ġurnal Uffiċjali", "## Title", "#tag", "Привет"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("Ein Rad@@ fahrer.", "are cut into pieces (@@, ▁): "),
        ("Ein Rad@@", "are cut into pieces (@@, ▁): "),
        ("▁Ein ▁Rad fahrer.", "are cut into pieces (@@, ▁): "),
        ("Ein ▁Rad", "are cut into pieces (@@, ▁): "),
        ("Ein Rad ##fahrer", "are cut into pieces (@@, ▁): "),
        ("Ein Rad ￭fahrer", "are cut into pieces (@@, ▁): "),
        ("Sie sagte &quot;nein&quot;.", "have HTML entities (&amp;, &#39;), "),
        ("Tom &amp; Ann.", "have HTML entities (&amp;, &#39;), "),
        ("It&#39;s.", "have HTML entities (&amp;, &#39;), "),
        ("It&#x27;s.", "have HTML entities (&amp;, &#39;), "),
        ("M&auml;nner", "have HTML entities (&amp;, &#39;), "),
        ("MÃ¤nner", "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): "),
        ("â€œSchÃ¶n,â€\x9d", "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): "),
        ("Itâ€™s", "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): "),
        ("Â« Oui Â»", "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): "),
        ("Кот".encode().decode("latin-1"), "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): "),
        ("Männer und Söhne".encode().decode("latin-1"), "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): "),
    ],
)
def test_text_that_programs_have_changed_is_warned_of(line: str, what: str) -> None:
    assert processed_warnings(RAW * 10, RAW * 10) == []
    assert processed_warnings([], RAW * 10) == []  # as for further references, whose sources are judged already
    (warning,) = processed_warnings(RAW * 10, [line] * 20 + RAW * 10)
    assert warning.startswith(f"20 of {20 + 10 * len(RAW)} references {what}")
    (warning,) = processed_warnings([line] * 3, [line] * 3)
    assert warning.startswith(f"3 of 3 sources and 3 of 3 references {what}")


def test_entities_and_misread_text_are_warned_of_from_one_line_in_fifty_on() -> None:
    for line in ("Tom &amp; Ann.", "MÃ¤nner"):
        assert len(processed_warnings([line, *["raw"] * 49], ["raw"])) == 1
        assert processed_warnings([line, *["raw"] * 50], ["raw"]) == []


def test_pieces_of_tokenized_text_get_both_warnings() -> None:
    one, other = processed_warnings(["Rad@@ fahrer ."], ["cycl@@ ist ."])
    assert "1 of 1 sources and 1 of 1 references are cut into pieces" in one
    assert "1 of 1 sources and 1 of 1 references look tokenized" in other


@pytest.mark.parametrize(
    "line",
    ["Ein Mann .", "Ein Mann . ", "Ein Mann , der", "Ann &apos;s", "Er &amp; &apos;sie", "A two @-@ year @-@ old."],
)
def test_tokenized_text_is_warned_of(line: str) -> None:
    raw = RAW[:5]
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
