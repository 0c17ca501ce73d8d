"""Training pairs that are segmented anew in every epoch, by BPE-dropout: when they are needed, or ahead of that."""

import logging
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translate.data.dataset import SIDES, Dataset, EncodedText, Gathered, Indices, Lines
from translate.errors import DataError
from translate.system.pool import in_processes
from translate.text.bpe_dropout import BpeDropout
from translate.text.codec import Codecs

SAMPLE = 1000  # pairs, from the whole text, by which the effect of dropout on lengths is measured

Task = tuple[str, Indices, Gathered]  # what a Resegmenter needs for some lines

log = logging.getLogger("translate")


@dataclass(frozen=True, eq=False)
class Resegmenter:
    """Segments lines of one side anew; one that would have more than `max_tokens` stays as it is."""

    dropout: BpeDropout
    max_tokens: int

    def __call__(self, key: str, lines: Indices, gathered: Gathered) -> Gathered:
        """Other ids for these `lines`: how one is segmented depends on its number and `key` alone."""
        ids, lengths = gathered
        rows = [
            self._resegment(row, Random(f"{key} {line}"))
            for row, line in zip(np.split(ids, np.cumsum(lengths)[:-1]), lines.tolist(), strict=True)
        ]
        return np.concatenate(rows), np.array([len(row) for row in rows])

    def _resegment(self, whole: NDArray[Any], random: Random) -> NDArray[Any]:
        ids = self.dropout.resegment(whole.tolist(), random)
        return np.array(ids, dtype=np.int64) if len(ids) <= self.max_tokens else whole


@dataclass(frozen=True, eq=False)
class ResegmentedText:
    """One side of the pairs, in one epoch."""

    encoded: EncodedText
    resegmenter: Resegmenter
    key: str

    def gather(self, lines: Indices) -> Gathered:
        """The ids of these lines."""
        return self.resegmenter(*self.task(lines))

    def task(self, lines: Indices) -> Task:
        return self.key, lines, self.encoded.gather(lines)


@dataclass(frozen=True, eq=False)
class GatheredText:
    """Some lines of one side: `encoded` has them in the order of `lines`, which ascend."""

    encoded: EncodedText
    lines: Indices

    @classmethod
    def of(cls, gathered: Gathered, lines: Indices) -> "GatheredText":
        ids, lengths = gathered
        return cls(EncodedText(ids, np.cumsum([0, *lengths])), lines)

    def gather(self, lines: Indices) -> Gathered:
        """The ids of these lines."""
        places = np.searchsorted(self.lines, lines)
        assert (self.lines[places] == lines).all()
        return self.encoded.gather(places)


@dataclass(frozen=True, eq=False)
class ResegmentedPairs:
    """The pairs of one epoch, or some of them."""

    source: Lines
    target: Lines
    labelled: bool


class ResegmentedDataset:
    """The pairs of `dataset`, segmented differently in each epoch: a pure function of seed, epoch and pair.

    Args:
        codecs: those that have encoded it.
        dropout: the probability with which a merge is left out.
        max_tokens: maximum number of tokens in a line; one that would become longer stays as it is in `dataset`.
        helpers: processes that segment the pairs of the next updates during an update; 0 if this process does it.
    """

    def __init__(
        self,
        dataset: Dataset,
        codecs: Codecs,
        *,
        dropout: float,
        max_tokens: int,
        seed: int,
        helpers: int = 0,
    ) -> None:
        self.dataset = dataset
        self.seed = seed
        self.helpers = helpers
        self.resegmenters = [
            None if codec.holds_labels else Resegmenter(BpeDropout(codec, dropout), max_tokens) for codec in codecs
        ]

    def lengthening(self, trained: Indices) -> float:
        """How many times as long the lines of the pairs `trained` on become, judging by up to `SAMPLE` of epoch 0."""
        lines = np.unique(trained[np.linspace(0, len(trained) - 1, SAMPLE).astype(np.int64)])
        without, with_dropout = (
            sum(len(side.gather(lines)[0]) for side in (pairs.source, pairs.target))
            for pairs in (self.dataset, self.epoch(0))
        )
        return with_dropout / without

    def epoch(self, number: int) -> ResegmentedPairs:
        """The pairs as epoch `number`, counted from 0, reads them."""
        texts = (self.dataset.source, self.dataset.target)
        source, target = (
            text if resegmenter is None else ResegmentedText(text, resegmenter, f"{self.seed} {number} {side}")
            for side, text, resegmenter in zip(SIDES, texts, self.resegmenters, strict=True)
        )
        return ResegmentedPairs(source, target, self.dataset.labelled)

    def prefetch(self, updates: Iterable[tuple[int, Indices]]) -> Generator[ResegmentedPairs, None, None]:
        """The pairs as each of these updates reads them, each given as its epoch and the pairs that it needs."""
        rest = iter(updates)
        waiting: deque[tuple[ResegmentedPairs, Indices]] = deque()

        def tasks() -> Iterator[list[Task]]:
            for number, needed in rest:
                pairs, lines = self.epoch(number), np.unique(needed)
                waiting.append((pairs, lines))
                yield [side.task(lines) for side in (pairs.source, pairs.target) if isinstance(side, ResegmentedText)]

        if self.helpers:
            work = partial(_resegment_all, [resegmenter for resegmenter in self.resegmenters if resegmenter])
            try:
                with closing(in_processes(work, tasks(), self.helpers)) as answers:
                    for source, *target in answers:  # no target if it holds labels
                        pairs, lines = waiting.popleft()
                        yield ResegmentedPairs(
                            GatheredText.of(source, lines),
                            GatheredText.of(target[0], lines) if target else pairs.target,
                            pairs.labelled,
                        )
            except DataError as error:
                log.warning("%s. From now on updates wait while BPE-dropout segments their text", error)
        # What no helper has done: all of it without any, or the rest after they have failed.
        yield from (pairs for pairs, _ in waiting)
        yield from (self.epoch(number) for number, _ in rest)


def _resegment_all(resegmenters: Sequence[Resegmenter], tasks: Sequence[Task]) -> list[Gathered]:
    return [resegmenter(*task) for resegmenter, task in zip(resegmenters, tasks, strict=True)]
