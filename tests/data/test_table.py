"""Two columns of a table as the sides of a corpus."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from translate.data import table as module
from translate.data.table import open_table, text_columns
from translate.errors import DataError


def test_columns_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv.gz"
    table.write_bytes(gzip.compress(b"7\tein Hund\t8\ta dog\tCC-BY\r\n9\t\t3\t b \t\n\n \n"))
    source, target = open_table(table, (2, 4))
    assert (list(source), list(target)) == (["ein Hund", ""], ["a dog", " b "])
    assert (list(source), len(source)) == (["ein Hund", ""], 2)
    assert list(open_table(table, (5, 1))[0]) == ["CC-BY", ""]


def test_a_table_with_too_few_columns(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("a\tb\n")
    with pytest.raises(DataError, match=r"line 1 has 2 columns, with a tab between two, but columns 3 and 1 are"):
        open_table(tmp_path / "table.tsv", (3, 1))


def test_a_table_that_grows_while_it_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> Iterator[str]:
        yield "a\tb"
        path.write_text("a\tb\nc\td\n")

    table = tmp_path / "table.tsv"
    table.write_text("a\tb\n")
    with monkeypatch.context() as patch:
        patch.setattr(module, "lines_of", read)
        source, _ = open_table(table, (1, 2))
    with pytest.raises(DataError, match="changed while it was being read"):
        list(source)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tb\nc\n", r"line 2 has 1 column, with a tab between two, but columns 1 and 2 are needed: 'c'\. "),
        (
            "a\tb\nc\nd\te\nf\n",
            r"line 2 has 1 column, .*: 'c'; 2 of 4 lines have too few\. Leave them out \(awk -F'\\t'",
        ),
        ("a\tb\nc\nd\n", r": 'c'; 2 of 3 lines have too few\. Correct it, choose"),
        ("a,b\nc,d\n", r": 'a,b'; 2 of 2 lines have too few\. Correct it, choose"),
        ("a,b\n", r"line 1 has 1 column, .* give two files, one for each language\.$"),
        ("\n\n", r"has no text"),
        ("", r"has no text"),
    ],
)
def test_what_is_no_table(content: str, message: str, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text(content)
    with pytest.raises(DataError, match=message):
        open_table(table, (1, 2))


def test_a_column_of_text_may_hold_numbers(tmp_path: Path) -> None:
    table = tmp_path / "train.tsv"
    table.write_text("id\tde\ten\n1\tDer Hund\tthe dog\n2\t1999\t1999\n3\tDie Katze\tthe cat\n", encoding="utf-8")
    assert text_columns(table) == (2, 3)


@pytest.mark.parametrize(
    ("content", "warned"),
    [
        ("1\ta\tb\n2\tc\td\n", None),
        (
            "a\tb\n" * 3 + "c\td\te\n" + "f\tg\th\ti\n",
            "2 of 5 lines have more than 2 columns, the first of them line 4; ",
        ),
        ("id\ttext\n" + "1\ta\tb\n" * 3, None),  # A heading may be short.
    ],
)
def test_rows_with_more_columns_than_most_are_told(
    content: str, warned: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "table.tsv").write_text(content)
    open_table(tmp_path / "table.tsv", (1, 2))
    assert [message.startswith(f"{tmp_path}/table.tsv: {warned}") for message in caplog.messages] == [True] * bool(
        warned
    )
