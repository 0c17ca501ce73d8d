"""The case of first words, learned from the middle of lines."""

from typing import Literal
from unicodedata import normalize

import pytest

from translate.text.casing import Truecaser, learn_truecaser, lower

LINES = [
    "Der Hund sieht den Hund.",
    "Ein Hund und der Ball.",
    '"Der Ball" und ein Ball und ist ein Ball.',
    "3 Hunde, der Rest.",
    "Essen ist, Essen und essen.",
    "NASA und NASA.",
]


@pytest.fixture(scope="module")
def casing() -> Truecaser:
    return learned(LINES, "de")


def learned(lines: list[str], language: str) -> Truecaser:
    casing = learn_truecaser(lines, language)
    assert casing is not None
    return casing


def test_what_is_lower_case_elsewhere(casing: Truecaser) -> None:
    # "essen" once as a verb and once as a noun in the middle: no majority, so it stays.
    assert casing.lowered == {"sieht", "den", "und", "der", "ein", "ist"}


@pytest.mark.parametrize(
    ("line", "cased"),
    [
        ("Der Hund.", "der Hund."),
        ("Hund und Ball.", "Hund und Ball."),
        ('"Ein Ball"', '"ein Ball"'),
        ("DER Hund.", "DER Hund."),
        ("3 Der", "3 Der"),
        ("Zebra.", "Zebra."),
        ("", ""),
        ("...", "..."),
        (" Der", " der"),
        ("'n Der", "'n Der"),
        ("'Der Hund'", "'der Hund'"),
        ("’s Und", "’s Und"),
        ("'A' und", "'A' und"),
        ("Und", "und"),
    ],
)
def test_there_and_back(casing: Truecaser, line: str, cased: str) -> None:
    assert casing.apply(line) == cased
    assert casing.undo(cased) == line


@pytest.mark.parametrize(
    ("lines", "taught"),
    [
        (["ein Hund und", "Der Hund und", "der hund"], False),
        (["ein Hund und", *["Der Hund und"] * 8], False),
        (["ein Hund und", *["Der Hund und"] * 9], True),
        (["%s", "--help", *["Der Hund und"] * 9], True),
        (["只", "3 hunde"], True),
        (["der", "Die", "den", "4 Der", ""], False),
        (["只", "我", "der"], False),
    ],
)
def test_lines_of_which_many_begin_small_have_no_case_to_mend(
    lines: list[str], taught: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert (learn_truecaser(lines, "de") is not None) == taught
    assert len(caplog.messages) == (not taught)


def test_it_is_said_how_many_begin_small(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    learn_truecaser(["ein Hund", "Der Hund", "Der Ball", "Hund"], "de")
    assert caplog.messages == ["truecase leaves the text of 'de' as it is: 25% of its lines begin with a small letter"]


@pytest.mark.parametrize(
    "line",
    [
        *("%s: und", '"%s" und', "%(und)s", "$und", "{und}", "-f DATEI", "--und", ".und", "...und", "…und", "/und/der"),
        *("und/der", "http://und", "und_der", "und@der", "und.der", "und()", r"\und", "&und;", "<und>", "</und>"),
        *('<und der="x">', "#und", "@und", "*und*", "~und", "^und", "|und", "=und", "+und"),
    ],
)
def test_what_is_no_word_of_a_sentence_stays(line: str, casing: Truecaser) -> None:
    for each in (line, line.replace("und", "Und")):
        assert casing.apply(each) == casing.undo(each) == each


@pytest.mark.parametrize(
    "line",
    ["Und: der", "(Und)", "[Und]", "- Und", "«Und»", "¿Und?", "„Und“", "Und-der", "Und. Der", "Und3", "Und (der)"],
)
def test_marks_around_words_of_a_sentence(line: str, casing: Truecaser) -> None:
    assert casing.apply(line) == line.replace("Und", "und")
    assert casing.undo(line.replace("Und", "und")) == line


def test_back_is_a_capital_in_any_case(casing: Truecaser) -> None:
    assert casing.undo("ein hund") == "Ein hund"
    assert casing.undo("über") == "Über"
    assert casing.undo("iPad und") == "iPad und"
    assert casing.undo("<unk> hund") == "<unk> hund"
    assert casing.undo("2 der") == "2 der"


def test_every_training_line_comes_back(casing: Truecaser) -> None:
    assert [casing.undo(casing.apply(line)) for line in LINES] == LINES


@pytest.mark.parametrize(("line", "written"), [("სამი", "სამი"), ("և տ", "Եւ տ"), ("ǆep", "ǅep"), ("ça va", "Ça va")])
def test_lines_begin_as_titles_do(casing: Truecaser, line: str, written: str) -> None:
    assert casing.undo(line) == written


def test_dutch_begins_with_both_letters_of_ij() -> None:
    casing = learned(["Het ijs is koud.", "Al het ijs."], "nl")
    assert casing.apply("IJs is koud.") == "ijs is koud."
    assert casing.undo("ijs is koud.") == "IJs is koud."
    assert Truecaser(frozenset(), "hr").undo("ijekavski govor") == "Ijekavski govor"


def test_a_dot_of_its_own_makes_a_turkish_i() -> None:
    assert lower("I\u0307yi", "tr") == "iyi"


def test_turkish_has_two_letters_i() -> None:
    assert [lower("IŞIK İzmir", language) for language in ("tr", "az-Latn", "en")] == [
        "ışık izmir",
        "ışık izmir",
        "işik i\u0307zmir",
    ]
    casing = learned(["Bu ilk gün.", "O ilk ev, ışık var."], "tr")
    for line, cased in (("İlk gün.", "ilk gün."), ("Işık var.", "ışık var."), ("Ilk gün.", "Ilk gün.")):
        assert casing.apply(line) == cased
        assert casing.undo(cased) == line


def test_the_capitals_that_are_counted_are_those_of_the_language() -> None:
    assert "ilk" not in learned(["Bu ilk gün.", "O İlk ev, İlk var."], "tr").lowered
    assert "ijs" not in learned(["Het ijs is koud.", "Al het IJs, veel IJs."], "nl").lowered


def test_dutch_of_a_region_is_dutch() -> None:
    assert Truecaser(frozenset(), "nl-BE").undo("ijs is koud.") == "IJs is koud."


def test_a_letter_with_very_many_marks_takes_no_time(casing: Truecaser) -> None:
    line = "(a" + "\N{COMBINING ACUTE ACCENT}" * 1000 + " x"
    assert casing.undo(casing.apply(line)) == line[0] + line[1:].capitalize()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_with_combining_marks_are_letters(form: Literal["NFC", "NFD"]) -> None:
    lines = ["Er geht über die Straße.", "Sie springt über den Zaun.", "Der Mann macht eine Übung.", "'Ü' und 'Übung'"]
    casing = learned([normalize(form, line) for line in lines], "de")
    assert casing.lowered == {
        normalize(form, word) for word in ("geht", "über", "die", "springt", "den", "macht", "eine", "und")
    }
    for line, cased in [
        ("Übung macht", "Übung macht"),
        ("Über den Zaun", "über den Zaun"),
        ("'Ü den", "'Ü den"),
        ("'ü Den", "'ü Den"),
        ("'Über den", "'über den"),
    ]:
        line, cased = normalize(form, line), normalize(form, cased)
        assert casing.apply(line) == cased
        assert casing.undo(cased) == line
