"""The page docs/configuration.md is that of the schema."""

from pathlib import Path

import pytest

from translate.config.keys import all_sections
from translate.config.reference import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_is_the_one_the_schema_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run: python -m translate.config.reference > docs/configuration.md"
    )


def test_every_key_has_a_row_with_a_meaning() -> None:
    rows = [line.split(" | ") for line in reference().split("\n") if line.startswith("| `")]
    # A training corpus by itself and one of several share one table.
    sections = {section for _, section in all_sections()}
    assert len(rows) == sum(len(section.model_fields) for section in sections)
    assert len(rows) > 60
    assert all(len(row) == 4 and len(row[3]) > 5 for row in rows)


@pytest.mark.parametrize(
    "row",
    [
        "| `seed` | a whole number from 0 to below 4294967296 | `1` |",
        "| `root` | a path | `data` |",
        "| `train` | text (not empty) or a section with split, source, target, weight, vocabulary or a list (each text",
        "| `dropout` | a number from 0 to below 1 | `0.1` |",
        "| `max_epochs` | a whole number above 0 or null | `10` |",
        "| `optimizer` | a section | kind adamw |",
        "| `norm` | one of pre, post | `pre` |",
        "| `data` | a section | kind parallel |",
        "## `training.schedule` with `kind: cosine`",
        "## `data.train`, `data.train[]`",
        "## `data.valid`",
        "## `data.filter`\n",
        "## `data.filter` with `data.kind: labelled`",
    ],
)
def test_rows_read_plainly(row: str) -> None:
    assert f"\n{row}" in reference()


def test_no_heading_stands_twice() -> None:
    headings = [line for line in reference().split("\n") if line.startswith("#")]
    assert len(headings) > 20
    assert [heading for heading in headings if headings.count(heading) > 1] == []
