"""What looks wrong with text that can be read: swapped or misaligned sides, copies, rows of a table, one label only."""

import logging
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from translate.config.data import ParallelDataConfig, ParallelFilterConfig
from translate.data.corpus import TextPair
from translate.data.dataset import SIDES, Dataset
from translate.errors import ConfigError, DataError
from translate.text.languages import has_spaces
from translate.text.vocabulary import UNK

log = logging.getLogger("translate")

# There is a warning of a larger share of unknown tokens, and of at least these shares of pairs.
MAX_UNKNOWN = 0.1
MIN_REPEATED, MIN_IDENTICAL, MIN_LEAKED = 0.1, 0.01, 0.01
MIN_PAIRS = 100  # of a text that is checked for swapped and misaligned sides: fewer say too little
LINES_COMPARED = 1000  # of each side, by whose words swapped sides are noticed
MIN_FOUND = 0.25  # share of a side's words in another text, below which they say too little of its language
# Pairs are taken for misaligned if in a stretch of so many, the lengths of source and target lines, in tokens, have at
# least this standard deviation, but a rank correlation below this. In stretches of 200 of Multi30k it is at least 0.79,
# and below 0 if one side is shifted by a line; in stretches of 100 it is at least 0.72, and with shuffled lines below
# 0.2 in 19 of 20.
STRETCH, MIN_DEVIATION, MIN_CORRELATION = 200, 2.0, 0.2


def refuse_swapped_files(data: ParallelDataConfig) -> None:
    """ConfigError if the files of both sides are named after each other's language."""
    for corpus in data.texts:
        languages = (data.source, data.target)
        if corpus.source and corpus.target and are_swapped(corpus.source, corpus.target, languages):
            raise ConfigError(
                f"the source language is {data.source!r}, but the source is {corpus.source}, and its translation is "
                f"{corpus.target}; swap the two files, or data.source and data.target"
            )


def are_swapped(source: Path, target: Path, languages: tuple[str, str]) -> bool:
    """Whether two files are named after each other's language."""
    of_source, of_target = (f".{language}" for language in languages)
    named_right = of_source in source.suffixes or of_target in target.suffixes
    return of_target in source.suffixes and of_source in target.suffixes and not named_right


def check_variety(text: TextPair) -> None:
    """DataError if all texts have one label; a warning if what is read as labels may be something else."""
    counts = Counter(text.target)
    first = next(iter(counts))
    if len(counts) == 1:
        raise DataError(f"{text.name}: all texts have the label {first!r}; give texts of at least two labels")
    once = [label for label, count in counts.items() if count == 1]
    if 2 * len(once) > len(counts):
        log.warning(
            "%s: %d of %d labels occur only once; each line is label, tab, text: are they in this order?",
            text.name,
            len(once),
            len(counts),
        )
    elif first in once:
        log.warning("%s: the label %r of line 1 occurs only there: is it a header?", text.name, first)


def warn_of_wrong_sides(train: TextPair, valid: TextPair) -> None:
    """Warn if the sides of the validation text, or of a corpus of the training text, are swapped, or one is wrong.

    A side is wrong if its words are mostly those of the validation text's other side, as where a model of the other
    direction has made it.
    """
    swapped = list[str]()
    for corpus in train.corpora or (train,):
        match _turned_sides(corpus, valid):
            case ["source", "target"]:
                swapped.append(corpus.name)
            case [side]:
                (other,) = set(SIDES) - {side}
                log.warning(
                    "the %s of %s has the words of the %s of %s: is it in the wrong language?",
                    side,
                    corpus.name,
                    other,
                    valid.name,
                )
    if swapped:
        log.warning(
            "the source of %s has the words of the target of %s, and its target those of the source: one of the two "
            "texts has its sides swapped",
            valid.name,
            ", ".join(swapped),
        )


def _turned_sides(text: TextPair, valid: TextPair) -> list[str]:
    """Which sides of a text have mostly the words of the validation text's other side.

    No side has, for this purpose, if a word is in every source of one of these texts, and nowhere in the other: a tag,
    which tells a model of several languages which one is wanted. Nor if both sides are the same text, of which there is
    another warning.
    """
    if min(len(text.source), len(valid.source)) < MIN_PAIRS or text.source_sha256 == text.target_sha256:
        return []
    source, target = _first_words(text.source), _first_words(text.target)
    valid_source, valid_target = _first_words(valid.source), _first_words(valid.target)
    sources, targets = set(chain(*valid_source)), set(chain(*valid_target))
    if _in_every_line(source) - sources - targets or _in_every_line(valid_source) - set(chain(*source, *target)):
        return []
    turned = []
    for name, side, own, opposite in zip(SIDES, (source, target), (sources, targets), (targets, sources), strict=True):
        words = list(chain(*side))
        found = sum(word in opposite for word in words)
        if found >= MIN_FOUND * len(words) and found > 2 * sum(word in own for word in words):
            turned.append(name)
    return turned


