"""Pairs that teach a model little, or that flatter its score: copies of each other, of held-out text, of a table."""

import logging
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from translate.config.data import ParallelFilterConfig
from translate.data.corpus import TextPair
from translate.data.sides import warn_of_equal_sides

log = logging.getLogger("translate")

MIN_REPEATED = 0.1  # There is a warning of at least these shares of pairs.
MIN_IDENTICAL = 0.01
MIN_LEAKED = 0.01


def warn_of_copies(
    train: TextPair, valid: TextPair, tests: Sequence[TextPair] = (), filters: ParallelFilterConfig | None = None
) -> None:
    """Warn of pairs that teach a model little, or that flatter its score.

    Sources that are the same text as their targets, or a whole row of a table; pairs that repeat others; validation and
    test pairs that are in the training text, too. Those that the filters of parallel text drop are not mentioned.
    """
    for text in (train, valid):
        warn_of_equal_sides(text)
    if (train.source_sha256, train.target_sha256) == (valid.source_sha256, valid.target_sha256):
        log.warning("the validation text is the training text: its scores say nothing about unseen text")
        return
    found, pairs = count_copies(train, [valid, *tests]), len(train.source)

    def warn(number: int, what: str) -> None:
        log.warning("%s: %d of %d %s %s", train.name, number, pairs, train.unit, what)

    if 2 * found.tables > pairs:
        warn(
            found.tables,
            "have a tab on one side, which may be the rows of a table with the other side in them; cut -f1 FILE prints "
            "the first column"
            if filters
            else "have a tab in them, which may begin a further column; cut -f1,2 FILE prints label and text alone",
        )
    if found.identical and found.identical >= pairs * MIN_IDENTICAL and not (filters and filters.identical):
        drop = "; data.filter.identical=true drops them" if filters else ""
        place = f"the first in {train.place(found.first_identical)}"
        warn(found.identical, f"have the same text on both sides ({place}), which teaches a model to copy{drop}")
    if found.repeated >= pairs * MIN_REPEATED and not (filters and filters.repeated):
        drop = "; data.filter.repeated=true drops repetitions" if filters else ""
        warn(found.repeated, f"repeat others and count as often{drop}")
    for text, (leaked, different) in zip([valid, *tests], found.leaked, strict=True):
        if leaked >= different * MIN_LEAKED:
            log.warning(
                "%s: %d of %d different %s are also in the training text, so %s say less about unseen text; remove "
                "them from one of the two",
                text.name,
                leaked,
                different,
                text.unit,
                "validation scores, which select the best model," if text is valid else "its scores",
            )


@dataclass(frozen=True)
class Copies:
    """How much of a training text copies its other side, other pairs, or held-out text."""

    identical: int  # pairs with the same text on both sides, which is not blank
    first_identical: int  # the index of the first of them
    tables: int  # pairs with a tab on one side
    repeated: int  # pairs that occurred before, neither side of which is blank
    leaked: list[tuple[int, int]]  # for each held-out text: its pairs that are here, too, of so many different ones


def count_copies(train: TextPair, held_out: Sequence[TextPair]) -> Copies:
    """Count them in one pass over the training text, which may be too large for memory."""
    unseen = [set(zip(text.source, text.target, strict=True)) for text in held_out]
    wanted, seen = set[tuple[str, str]]().union(*unseen), set[tuple[str, str]]()
    identical = first_identical = tables = 0
    hashes = array("q")  # 8 bytes a pair
    for number, (source, target) in enumerate(zip(train.source, train.target, strict=True)):
        pair = source, target
        if source.strip() and target.strip():
            hashes.append(hash(pair))
        if source == target and source.strip():
            if not identical:
                first_identical = number
            identical += 1
        tables += "\t" in source or "\t" in target
        if pair in wanted:
            seen.add(pair)
    leaked = [(len(pairs & seen), len(pairs)) for pairs in unseen]
    return Copies(identical, first_identical, tables, count_repeated(hashes), leaked)


def count_repeated(hashes: "array[int]") -> int:
    """How many of these numbers equal an earlier one. Sorts them."""
    numbers = np.frombuffer(hashes, dtype=np.int64)
    numbers.sort()
    return int((numbers[1:] == numbers[:-1]).sum())
