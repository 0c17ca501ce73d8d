"""What is said of text that programs have changed, and that nothing is said of raw text."""

import pytest

from translate.data.processed import processed_warnings

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
        ("单词 没有 分配 。", "look tokenized (a space before the period, &apos;, @-@): "),
        ("単語 は 、 ない", "look tokenized (a space before the period, &apos;, @-@): "),
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