def _first_words(side: Iterable[str]) -> list[list[str]]:
    """The words of each of the first lines but blank ones, or the characters of one without spaces, as in Chinese."""
    lines = [line.lower().split() for line in islice(side, LINES_COMPARED)]
    return [words if len(words) > 1 else list("".join(words)) for words in lines if words]


def _in_every_line(lines: Sequence[Sequence[str]]) -> set[str]:
    return set.intersection(*map(set, lines)) if lines else set()


def warn_of_equal_sides(text: TextPair) -> None:
    """Warn if the sources are the same text as their targets."""
    if text.source_sha256 == text.target_sha256:
        log.warning("%s: source and target are the same text: there is nothing to translate", text.name)


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


def warn_of_misaligned_lines(sources: NDArray[np.integer], targets: NDArray[np.integer], text: TextPair) -> None:
    """Warn if sources and targets of these lengths, in tokens or words, seem misaligned.

    That is so if in some stretch the lengths of their lines are not correlated: a long line has a long translation. If
    one side lacks a line, all later pairs are misaligned.
    """
    if len(sources) < MIN_PAIRS:
        return
    last = max(0, len(sources) - STRETCH)
    for start in (*range(0, last, STRETCH), last):
        source, target = (lengths[start : start + STRETCH] for lengths in (sources, targets))
        correlation = np.corrcoef(_ranks(source), _ranks(target)).min()
        if min(source.std(), target.std()) >= MIN_DEVIATION and correlation < MIN_CORRELATION:
            log.warning(
                "%s: from %s to %s, source and target lengths are not correlated: the lines may be misaligned, for "
                "example because one side lacks a line there or shortly before",
                text.name,
                text.place(start),
                text.place(start + len(source) - 1),
            )
            return


def line_lengths(lines: Sequence[str], language: str) -> NDArray[np.int64]:
    """How many words each line has; or characters, in a language without spaces between words."""
    units = str.split if has_spaces(language) else list[str]
    return np.array([len(units(line)) for line in lines])


def _ranks(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The rank of each line by length, so that a few very long lines count no more than others."""
    return lengths.argsort(kind="stable").argsort(kind="stable")


def warn_of_long_lines(valid: Dataset, text: TextPair, max_tokens: int) -> None:
    """Warn of validation sources of more than `max_tokens`, which training drops.

    To translate one token by token may take longer than all others, above all by a model that has learned little yet.
    """
    which = f"longer than any trained on (data.filter.max_tokens is {max_tokens})"
    _warn_of_longer(valid, text, max_tokens, which, "; each validation may take much longer because of them")


def warn_of_truncated_sources(valid: Dataset, text: TextPair, max_tokens: int) -> None:
    """Warn of validation sources of more than `max_tokens`: only so much of them is translated, and then scored."""
    which = f"of which validations read only the first decoding.max_source ({max_tokens}) tokens"
    _warn_of_longer(valid, text, max_tokens, which)


def _warn_of_longer(valid: Dataset, text: TextPair, max_tokens: int, which: str, consequence: str = "") -> None:
    lengths = valid.source.lengths
    if (long := np.flatnonzero(lengths > max_tokens)).size:
        place, length = text.place(int(long[0])), lengths[long[0]]
        number = f"{long.size}, the first in {place}, of {length} tokens"
        log.warning("%s: %s %s: %s%s", text.name, text.unit, which, number, consequence)


def log_unknown_share(dataset: Dataset, text: TextPair) -> None:
    """Log which share of a text the vocabularies lack; accuracy and perplexity count it like any word."""
    shares = [float((side.ids == UNK).sum()) / max(1, len(side.ids)) for side in (dataset.source, dataset.target)]
    if max(shares) > 0:
        tell = log.warning if max(shares) > MAX_UNKNOWN else log.info
        of_each = [
            f"{share:.1%} of the {side} tokens" if share >= 0.001 else f"less than 0.1% of the {side} tokens"
            for share, side in zip(shares, SIDES, strict=True)
            if share > 0
        ]
        tell("%s: %s are out of vocabulary", text.name, " and ".join(of_each))
