"""An update whose passes run in several threads of this process, each on its part of the batches.

Most operations of a small model are too short to be divided between the cores of a CPU. So each worker, a thread, runs
its own passes, and only the sum of the gradients and the step of the optimizers use all cores for one operation.
Several processes would cost more: they would have to exchange gradients, and each would hold a model and run its
optimizer.
"""

import copy
from collections.abc import Sequence
from concurrent.futures import wait
from typing import TypeVar

import torch
from torch import Tensor, nn

from translate.config.training import TrainingConfig
from translate.distributed.parallel import ParallelModel
from translate.model.dropout import drawing_from
from translate.optimization.update import Pass, Update, total
from translate.system.threads import own_threads, threads_of_each, worker_threads

M = TypeVar("M", bound=nn.Module)


class ThreadedUpdate(Update):
    """Runs the passes of an update in threads, of which the calling one is the first.

    A thread more, which waited for all of them, would have a heap of its own in the C library (see `keep_memory`). With
    the same number of workers, gradients are the same to the bit in every run, dropout included.

    Args:
        workers: how many threads; PyTorch's threads are divided between them.
    """

    def __init__(
        self, parallel: ParallelModel, config: TrainingConfig, device: torch.device, dtype: torch.dtype, *, workers: int
    ) -> None:
        super().__init__(parallel, config, device, dtype)
        self.workers = workers
        self._views = [parallel.model, *(view_of(parallel.model) for _ in range(1, workers))]
        self._threads = threads_of_each(workers)
        self._pool = worker_threads(workers - 1, threads=self._threads)

    def begin(self) -> None:
        for view in self._views:
            view.zero_grad()

    def accumulate_all(self, passes: Sequence[Sequence[Pass]], tokens: float) -> Tensor:
        seeds = torch.randint(2**63 - 1, (self.workers,)).tolist()
        own, *others = [
            (view, part, tokens, torch.Generator().manual_seed(seed))
            for view, part, seed in zip(self._views, passes, seeds, strict=True)
        ]
        with own_threads(self._threads):
            futures = [self._pool.submit(self._passes, *other) for other in others]
            try:
                sums = self._passes(*own)
            finally:
                wait(futures)  # If one raises, the others must not still be running while the error is handled.
        found = [sums]
        while futures:  # A variable with a future that failed would keep the tensors of its pass alive for the retry.
            found.append(futures.pop(0).result())
        sums = total(found)
        self._sum_up()
        return sums

    def _passes(self, view: nn.Module, passes: Sequence[Pass], tokens: float, generator: torch.Generator) -> Tensor:
        with drawing_from(generator):
            return total(weight * self._pass(view, batch, weight / tokens) for batch, weight in passes)

    def _sum_up(self) -> None:
        """Add the gradients of all views to those of the first, which is the model itself, and clear the others."""
        own, *others = self._views
        for view in others:
            torch._foreach_add_(gradients_of(own), gradients_of(view))
            view.zero_grad()


def view_of(model: M) -> M:
    """A copy of the model in training mode that shares the memory of the weights, but not gradients and buffers."""
    weights = {id(parameter): nn.Parameter(parameter.detach()) for parameter in model.parameters()}
    return copy.deepcopy(model, weights).train()


def gradients_of(model: nn.Module) -> list[Tensor]:
    """The gradients of those parameters that have one."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
