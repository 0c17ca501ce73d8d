"""Divide one corpus into training, validation and test text."""

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from translate.commands.options import Once, at_least
from translate.commands.run import run
from translate.commands.signals import leaving_cleanly
from translate.errors import ConfigError

if TYPE_CHECKING:
    from translate.data.lines import Text

log = logging.getLogger("translate")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Hold out random pairs of a corpus for validation and test: write train, val and test to a folder, "
        "in a file for each language. The lines of a held-out pair occur nowhere else in the corpus."
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="two files that belong together line by line, or one table with a tab between columns",
    )
    parser.add_argument(
        "--languages",
        nargs=2,
        required=True,
        action=Once,
        metavar=("XX", "YY"),
        help="codes of the languages of the two files or columns, in their order: the endings of the new files",
    )
    parser.add_argument("--folder", type=Path, required=True, action=Once, help="folder for the new files")
    parser.add_argument("--valid", type=at_least(0), default=500, metavar="N", help="pairs for val; default: 500")
    parser.add_argument("--test", type=at_least(0), default=500, metavar="N", help="pairs for test; default: 500")
    parser.add_argument(
        "--columns",
        nargs=2,
        type=at_least(0),
        action=Once,
        metavar=("N", "M"),
        help="columns of the table, counted from 1; default: the first two that are not numbers",
    )
    parser.add_argument(
        "--max-length",
        type=at_least(1),
        metavar="N",
        help="hold out only pairs whose lines have at most N characters; default: 1000",
    )
    parser.add_argument("--seed", type=at_least(0), default=1, metavar="N", help="another one holds out other pairs")
    args = parser.parse_args(arguments)
    with leaving_cleanly():
        return run(lambda: split(args))


def split(args: argparse.Namespace) -> None:
    """Read the corpus, choose the pairs, and write the files."""
    from translate.data.holdout import MAX_LENGTH, TRAIN, hold_out, new_files, write_splits

    refuse_contradictions(args)
    sizes = {"val": args.valid, "test": args.test}
    files = new_files(args.folder, [TRAIN, *(name for name, size in sizes.items() if size)], args.languages)
    source, target = read_table(args) if len(args.files) == 1 else read_two_files(args)
    splits = hold_out(source, target, sizes, args.seed, args.max_length or MAX_LENGTH)
    write_splits(files, dict(zip(args.languages, (source, target), strict=True)), splits)
    counts = ", ".join(f"{len(indices)} in {name}" for name, indices in splits.items() if len(indices))
    log.info("%s: %d pairs, %s", args.folder, len(source), counts)


def refuse_contradictions(args: argparse.Namespace) -> None:
    """ConfigError if the arguments do not name two languages, and a place for the text of each."""
    first, second = args.languages
    for code in args.languages:
        if not re.fullmatch(r"\w[\w-]*", code):
            raise ConfigError(f"--languages {first} {second}: {code!r} is not the code of a language, such as de or en")
    if first == second:
        raise ConfigError(f"--languages {first} {second}: both files would have the same name")
    if len(args.files) > 2:
        raise ConfigError("give two files, or one table with both languages")
    if len(args.files) == 2 and args.columns:
        raise ConfigError("--columns applies only to a table; leave it out with two files")
    if args.columns and (0 in args.columns or len(set(args.columns)) == 1):
        raise ConfigError("--columns takes two different columns, counted from 1")


def read_two_files(args: argparse.Namespace) -> "tuple[Text, Text]":
    """Both files. ConfigError if they are one, or named after each other's language; DataError as open_pair."""
    from translate.data.corpus import open_pair
    from translate.data.sides import are_swapped

    (first, second), (source, target) = args.languages, args.files
    if source == target:
        raise ConfigError(f"both languages are to be read from {source}; give the file of each")
    if are_swapped(source, target, (first, second)):
        raise ConfigError(f"--languages {first} {second}, but the files are {source} and {target}; swap either")
    pair = open_pair(source, target)
    return pair.source, pair.target


def read_table(args: argparse.Namespace) -> "tuple[Text, Text]":
    """Two columns; the log says which, with what the first row has in them. DataError as open_table."""
    from translate.data.lines import excerpt, version_of
    from translate.data.table import open_table, text_columns

    (table,) = args.files
    version_of(table)  # Looking for columns would read from a pipe, or wait for it.
    one, other = args.columns or text_columns(table)
    sides = open_table(table, (one, other))
    found = [
        f"{language} is column {number} ({excerpt(next(iter(side)))})"
        for language, number, side in zip(args.languages, (one, other), sides, strict=True)
    ]
    log.info("%s: %s (line 1)", table, ", ".join(found))
    return sides


if __name__ == "__main__":
    sys.exit(main())
