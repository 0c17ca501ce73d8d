"""Divide one corpus into training, validation and test text."""

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from translate.commands.run import Once, run
from translate.commands.signals import leaving_in_order
from translate.errors import ConfigError

log = logging.getLogger("translate")


def number(text: str) -> int:
    """A number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


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
    parser.add_argument("--valid", type=number, default=500, metavar="N", help="pairs for val; default: 500")
    parser.add_argument("--test", type=number, default=500, metavar="N", help="pairs for test; default: 500")
    parser.add_argument(
        "--columns",
        nargs=2,
        type=number,
        action=Once,
        metavar=("N", "M"),
        help="columns of the table, counted from 1; default: the first two that are not numbers",
    )
    parser.add_argument("--seed", type=number, default=1, metavar="N", help="another one holds out other pairs")
    args = parser.parse_args(arguments)
    with leaving_in_order():
        return run(lambda: split(args))


def split(args: argparse.Namespace) -> None:
    """Read the corpus, choose the pairs, and write the files."""
    from translate.data.checks import are_swapped
    from translate.data.corpus import open_pair
    from translate.data.holdout import TRAIN, hold_out, open_table, write_splits
    from translate.data.lines import excerpt
    from translate.data.splits import text_columns

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
    if len(args.files) == 2:
        source, target = args.files
        if source == target:
            raise ConfigError(f"both languages are to be read from {source}; give the file of each")
        if are_swapped(source, target, (first, second)):
            raise ConfigError(f"--languages {first} {second}, but the files are {source} and {target}; swap either")
        pair = open_pair(source, target)
        sides = pair.source, pair.target
    else:
        (table,) = args.files
        columns = tuple(args.columns or text_columns(table))
        sides = open_table(table, columns)
        found = (f"{args.languages[i]} is column {columns[i]} ({excerpt(next(iter(sides[i])))})" for i in range(2))
        log.info("%s: %s (line 1)", table, ", ".join(found))
    splits = hold_out(*sides, {"val": args.valid, "test": args.test}, args.seed)
    write_splits(args.folder, (first, second), sides, splits)
    counts = ", ".join(f"{len(splits[name])} in {name}" for name in (TRAIN, "val", "test") if len(splits[name]))
    log.info("%s: %d pairs, %s", args.folder, len(sides[0]), counts)


if __name__ == "__main__":
    sys.exit(main())
