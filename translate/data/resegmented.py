"""Training pairs that are segmented anew in every epoch, by BPE-dropout."""

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translate.data.dataset import SIDES, Dataset, EncodedText
from translate.text.bpe_dropout import BpeDropout
from translate.text.codec import Codec

SAMPLE = 1000  # pairs, from the whole text, by which the effect of dropout on lengths is measured


@dataclass(frozen=True, eq=False)
class ResegmentedText:
    """One side of the pairs; how a line is segmented depends on its number and `key` alone."""

    encoded: EncodedText
    dropout: BpeDropout
    longest: int
    key: str

    def __getitem__(self, line: int) -> NDArray[Any]:
        whole = self.encoded[line]
        ids = self.dropout.recut(whole.tolist(), Random(f"{self.key} {line}"))
        return np.array(ids, dtype=np.int64) if len(ids) <= self.longest else whole

    def gather(self, lines: NDArray[np.integer]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of these lines, one line after the other, and how many each of them has."""
        rows = [self[line] for line in lines.tolist()]
        return np.concatenate(rows), np.array([len(row) for row in rows])


@dataclass(frozen=True, eq=False)
class ResegmentedPairs:
    """The pairs of one epoch."""

    source: EncodedText | ResegmentedText
    target: EncodedText | ResegmentedText
    labelled: bool


class ResegmentedDataset:
    """The pairs of `dataset`, segmented differently in each epoch: a pure function of seed, epoch and pair.

    Args:
        codecs: those that have encoded it.
        share: the probability with which a merge is left out.
        longest: maximum number of tokens in a line; one that would become longer stays as it is in `dataset`.
    """

    def __init__(
        self,
        dataset: Dataset,
        codecs: tuple[Codec, Codec],
        *,
        share: float,
        longest: int,
        seed: int,
    ) -> None:
        self.dataset = dataset
        self.longest = longest
        self.seed = seed
        self.dropouts = [None if codec.holds_labels else BpeDropout(codec, share) for codec in codecs]

    def lengthening(self) -> float:
        """How many times as long lines become, judging by up to `SAMPLE` pairs of epoch 0."""
        lines = np.unique(np.linspace(0, len(self.dataset) - 1, SAMPLE).astype(np.int64))
        without, with_dropout = (
            sum(len(side.gather(lines)[0]) for side in (pairs.source, pairs.target))
            for pairs in (self.dataset, self.epoch(0))
        )
        return with_dropout / without

    def epoch(self, number: int) -> ResegmentedPairs:
        """The pairs as epoch `number`, counted from 0, reads them."""
        source, target = (
            encoded
            if dropout is None
            else ResegmentedText(encoded, dropout, self.longest, f"{self.seed} {number} {side}")
            for side, encoded, dropout in zip(
                SIDES, (self.dataset.source, self.dataset.target), self.dropouts, strict=True
            )
        )
        return ResegmentedPairs(source, target, self.dataset.labelled)
