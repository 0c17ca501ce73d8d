"""Encoded pairs as arrays, however they came to be: all that a model learns from."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SIDES = ("source", "target")

Ids = Sequence[int] | NDArray[np.integer]  # of one line, without bos and eos
Indices = NDArray[np.integer]  # of lines or pairs, counted from 0
Gathered = tuple[NDArray[Any], NDArray[np.int64]]  # the ids of some lines, one after the other, and how many each has


class Lines(Protocol):
    """The ids of each line of one side, without BOS and EOS."""

    def gather(self, lines: Indices) -> Gathered:
        """The ids of these lines."""


class Pairs(Protocol):
    """Encoded pairs, such as a `Dataset`. If they are `labelled`, a target is a label and has no eos."""

    @property
    def source(self) -> Lines: ...

    @property
    def target(self) -> Lines: ...

    @property
    def labelled(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class EncodedText:
    """The ids of all lines, one after the other, and where each line starts.

    Args:
        ids: flat integers, on disk uint16 or int32; without BOS and EOS.
        offsets: int64, one more than lines: line i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, lines: Sequence[Ids]) -> "EncodedText":
        """The ids of these lines."""
        offsets = np.cumsum([0, *map(len, lines)])
        return cls(np.fromiter((token for line in lines for token in line), np.int64, offsets[-1]), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> NDArray[Any]:
        if not 0 <= line < len(self):
            raise IndexError(f"line {line} of {len(self)}")
        return self.ids[self.offsets[line] : self.offsets[line + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[line] for line in range(len(self)))

    def gather(self, lines: Indices) -> Gathered:
        """The ids of these lines."""
        starts, lengths = self.offsets[lines], self.offsets[lines + 1] - self.offsets[lines]
        ends = np.cumsum(lengths)
        within = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
        return self.ids[np.repeat(starts, lengths) + within], lengths

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each line."""
        return np.diff(self.offsets).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Dataset:
    """The encoded pairs of one text, unfiltered. If it is `labelled`, a target is a label and has no eos."""

    source: EncodedText
    target: EncodedText
    labelled: bool = False

    def __len__(self) -> int:
        return len(self.source)

    def epoch(self, number: int) -> "Dataset":
        """The pairs as an epoch reads them: the same in each."""
        return self

    def prefetch(self, updates: Iterable[tuple[int, Indices]]) -> Generator["Dataset", None, None]:
        """The pairs as each of these updates reads them, each given as its epoch and the pairs that it needs."""
        return (self.epoch(number) for number, _ in updates)
