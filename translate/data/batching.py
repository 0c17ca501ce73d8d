"""Encoded pairs to batches: which pairs go together, in which order, and how they are padded.

Dimension letters in names: B pairs, S source positions, T target positions, N real target tokens of a batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from translate.config.training import BatchConfig
from translate.data.dataset import Indices, Pairs
from translate.text.vocabulary import BOS, EOS, PAD, SPECIALS

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
        source_mask_BS[len(self.source_BS) :, 0] = True
        return Batch(
            widened(self.source_BS, source, PAD),
            source_mask_BS,
            widened(self.target_BT, target, PAD),
            torch.ones(rows, target, dtype=torch.bool),
            widened(labels_BT, target, IGNORED).flatten(),
        )

    def twice(self) -> "Batch":
        """Every pair twice, for R-Drop: all of them, then all of them again."""
        return Batch(**{name: torch.cat([tensor, tensor]) for name, tensor in vars(self).items()})

    def to(self, device: torch.device) -> "Batch":
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})


def make_batch(pairs: Pairs, indices: Sequence[int] | Indices) -> Batch:
    """The `pairs` at `indices`, padded to the longest of each side."""
    lines = np.asarray(indices, dtype=np.int64)
    rows_B = np.arange(len(lines))
    source_ids, source_lengths_B = pairs.source.gather(lines)
    source_BS, source_mask_BS = _padded(source_ids, source_lengths_B, 1)
    source_BS[rows_B, source_lengths_B] = EOS
    source_mask_BS[rows_B, source_lengths_B] = True

    target_ids, target_lengths_B = pairs.target.gather(lines)
    end = 0 if pairs.labelled else 1
    labels_BT, target_mask_BT = _padded(target_ids, target_lengths_B, end)
    target_BT = np.full_like(labels_BT, PAD)
    target_BT[:, 1:] = labels_BT[:, :-1]
    target_BT[:, 0] = BOS
    if pairs.labelled:
        labels_BT -= len(SPECIALS)
    else:
        labels_BT[rows_B, target_lengths_B] = EOS
        target_mask_BT[rows_B, target_lengths_B] = True
    tensors = source_BS, source_mask_BS, target_BT, target_mask_BT, labels_BT[target_mask_BT]
    return Batch(*map(torch.from_numpy, tensors))


def _padded(flat: NDArray[np.integer], lengths: Lengths, more: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rows of these lengths, which follow one another in `flat`, padded to the length of the longest plus `more`."""
    mask = np.arange(lengths.max() + more) < lengths[:, None]
    ids = np.full(mask.shape, PAD, dtype=np.int64)
    ids[mask] = flat
    return ids, mask


def pad_rows(rows: Sequence[NDArray[np.integer]]) -> tuple[Tensor, Tensor]:
    """Ids (int64) with padding after the shorter rows, and the mask of the real ones."""
    ids, mask = _padded(np.concatenate(rows), np.array([len(row) for row in rows]), 0)
    return torch.from_numpy(ids), torch.from_numpy(mask)


@dataclass(frozen=True, eq=False)
class Epoch:
    """The updates of an epoch, each with the batches (indices of pairs) whose gradients it sums.

    Several processes divide the batches of an update among themselves. Arrays of millions of pairs, one for each batch,
    would take too much memory, so the array of a batch is made when it is asked for.

    Args:
        order: the pairs, similar lengths beside each other.
        bounds: batch i is `order[bounds[i]:bounds[i + 1]]`.
        batch_order: the order in which training takes the batches.
        accumulate: number of batches in an update; the last one may have fewer.
    """

    order: Indices
    bounds: Indices
    batch_order: Indices
    accumulate: int

    def __len__(self) -> int:
        return -(-len(self.batch_order) // self.accumulate)

    def __iter__(self) -> Iterator[list[Indices]]:
        return (self[update] for update in range(len(self)))

    def __getitem__(self, update: int) -> list[Indices]:
        if not 0 <= update < len(self):
            raise IndexError(f"update {update} of {len(self)}")
        first = update * self.accumulate
        return [self.batch(number) for number in self.batch_order[first : first + self.accumulate]]

    def batch(self, number: int) -> Indices:
        return self.order[self.bounds[number] : self.bounds[number + 1]]


class Shapes(NamedTuple):
    """For each batch, numbered as in `Epoch.batch`: its rows, the length of a row and the tokens, on both sides.

    eos counts as a token. A label, which has none, counts as if it had one.
    """

    rows: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    source_tokens: NDArray[np.int64]
    target_tokens: NDArray[np.int64]

    def padding_share(self) -> float:
        """The share of source and target positions that hold no token."""
        positions = self.rows @ (self.source + self.target)
        return float(1 - (self.source_tokens.sum() + self.target_tokens.sum()) / positions)


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """The order of an epoch's batches: a pure function of the seed and the epoch, so that a run can resume anywhere.

    Args:
        indices: the pairs to train on, each as often as an epoch has it.
        source_lengths, target_lengths: number of tokens of every pair, trained on or not, without bos and eos.
    """

    indices: Indices
    source_lengths: Lengths
    target_lengths: Lengths
    config: BatchConfig
    seed: int
    _last: dict[int, Epoch] = field(default_factory=dict, init=False)

    @property
    def updates_per_epoch(self) -> int:
        """How many updates an epoch has; every epoch has the same number."""
        return len(self.epoch(0))

    def epoch(self, number: int) -> Epoch:
        """The updates of an epoch."""
        if number not in self._last:  # For millions of pairs an order takes seconds, and it is needed more than once.
            self._last.clear()
            rng = np.random.default_rng((self.seed, number))
            shuffled = rng.permutation(self.indices)
            order = shuffled[np.lexsort((self.target_lengths[shuffled], self.source_lengths[shuffled]))]
            # eos is a token too, on both sides.
            width = 1 + np.maximum(self.source_lengths[order], self.target_lengths[order])
            batches = split_into_batches(width, self.config.max_tokens, self.config.max_sentences)
            bounds = np.array([0, *(stop for _, stop in batches)])
            self._last[number] = Epoch(order, bounds, rng.permutation(len(batches)), self.config.accumulate)
        return self._last[number]

    def shapes(self, number: int) -> Shapes:
        """The shapes of the batches of an epoch; those of other epochs are the same, with other pairs."""
        epoch = self.epoch(number)
        starts = epoch.bounds[:-1]
        source, target = 1 + self.source_lengths[epoch.order], 1 + self.target_lengths[epoch.order]
        return Shapes(
            rows=np.diff(epoch.bounds),
            source=np.maximum.reduceat(source, starts).astype(np.int64),
            target=np.maximum.reduceat(target, starts).astype(np.int64),
            source_tokens=np.add.reduceat(source, starts, dtype=np.int64),
            target_tokens=np.add.reduceat(target, starts, dtype=np.int64),
        )


def split_into_batches(widths: Lengths, max_tokens: int, max_rows: int | None) -> list[tuple[int, int]]:
    """Split consecutive rows into batches, as (start, stop): at most `max_tokens` (rows times widest) and `max_rows`.

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
