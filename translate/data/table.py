"""A table with a tab between columns: two of them as the sides of a corpus, and which two those may be."""

import logging
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from translate.data.lines import Column, FileText, Text, excerpt, lines_of, version_of, without_blank_end
from translate.errors import DataError

log = logging.getLogger("translate")


def open_table(path: Path, columns: tuple[int, int]) -> tuple[Text, Text]:
    """Two columns of a table, counted from 1, which a tab separates; read once to check that every row has them.

    Warns of rows with more columns than most: a tab in a text divides it.

    Raises:
        DataError: the file cannot be read or is empty, or a row has too few columns.
    """
    version = version_of(path)
    needed = max(columns)
    rows = short = 0
    problem = ""  # with the first row that is too short
    widths: Counter[int] = Counter()
    first: dict[int, int] = {}  # the first row of each width
    for rows, row in enumerate(without_blank_end(lines_of(path)), start=1):
        found = row.count("\t") + 1
        widths[found] += 1
        first.setdefault(found, rows)
        if found >= needed:
            continue
        short += 1
        if not problem:
            problem = (
                f"{path}, line {rows} has {found} column{'s' if found > 1 else ''}, with a tab between two, but "
                f"columns {columns[0]} and {columns[1]} are needed: {excerpt(row)}"
            )
    if problem:
        count = f"; {short} of {rows} lines have too few" if short > 1 else ""
        remedy = "Correct it" if 2 * short > rows else rf"Leave them out (awk -F'\t' 'NF >= {needed}' FILE), correct it"
        raise DataError(f"{problem}{count}. {remedy}, choose --columns, or give two files, one for each language.")
    if not rows:
        raise DataError(f"{path} has no text. It needs one sentence and its translation per line, with a tab between.")
    ((usual, _),) = widths.most_common(1)
    if wider := sum(count for width, count in widths.items() if width > usual):
        log.warning(
            "%s: %d of %d lines have more than %d columns, the first of them line %d; if a tab in a text is the cause, "
            "these pairs are wrong",
            path,
            wider,
            rows,
            usual,
            min(line for width, line in first.items() if width > usual),
        )
    text = FileText(path, rows, version)
    return Column(text, partial(_cell, columns[0])), Column(text, partial(_cell, columns[1]))


def _cell(number: int, row: str) -> str:
    return row.split("\t", number)[number - 1]


def text_columns(table: Path) -> tuple[int, int]:
    """The first two columns of a table that are not numbers, counted from 1.

    Judged by the first rows, not one alone: above a column of numbers there may be a heading.
    """
    rows: list[list[str]] = []
    with suppress(DataError):  # That it cannot be read is another matter.
        rows = [row.split("\t") for row in islice(lines_of(table), 100)]
    numbers = Counter(number for row in rows for number, cell in enumerate(row, start=1) if _is_number(cell))
    width = max(map(len, rows), default=0)
    found = [number for number in range(1, width + 1) if 2 * numbers[number] < len(rows)]
    return (found[0], found[1]) if len(found) > 1 else (1, 2)


def _is_number(cell: str) -> bool:
    """Whether a cell of a table is a number, such as an id, or a score with decimals."""
    with suppress(ValueError):
        float(cell)
        return True
    return False
