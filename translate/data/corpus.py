"""Parallel text on disk: read two files, or further references, and make sure that they belong together.

It knows nothing about tokens.
"""

import logging
import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from translate.data.digest import TextDigest, abridged, text_sha256
from translate.data.lines import FileText, Text, excerpt, read_blocks, read_lines, version_of
from translate.data.multi30k import describe_variant
from translate.errors import DataError

log = logging.getLogger("translate")


@dataclass(frozen=True)
class TextPart:
    """One of the corpora or files that make up a text: its number of pairs, and how often an epoch has each of them."""

    name: str
    pairs: int
    weight: int
    variant: str = ""  # as TextPair has it


@dataclass(frozen=True)
class TextPair:
    """Sentences and their translations, or texts and their labels, line by line, exactly as written.

    Args:
        parts: the corpora or files that make up the text, in their order; none if it is a single one.
        corpora: the texts that it was joined from, if any.
        vocabulary: the part of it that vocabularies are learned from, if that is not all of it.
    """

    name: str
    source: Text
    target: Text
    source_sha256: str
    target_sha256: str
    variant: str
    unit: str = "pairs"  # what messages count
    blank_end: int = 0  # blank lines at the end of both of its files, which do not belong to it
    parts: tuple[TextPart, ...] = ()
    corpora: "tuple[TextPair, ...]" = ()
    vocabulary: "TextPair | None" = None

    def counted(self, number: int) -> str:
        """A number of pairs or texts, for messages."""
        return f"{number} {self.unit if number != 1 else self.unit.removesuffix('s')}"

    def in_memory(self) -> "TextInMemory":
        """The same in memory."""
        return TextInMemory(**{**vars(self), "source": list(self.source), "target": list(self.target)})

    def place(self, line: int) -> str:
        """How messages name the line at index `line`: by its number within its corpus, counted from 1."""
        for part in self.parts:
            if line < part.pairs:
                return f"{part.name} line {line + 1}"
            line -= part.pairs
        return f"line {line + 1}"


@dataclass(frozen=True)
class TextInMemory(TextPair):
    """The same, with both sides as lists."""

    source: list[str]
    target: list[str]


def open_pair(source: Path, target: Path, name: str | None = None) -> TextPair:
    """Two files whose lines belong together, read once to check and hash them. Named after both files by default.

    As many blank lines as both files end with are left out: some archives of Multi30k have one.

    Raises:
        DataError: a file cannot be read or has no text, the line counts differ, or the files are of two splits of
            Multi30k.
    """
    sides = _File(source), _File(target)
    left_out = min(len(side.blank_end) for side in sides)
    for side in sides:
        if side.lines == len(side.blank_end):
            raise DataError(f"{side.path} has no text. It needs one sentence per line.")
    counts = [side.lines - left_out for side in sides]
    lines = FileText(source, counts[0], sides[0].version), FileText(target, counts[1], sides[1].version)
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {sides[0].lines} lines, {target} has {sides[1].lines}; they must correspond line by line. "
            f"{divergence(*lines)}"
        )
    hashes = sides[0].sha256(left_out), sides[1].sha256(left_out)
    name = name or f"{source.name} / {target.name}"
    return TextPair(name, *lines, *hashes, describe_variant(name, counts[0], *hashes), blank_end=left_out)


class _File:
    """What one pass over a file finds: its number of lines, the blank lines at its end, and its digest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = version_of(path)
        self.lines = 0
        self.blank_end: list[str] = []
        self._digest = TextDigest()
        for block in read_blocks(path):
            self.lines += len(block)
            end = len(block)
            while end and not block[end - 1].strip():
                end -= 1
            if end:
                self._digest.add([*self.blank_end, *block[:end]])
                self.blank_end = []
            self.blank_end += block[end:]

    def sha256(self, left_out: int) -> str:
        """The digest of the lines except the last `left_out`. To be called once."""
        self._digest.add(self.blank_end[: len(self.blank_end) - left_out])
        return self._digest.hexdigest()


def read_further_reference(path: Path, text: TextInMemory) -> tuple[str, list[str]]:
    """A name, and further translations of a text, one per line. DataError if there are more or fewer, or only blanks.

    Warns if they are the sources themselves.
    """
    lines = read_lines(path)
    while len(lines) > len(text.source) and not lines[-1].strip():  # ignored at the end of the other files, too
        lines.pop()
    if not any(map(str.strip, lines)):
        raise DataError(f"{path} has no text. It needs one sentence per line.")
    if len(lines) != len(text.source):
        raise DataError(
            f"{path} has {len(lines)} lines, but {text.name} has {len(text.source)}; they must have the same number. "
            f"{divergence(text.source, lines)}"
        )
    if lines == text.source:
        log.warning("%s: the reference is the same text as the source, so what is not translated scores, too", path)
    return f"{path.name}, {abridged(text_sha256(lines))}", lines


def divergence(source: Text, target: Text) -> str:
    """For messages: where texts of unequal line counts seem to be no longer aligned."""
    line = _first_misaligned_line(source, target) if len(source) and len(target) else 1
    return (
        f"They seem to diverge near line {line}:\n"
        f"  source: {_excerpt(source, line)}\n"
        f"  target: {_excerpt(target, line)}"
    )


def _first_misaligned_line(source: Text, target: Text) -> int:
    """Guess the line, counted from 1, from which texts of unequal line counts are no longer aligned.

    It assumes that the shorter text lacks lines at one place: before it, line i is aligned with line i, after it with
    line i plus the difference of the counts. As a translation is about as long as its source, the guess is the place
    for which the lengths of aligned lines differ least in sum.
    """
    lengths = (np.fromiter(map(len, side), np.int64, len(side)) + 1 for side in (source, target))
    long, short = sorted(lengths, key=len, reverse=True)
    usual = math.log(long.mean() / short.mean())
    before = np.abs(np.log(long[: len(short)] / short) - usual)
    after = np.abs(np.log(long[len(long) - len(short) :] / short) - usual)
    zero = np.zeros(1)
    costs = np.cumsum(np.concatenate((zero, before))) + np.cumsum(np.concatenate((zero, after[::-1])))[::-1]
    # A file that was cut off lacks lines at its end: preferred if that costs as little, up to chance in a line or two.
    at_the_end = costs[-1] - costs.min() <= 2 * costs.min() / len(short)
    return (len(short) if at_the_end else int(costs.argmin())) + 1


def _excerpt(lines: Text, line: int) -> str:
    text = next(islice(lines, line - 1, line), None)
    return "(no more lines)" if text is None else excerpt(text)
