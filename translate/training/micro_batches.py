"""Batches in micro-batches that fit into memory: the largest is tried first, and all are cut again if memory runs out.

The micro-batches of an update add up to the same gradient as its batches.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from translate.allocation import is_out_of_memory, release_memory
from translate.data.batching import Pairs, make_batch
from translate.data.dataset import Indices
from translate.training.learner import Learner
from translate.training.memory import remedies
from translate.training.processes import Part
from translate.training.rehearsal import LargestBatch, rehearsal

T = TypeVar("T")


class MicroBatches:
    """Splits each batch of a learner into `count` micro-batches; the count is doubled when memory runs out."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.count = 1

    def of(self, batches: Sequence[Indices]) -> list[list[Part]]:
        """This process's share of the batches of one update, for each of its workers."""
        shares = self.learner.processes.parts(batches, self.learner.update.workers)
        return [[micro_batch for part in parts for micro_batch in part.split(self.count)] for parts in shares]

    def until_it_fits(self, work: Callable[[], T], batches: Sequence[Indices]) -> T:
        """Return what `work` does with these batches; if memory runs out, retry with twice as many micro-batches."""
        while True:
            try:
                return work()
            except (RuntimeError, MemoryError) as error:
                # With several processes, only this one would retry, and the others would wait for it forever.
                alone = self.learner.processes.count == 1
                if not (is_out_of_memory(error) and alone and self.count < max(map(len, batches))):
                    raise
            self._double()

    def rehearse(self, largest: LargestBatch, pairs: Pairs) -> None:
        """Run this batch once and discard the result, so that a lack of memory shows before anything else is done."""
        self.learner.model.train()
        # First, several processes agree on pieces: in passes that sum no gradients, none waits for one without memory.
        if self.learner.processes.count > 1 and self.learner.parallel.passes_alone:
            while self.count < len(largest.indices) and self._any_lacks_memory(largest, pairs):
                self._double()
        self.until_it_fits(lambda: self._rehearse(largest, pairs), [largest.indices])

    def _double(self) -> None:
        release_memory()
        self.count *= 2
        self.learner.bar.say(
            f"out of memory at update {self.learner.progress.step + 1}: from now on each batch is split into "
            f"{self.count} micro-batches that add up to the same gradient; "
            f"to avoid this, {remedies(self.learner.config, self.learner.sharing)}"
        )

    def _any_lacks_memory(self, largest: LargestBatch, pairs: Pairs) -> bool:
        """Whether memory runs out in any process while all run a pass over their part of this batch."""
        learner = self.learner
        lacks = False
        with torch.random.fork_rng([learner.device] if learner.device.type == "cuda" else []):
            try:
                learner.update.add(make_batch(pairs, self._part_of(largest)), 1.0, last=False)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                lacks = True
        learner.model.zero_grad()
        return bool(learner.processes.gather(lacks).any())

    def _rehearse(self, largest: LargestBatch, pairs: Pairs) -> None:
        part = self._part_of(largest)
        with rehearsal(self.learner, len(part), largest.longest):
            self.learner.update.add(make_batch(pairs, part), 1.0, last=True)

    def _part_of(self, largest: LargestBatch) -> Indices:
        """What a worker gets at a time if all batches of an update are as large as this one."""
        learner = self.learner
        # Each worker gets whole batches if an update has at least one for every worker of all processes; if not, parts.
        all_workers = learner.processes.count * learner.update.workers
        batches = [largest.indices] * (all_workers if learner.config.batch.accumulate >= all_workers else 1)
        (micro_batch, *_), *_ = self.of(batches)
        return micro_batch.indices
