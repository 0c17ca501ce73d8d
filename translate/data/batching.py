"""Encoded pairs to batches: which pairs go together, in which order, and how they are padded.

Dimension letters in names: B pairs, S source positions, T target positions, N real target tokens of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from translate.config.schema import BatchConfig
from translate.text.vocabulary import BOS, EOS, PAD, SPECIALS

Indices = NDArray[np.int64]
Places = NDArray[np.int32]  # half the memory
Lengths = NDArray[np.integer]

IGNORED = -100  # the label where there is nothing to predict, as in PyTorch's losses


@dataclass(frozen=True)
class Batch:
    """Padded pairs for teacher forcing: the decoder reads `target_BT` and must predict `labels_N`.

    A source ends with eos. The target begins with bos as the decoder reads it, and ends with eos as it must predict it.
    Masks are boolean and True at real tokens; `labels_N` holds the ids to predict at `target_mask_BT`, row by row. For
    labelled text these are the labels alone, without eos, numbered from 0 because a special token is never the answer.
    """

    source_BS: Tensor
    source_mask_BS: Tensor
    target_BT: Tensor
    target_mask_BT: Tensor
    labels_N: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, and source and target positions."""
        return *self.source_BS.shape, self.target_BT.shape[1]

    def padded(self, rows: int, source: int, target: int) -> "Batch":
        """The same pairs in a batch of this shape, with a label at every position.

        The label is `IGNORED` where there is nothing to predict: at padding, and in extra rows, which have a source of
        one token so that attention has something to look at.
        """
        further = rows - len(self.source_BS)

        def widened(values: Tensor, width: int, value: int) -> Tensor:
            return F.pad(values, (0, width - values.shape[1], 0, further), value=value)

        labels_BT = torch.full(self.target_BT.shape, IGNORED).masked_scatter_(self.target_mask_BT, self.labels_N)
        source_mask_BS = widened(self.source_mask_BS, source, False)
        source_mask_BS[rows - further :, 0] = True
        return Batch(
            widened(self.source_BS, source, PAD),
            source_mask_BS,
            widened(self.target_BT, target, PAD),
            torch.ones(rows, target, dtype=torch.bool),
            widened(labels_BT, target, IGNORED).flatten(),
        )

    def twice(self) -> "Batch":
        """Every pair twice: all of them, then all of them again."""
        return Batch(**{name: torch.cat([tensor, tensor]) for name, tensor in vars(self).items()})

    def to(self, device: torch.device) -> "Batch":
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


