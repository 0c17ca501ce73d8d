"""Chooses how updates run: operation by operation, in threads, or as CUDA graphs."""

import torch

from translate.config.training import TrainingConfig
from translate.distributed.parallel import ParallelModel, Single
from translate.optimization.recorded import RecordedUpdate
from translate.optimization.threaded import ThreadedUpdate
from translate.optimization.update import Update
from translate.system.threads import worker_count


def build_update(
    parallel: ParallelModel, config: TrainingConfig, device: torch.device, dtype: torch.dtype, *, updates: int
) -> Update:
    """The update for these settings: in a single process, with CUDA graphs on a GPU or threads on a CPU if possible.

    Args:
        updates: how many the run will have.
    """
    if isinstance(parallel, Single) and not config.activation_checkpointing:
        if device.type == "cuda" and "graphs" not in config.plain:
            return RecordedUpdate(parallel, config, device, dtype, updates=updates)
        workers = worker_count(device)  # 1 on a GPU
        # PyTorch's own dropout, also in its attention, draws from one generator that all threads share: results would
        # depend on their timing.
        if workers > 1 and not {"workers", "attention", "dropout"} & set(config.plain):
            return ThreadedUpdate(parallel, config, device, dtype, workers=workers)
    return Update(parallel, config, device, dtype)
