"""One update of the weights: passes over batches, which add up gradients, and the step of the optimizers."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from translate.config.training import TrainingConfig
from translate.data.batching import Batch, Shapes
from translate.distributed.parallel import ParallelModel
from translate.optimization.objective import build_objective
from translate.optimization.optimizer import build_optimizers, set_rate
from translate.system.precision import autocast

Forward = Callable[..., Tensor]  # what turns the tensors of a batch into logits


class Pass(NamedTuple):
    """A batch for a forward and a backward pass, whose gradient is multiplied by `weight` (see processes.Part)."""

    batch: Batch
    weight: int


class Update:
    """An update that runs operation by operation, and the interface of the other kinds.

    Args:
        dtype: the autocast dtype of passes, and the dtype of Muon's matrix products.
        recorded: whether CUDA graphs will replay it.
    """

    workers = 1  # threads among which the passes of an update are divided

    def __init__(
        self,
        parallel: ParallelModel,
        config: TrainingConfig,
        device: torch.device,
        dtype: torch.dtype,
        *,
        recorded: bool = False,
    ) -> None:
        self.parallel = parallel
        self.device = device
        self.dtype = dtype
        self.max_norm = config.clip_norm or math.inf
        self.objective = build_objective(config, plain=recorded)  # Padding of recorded batches has labels to ignore.
        self.optimizers = build_optimizers(config.optimizer, parallel.model, dtype, recorded=recorded)

    def padded(self, shapes: Shapes) -> Shapes:
        """The shapes to which passes pad batches of these shapes; here, the same."""
        return shapes

    def begin(self) -> None:
        """Clear all gradients; called before each update."""
        self.parallel.model.zero_grad()

    def accumulate_all(self, passes: Sequence[Sequence[Pass]], tokens: float) -> Tensor:
        """Accumulate the gradients of all passes, a list for each of the `workers`; losses are divided by `tokens`.

        Returns the sums of the loss that is minimized and of the nll, (2,).
        """
        (own,) = passes
        return total(
            weight * self.accumulate(batch, weight / tokens, last=number == len(own))
            for number, (batch, weight) in enumerate(own, 1)
        )

    def accumulate(self, batch: Batch, scale: float, *, last: bool) -> Tensor:
        """Accumulate `scale` times the gradient of a batch's loss; returns the sums of that loss and of the nll, (2,).

        After the `last` batch of an update, gradients are averaged over processes.
        """
        with self.parallel.backward_pass(last=last):
            return self._pass(self.parallel, batch.to(self.device), scale)

    def clip(self) -> float:
        """Clip the gradient to the maximum norm, and return its norm before that."""
        return float(self.parallel.unsharded(self._clip()))

    def step(self, rate: float) -> None:
        """Update the weights from the gradients, at this learning rate."""
        set_rate(self.optimizers, rate)
        self._step()

    def give_up_memory(self) -> bool:
        """Give up memory that only makes updates faster, for the rest of the run; returns whether there was any."""
        return False

    def _pass(self, forward: Forward, batch: Batch, scale: float | Tensor) -> Tensor:
        loss, sums = self.objective(self._logits(forward, self.objective.read(batch)), batch.labels_N, scale)
        loss.backward()
        return sums

    def _logits(self, forward: Forward, batch: Batch) -> Tensor:
        with autocast(self.dtype, self.device):
            return forward(
                batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT, padding_rows=True
            )

    def _clip(self) -> Tensor:
        return nn.utils.clip_grad_norm_(self.parallel.model.parameters(), self.max_norm)

    def _step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()


def total(sums: Iterable[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return torch.stack(list(sums)).sum(0)