class Lines(Protocol):
    """The ids of each line of one side, without BOS and EOS."""

    def gather(self, lines: Indices) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The ids of these lines, one line after the other, and how many each of them has."""
        ...


class Pairs(Protocol):
    """Encoded pairs, such as a `Dataset`. If they are `labelled`, a target is a label and has no eos."""

    @property
    def source(self) -> Lines: ...

    @property
    def target(self) -> Lines: ...

    @property
    def labelled(self) -> bool: ...


def make_batch(dataset: Pairs, indices: Sequence[int] | Indices) -> Batch:
    """The pairs of `dataset` at `indices`, padded to the longest of each side."""
    pairs = np.asarray(indices, dtype=np.int64)
    source_ids, lengths = dataset.source.gather(pairs)
    places_B = np.arange(len(pairs))
    source_BS, source_mask_BS = _padded(source_ids, lengths, 1)
    source_BS[places_B, lengths] = EOS
    source_mask_BS[places_B, lengths] = True

    target_ids, lengths = dataset.target.gather(pairs)
    end = 0 if dataset.labelled else 1
    labels_BT, target_mask_BT = _padded(target_ids, lengths, end)
    target_BT = np.full_like(labels_BT, PAD)
    target_BT[:, 1:] = labels_BT[:, :-1]
    target_BT[:, 0] = BOS
    if dataset.labelled:
        labels_BT -= len(SPECIALS)
    else:
        labels_BT[places_B, lengths] = EOS
        target_mask_BT[places_B, lengths] = True
    tensors = source_BS, source_mask_BS, target_BT, target_mask_BT, labels_BT[target_mask_BT]
    return Batch(*map(torch.from_numpy, tensors))


def _padded(flat: NDArray[np.integer], lengths: Lengths, more: int) -> tuple[Indices, NDArray[np.bool_]]:
    """Rows of these lengths, which follow one another in `flat`, padded to the length of the longest plus `more`."""
    mask = np.arange(lengths.max() + more) < lengths[:, None]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = flat
    return ids, mask


def pad_rows(rows: Sequence[NDArray[np.integer]]) -> tuple[Tensor, Tensor]:
    """Ids (int64) with padding after the shorter rows, and the mask of the real ones."""
    ids, mask = _padded(np.concatenate(rows), np.array([len(row) for row in rows]), 0)
    return torch.from_numpy(ids), torch.from_numpy(mask)


@dataclass(frozen=True)
class BatchPlan:
    """The order of an epoch's batches: a pure function of the seed and the epoch, so that a run can resume anywhere.

    Args:
        pairs: indices of the pairs to train on.
        source_lengths, target_lengths: tokens of each pair in `pairs`, without bos and eos.
    """

    pairs: Indices
    source_lengths: Lengths
    target_lengths: Lengths
    config: BatchConfig
    seed: int
    _last: dict[int, tuple[Places, list[tuple[int, int]]]] = field(default_factory=dict, init=False, compare=False)

    def epoch(self, epoch: int) -> list[list[Indices]]:
        """The updates of an epoch, each with the batches (indices of pairs) whose gradients it sums.

        Every epoch has the same number of them. Several processes divide the batches of an update among themselves.
        """
        order, cuts = self._planned(epoch)
        pairs = self.pairs[order]
        batches = [pairs[start:stop] for start, stop in cuts]
        together = self.config.accumulate
        return [batches[i : i + together] for i in range(0, len(batches), together)]

    def padding_share(self) -> float:
        """The share of an epoch's source and target positions that hold no token."""
        order, cuts = self._planned(0)
        starts, stops = np.array(sorted(cuts)).T
        real = padded = 0
        for lengths in (self.source_lengths[order] + 1, self.target_lengths[order] + 1):
            real += int(lengths.sum(dtype=np.int64))
            padded += int(np.maximum.reduceat(lengths, starts).astype(np.int64) @ (stops - starts))
        return 1 - real / padded

    def _planned(self, epoch: int) -> tuple[Places, list[tuple[int, int]]]:
        """The places of an epoch's pairs in `pairs`, and where in this order each of its batches starts and stops."""
        if epoch not in self._last:  # For millions of pairs an order takes seconds, and it is needed more than once.
            self._last.clear()
            rng = np.random.default_rng((self.seed, epoch))
            shuffled = rng.permutation(np.arange(len(self.pairs), dtype=np.int32))
            order = shuffled[np.lexsort((self.target_lengths[shuffled], self.source_lengths[shuffled]))]
            # eos is a token too, on both sides.
            width = 1 + np.maximum(self.source_lengths, self.target_lengths)[order]
            cuts = cut(width, self.config.max_tokens, self.config.max_sentences)
            self._last[epoch] = order, [cuts[i] for i in rng.permutation(len(cuts))]
        return self._last[epoch]


def cut(widths: Lengths, max_tokens: int, max_rows: int | None) -> list[tuple[int, int]]:
    """Cut consecutive rows into batches of at most `max_tokens` (rows times widest) and `max_rows`.

    A row wider than `max_tokens` is a batch by itself.
    """
    batches = []
    start = widest = 0
    for row, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        rows = row + 1 - start
        if rows > 1 and (rows * widest > max_tokens or (max_rows is not None and rows > max_rows)):
            batches.append((start, row))
            start, widest = row, width
    if len(widths):
        batches.append((start, len(widths)))
    return batches
