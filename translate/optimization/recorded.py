"""Updates recorded as CUDA graphs and replayed, which saves the time that Python takes to launch each operation."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from translate.config.training import TrainingConfig
from translate.data.batching import Batch, Shapes
from translate.distributed.parallel import ParallelModel
from translate.errors import first_line
from translate.model.positions import SinusoidalPositions
from translate.optimization.update import Forward, Update
from translate.system.allocation import is_out_of_memory
from translate.system.precision import autocast

# In a run of so few updates, recording takes a good part of the time. So batches get fewer shapes, by more padding, if
# they have so few tokens on their longer side that a GPU is not busy with them.
FEW_UPDATES, FEW_TOKENS = 1000, 4096
MAX_SHAPES = 500  # shapes of batches with a graph, which takes memory; batches of other shapes run without graphs

T = TypeVar("T")
Work = Callable[[], Any]
log = logging.getLogger("translate")


class RecordedUpdate(Update):
    """The passes over batches, clipping, and the step of the optimizers, as CUDA graphs.

    A pass has a thousand operations, and those of a small model take a GPU less time than launching them does. A graph
    works for one shape only, so batches are padded to a few shapes (`round_up`). If recording fails, as it may for lack
    of memory, updates go on operation by operation.

    Args:
        updates: how many the run will have.
        record: records what a function does on the GPU, and returns a function that does it again.
    """

    def __init__(
        self,
        parallel: ParallelModel,
        config: TrainingConfig,
        device: torch.device,
        dtype: torch.dtype,
        *,
        updates: int,
        record: Callable[[Work], Work] | None = None,
    ) -> None:
        super().__init__(parallel, config, device, dtype, recorded=True)
        self._pads_alike = updates <= FEW_UPDATES
        self._record = record or CudaGraphs()
        self._given_up = self._recording = False
        self._passes: dict[tuple[int, ...], _RecordedPass] = {}
        self._tables: set[Tensor] = set()
        self._gradients: list[Tensor] = []
        self._replay_clip: Work | None = None
        self._replay_step: Work | None = None

    def padded(self, shapes: Shapes) -> Shapes:
        rows, source, target = np.array([self._padded_shape(shape) for shape in zip(*shapes[:3], strict=True)]).T
        return Shapes(rows, source, target, rows * source, rows * target)

    def begin(self) -> None:
        # The first update of a run is not recorded: optimizers create their state in it, and libraries initialize.
        self._recording = not self._given_up and all(optimizer.state for optimizer in self.optimizers)
        parameters = list(self.parallel.model.parameters())
        if not self._gradients:
            self._gradients = [torch.empty_like(parameter) for parameter in parameters]
        for parameter, gradient in zip(parameters, self._gradients, strict=True):
            parameter.grad = gradient  # Graphs add to these very tensors, so put them back.
        torch._foreach_zero_(self._gradients)

    def accumulate(self, batch: Batch, scale: float, *, last: bool) -> Tensor:
        shape = self._padded_shape(batch.shape)
        batch = batch.padded(*shape)
        if not self._recording or (shape not in self._passes and len(self._passes) == MAX_SHAPES):
            return super().accumulate(batch, scale, last=last)
        if shape not in self._passes:
            for module in self.parallel.model.modules():
                if isinstance(module, SinusoidalPositions):
                    module(0, max(shape[1:]))  # Grow its table now: recording allows no copy from the CPU.
            run = partial(self._pass, self.parallel)
            recorded = self._unless_it_fails(lambda: _RecordedPass(batch.to(self.device), run, self._record))
            if recorded is None:
                return super().accumulate(batch, scale, last=last)
            self._passes[shape] = recorded
            # Keep every table of positions: older graphs still read from it after a longer one has replaced it.
            self._tables.update(self.parallel.model.buffers())
        return self._passes[shape](batch, scale)

    def clip(self) -> float:
        if self._recording and self._replay_clip is None:
            self._replay_clip = self._unless_it_fails(lambda: self._record(self._clip))
        return float((self._replay_clip or self._clip)())

    def give_up_memory(self) -> bool:
        if not self._passes:
            return False
        self._give_up("their memory is needed")
        return True

    def _step(self) -> None:
        step = super()._step
        if self._recording and self._replay_step is None:
            self._replay_step = self._unless_it_fails(lambda: self._record(step))
        (self._replay_step or step)()
        self._recording = False  # Passes outside an update, as in `rehearse`, use no graphs.

    def _unless_it_fails(self, recording: Callable[[], T]) -> T | None:
        """What `recording` returns; None if PyTorch cannot record that, and then nothing will be recorded any more."""
        try:
            return recording()
        except RuntimeError as error:
            why = "out of memory" if is_out_of_memory(error) else first_line(error)
        self._give_up(f"recording one has failed: {why}")
        return None

    def _give_up(self, why: str) -> None:
        """Forget everything recorded, and record no more.

        This frees its memory, which PyTorch may keep, however, after an operation that it could not record.
        """
        self._given_up, self._recording = True, False
        self._passes.clear()
        self._tables.clear()
        self._replay_clip = self._replay_step = None
        log.warning("from now on updates run without CUDA graphs, which small models notice: %s", why)

    def _padded_shape(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        rows, source, target = (round_up(int(size)) for size in shape)
        shorter, longer = sorted((source, target))
        if self._pads_alike and longer < 2 * shorter and rows * longer <= FEW_TOKENS:
            source = target = longer
        max_length = self.parallel.model.max_length
        return rows, min(source, max_length), min(target, max_length)

    def _logits(self, forward: Forward, batch: Batch) -> Tensor:
        # No target mask: a graph needs fixed shapes, and the labels of padding are `IGNORED` (see `Batch.padded`).
        with autocast(self.dtype, self.device):
            return forward(batch.source_BS, batch.source_mask_BS, batch.target_BT, None)


class _RecordedPass:
    """The recorded pass over batches of one shape, with its static input tensors: batch and scale."""

    def __init__(self, batch: Batch, work: Callable[[Batch, Tensor], Tensor], record: Callable[[Work], Work]) -> None:
        self.batch = batch
        self.scale = scale = batch.source_BS.new_zeros((), dtype=torch.float32)
        self._replay = record(lambda: work(batch, scale))

    def __call__(self, batch: Batch, scale: float) -> Tensor:
        for own, new in zip(vars(self.batch).values(), vars(batch).values(), strict=True):
            own.copy_(new, non_blocking=True)
        self.scale.fill_(scale)
        sums: Tensor = self._replay()
        return sums.clone()  # The next replay writes into the same memory.


class CudaGraphs:
    """Records work as CUDA graphs that share one memory pool, which is safe because they run one at a time."""

    def __init__(self) -> None:
        self._memory = torch.cuda.graph_pool_handle()

    def __call__(self, work: Work) -> Work:
        """Record what `work` launches; none of that is done before the first replay.

        RuntimeError if memory runs out, or if PyTorch cannot record that.
        """
        try:
            return self._recorded(work)
        except RuntimeError:
            # After an operation that cannot be recorded, PyTorch takes the generator of random numbers for one that is
            # still being recorded, and refuses to draw. A copy of its state is free of that.
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(generator.clone_state())
            raise

    def _recorded(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        # The outer context goes back to the usual stream, which PyTorch's does not if recording fails at its end.
        # Other threads, such as the one that writes training states, may use the GPU meanwhile.
        with (
            torch.cuda.stream(torch.cuda.current_stream()),
            torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"),
        ):
            result = work()

        def replay() -> Any:
            graph.replay()
            return result

        return replay


def round_up(size: int) -> int:
    """The size rounded up to one of a few, four for each doubling: at most a quarter more."""
    step = 1 << max(0, size.bit_length() - 3)
    return -(-size // step) * step
