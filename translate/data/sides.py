"""Whether the two sides of parallel text belong together: neither swapped nor misaligned, nor one text twice."""

import logging
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from translate.config.data import ParallelDataConfig
from translate.data.corpus import TextPair
from translate.data.dataset import SIDES
from translate.errors import ConfigError
from translate.text.languages import has_spaces

log = logging.getLogger("translate")

MIN_PAIRS = 100  # of a text that is looked at: fewer say too little
LINES_COMPARED = 1000  # of each side, by whose words swapped sides are noticed
MIN_FOUND = 0.25  # share of a side's words in another text, below which they say too little of its language
# Pairs are taken for misaligned if in a stretch of so many, the lengths of source and target lines, in tokens, have at
# least this standard deviation, but a rank correlation below this. In stretches of 200 of Multi30k it is at least 0.79,
# and below 0 if one side is shifted by a line; in stretches of 100 it is at least 0.72, and with shuffled lines below
# 0.2 in 19 of 20.
STRETCH_LINES = 200
MIN_DEVIATION = 2.0
MIN_CORRELATION = 0.2


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

    No side has, for this purpose, if the sources of one text have a language tag, which the other text lacks, nor if
    both sides are the same text, of which there is another warning.
    """
    if min(len(text.source), len(valid.source)) < MIN_PAIRS or text.source_sha256 == text.target_sha256:
        return []
    source, target = _first_words(text.source), _first_words(text.target)
    valid_source, valid_target = _first_words(valid.source), _first_words(valid.target)
    sources, targets = set(chain(*valid_source)), set(chain(*valid_target))
    if _has_tag(source, sources | targets) or _has_tag(valid_source, set(chain(*source, *target))):
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


def _has_tag(lines: Sequence[Sequence[str]], others: set[str]) -> bool:
    """Whether a word that is not among `others` is in every line, as a tag for the language that is wanted is."""
    return bool(lines and set.intersection(*map(set, lines)) - others)


def warn_of_equal_sides(text: TextPair) -> None:
    """Warn if the sources are the same text as their targets."""
    if text.source_sha256 == text.target_sha256:
        log.warning("%s: source and target are the same text: there is nothing to translate", text.name)


def warn_of_misaligned_lines(sources: NDArray[np.integer], targets: NDArray[np.integer], text: TextPair) -> None:
    """Warn if sources and targets of these lengths, in tokens or words, seem misaligned.

    That is so if in some stretch the lengths of their lines are not correlated: a long line has a long translation. If
    one side lacks a line, all later pairs are misaligned.
    """
    if len(sources) < MIN_PAIRS:
        return
    last = max(0, len(sources) - STRETCH_LINES)
    for start in (*range(0, last, STRETCH_LINES), last):
        source, target = (lengths[start : start + STRETCH_LINES] for lengths in (sources, targets))
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
