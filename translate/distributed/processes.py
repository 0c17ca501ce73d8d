"""The processes that train one model together: rank, share of the work, and what one can ask of the others.

All make the same decisions, based on numbers gathered from all of them. Only the first (the main process, rank 0)
validates and writes. This file knows nothing of networks or models; group.py has the class for several processes.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translate.data.dataset import Indices
from translate.errors import CheckpointError

T = TypeVar("T")


class Part(NamedTuple):
    """Pairs that one process works on, by index: a batch or part of it.

    `weight` is 1, or 0 for a dummy batch: even a process without pairs must make a pass with DDP, and with FSDP as many
    passes as the others.
    """

    indices: Indices
    weight: int

    def split(self, count: int) -> list["Part"]:
        """Cut into this many micro-batches, or into one for each pair if there are fewer pairs."""
        return [Part(self.indices[i::count], self.weight) for i in range(min(count, len(self.indices)))]


class Processes:
    """Training in a single process, and the interface that `Group` (group.py) implements for several."""

    rank = 0
    count = 1
    local_count = 1  # processes on this machine, including this one

    def parts(self, batches: Sequence[Indices], workers: int = 1) -> list[list[Part]]:
        """Parts of the batches of one update, for each of this process's `workers`; all workers get equally many.

        Batches stay whole as far as they divide evenly among the workers of all processes; each batch that remains is
        split among all workers. A dummy batch takes the place of an empty part.
        """
        first = self.rank * workers
        return [parts_of(batches, first + worker, self.count * workers) for worker in range(workers)]

    def gather(self, *numbers: float) -> NDArray[np.float64]:
        """The numbers of all processes, a row for each, the same in all of them."""
        return np.array([numbers], dtype=np.float64)

    def agree_on(self, number: float) -> bool:
        """Whether all processes have the same number."""
        return len(np.unique(self.gather(number))) == 1

    def expect_the_same(self, number: int, what: str) -> None:
        """CheckpointError if the processes have found different numbers of something in the run's folder."""
        if not self.agree_on(number):
            raise CheckpointError(f"the processes find different {what}; they must share one output folder")

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        """The CPU tensors of all processes, which have the same shape."""
        return [tensor]

    def on_first(self, work: Callable[[], T]) -> T:
        """What `work` returns in the first process, which alone runs it, while the others wait.

        Raises:
            Interrupted, DataError: in all processes, if `work` raises it. Any other error is the first one's alone; the
                others learn that it has ended.
        """
        return work()

    @contextmanager
    def first_ahead(self) -> Iterator[None]:
        """The first process runs the body before the others, which find the work done."""
        yield

    def own_device(self, device: torch.device) -> torch.device:
        """This process's own device of this kind.

        Raises:
            ConfigError: there are more processes than devices, or others want another kind.
            TrainingError: the device is full.
        """
        return device

    def at_the_end(self, work: Callable[[], object]) -> None:
        """Call `work` when the connections of this process are closed; a single process never calls it."""

    def seed_each_process(self, seed: int) -> None:
        """Seed PyTorch differently in each process; the first keeps the state of its random generator."""


SINGLE_PROCESS = Processes()


def parts_of(batches: Sequence[Indices], number: int, count: int) -> list[Part]:
    """What worker `number` of `count` gets of these batches."""
    even = len(batches) // count * count
    # Pairs of a batch are sorted by length; by taking every count-th, each part gets short and long ones.
    split = [(batch, batch[number::count]) for batch in batches[even:]]
    whole = [Part(batch, 1) for batch in batches[number:even:count]]
    return whole + [Part(own, 1) if len(own) else Part(batch[:1], 0) for batch, own in split]


def number_from(data: bytes) -> int:
    """A number that other data almost certainly does not give: 48 bits, which processes can exchange as a float."""
    return int.from_bytes(hashlib.sha256(data).digest()[:6], "big")


def seed_of(*numbers: int) -> int:
    """A seed derived from these numbers; any others almost certainly give another seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
