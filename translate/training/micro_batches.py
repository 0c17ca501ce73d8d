"""Batches in micro-batches that fit into memory: all are cut again if memory runs out.

The micro-batches of an update add up to the same gradient as its batches.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from translate.data.dataset import Indices
from translate.distributed.processes import Part
from translate.system.allocation import is_out_of_memory, release_memory
from translate.training.learner import Learner
from translate.training.memory import remedies

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
            self.double()

    def double(self) -> None:
        """Memory has run out: from now on, split each batch into twice as many."""
        release_memory()
        self.count *= 2
        self.learner.bar.say(
            f"out of memory at update {self.learner.progress.step + 1}: from now on each batch is split into "
            f"{self.count} micro-batches that add up to the same gradient; to avoid this, "
            f"{remedies(self.learner.config, self.learner.sharing)}"
        )
