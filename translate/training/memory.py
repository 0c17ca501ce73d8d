"""The memory that training takes: how much, and what to change if there is too little.

Sizes are in bytes, for one process.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.utils._python_dispatch import TorchDispatchMode

from translate.config.training import TrainingConfig


class TensorMemory(TorchDispatchMode):
    """The memory of all tensors made inside a `with` statement: `now`, and at the `peak`.

    It counts what operations return, storage by storage, but not what kernels use internally.

    Args:
        limit, beyond: a size, and a function that is called once, as soon as tensors take more.
    """

    def __init__(self, limit: float = math.inf, beyond: Callable[[], None] = lambda: None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._limit = limit
        self._beyond = beyond
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {storage._cdata for storage in storages((args, *kwargs.values()))}  # shared by views, or written to
        result = function(*args, **kwargs)
        for storage in storages((result,)):
            if storage._cdata not in given and storage._cdata not in self._alive:
                self._add(storage)
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()

        def gone(_: object) -> None:
            del self._alive[address]
            self.now -= size

        self._alive[address] = weakref.ref(storage, gone)
        self.now += size
        self.peak = max(self.peak, self.now)
        if self.peak > self._limit:
            self._limit = math.inf
            self._beyond()


# PyTorch wraps this method to keep its compiler away, and so imports the compiler: see uncompiled.py.
TensorMemory.__torch_dispatch__ = unwrap(TensorMemory.__torch_dispatch__)  # type: ignore[method-assign]


def storages(values: Iterable[Any]) -> Iterator[torch.UntypedStorage]:
    """The memory of each tensor among `values`, or in a list or tuple there."""
    for value in values:
        if isinstance(value, Tensor):
            yield value.untyped_storage()
        elif isinstance(value, (list, tuple)):
            yield from storages(value)


@dataclass(frozen=True)
class LastingMemory:
    """The memory that training holds from one update to the next; activations are not part of it.

    Args:
        parts: how much each part takes, by name.
        to_come: how much of all this is not allocated yet.
    """

    parts: dict[str, int]
    to_come: int


def lasting_memory(
    model: nn.Module,
    optimizers: Sequence[optim.Optimizer],
    config: TrainingConfig,
    device: torch.device,
    workers: int = 1,
) -> LastingMemory:
    """What `model` and its optimizers take once they have made an update and their states are written.

    It assumes that there are no gradients yet; there may or may not be optimizer state.
    """
    weights, unsharded_weights = shard_bytes(model.parameters()), unsharded_bytes(model.parameters())
    moments = unsharded_moments = present = 0
    for optimizer in optimizers:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        count = 2 if "betas" in optimizer.defaults else 1  # running means per parameter; Muon has one
        moments += count * shard_bytes(parameters)
        unsharded_moments += count * unsharded_bytes(parameters)
        present += shard_bytes(tensor for state in optimizer.state.values() for tensor in state.values())
    # The buffers of `Writer`: for the training state, the best model and, if there are any, snapshots.
    copies_of_weights = 2 + (config.average_last is not None)
    copies = unsharded_moments + copies_of_weights * unsharded_weights if device.type == "cpu" else 0
    parts = {"weights": weights, "gradients": workers * weights, "optimizer": moments, "write buffers": copies}
    return LastingMemory(parts, workers * weights + moments - min(present, moments) + copies)


def shard_bytes(tensors: Iterable[Tensor]) -> int:
    """What this process holds of these tensors; with FSDP, a shard of each."""
    return unsharded_bytes(tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors)


def unsharded_bytes(tensors: Iterable[Tensor]) -> int:
    """What these tensors take in all, in however many processes they are."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def remedies(config: TrainingConfig, sharing: int = 1, alone: int | None = None) -> str:
    """Advice for when memory runs out, if so many processes are sharing it.

    What may change when a run is resumed (see resuming.py) comes first.

    Args:
        alone: the tokens of a line that is the largest batch by itself, because no batch should be as large.
    """
    ways = [] if config.activation_checkpointing else ["set training.activation_checkpointing: true"]
    if sharing > 1:
        ways.append(f"train with fewer than {sharing} processes")
    if alone is None:
        lower = f"lower training.batch.max_tokens (now {config.batch.max_tokens})"
        ways.append(f"in a new run {lower} and raise training.batch.accumulate to make up for it")
    else:
        ways.append(f"in a new run lower data.filter.max_tokens: the largest batch is one line, of {alone} tokens")
    return ", or ".join(ways)


def human_size(number: float) -> str:
    """A number of bytes as messages show it."""
    return f"{number / 2**20:.0f} MiB" if number < 2**30 else f"{number / 2**30:.1f} GiB"
