"""From settings to the kind of update that suits them."""

import torch

from translate.config.schema import TrainingConfig
from translate.training.parallel import Single
from translate.training.recorded import RecordedUpdate
from translate.training.threaded import ThreadedUpdate
from translate.training.update import Update

# Measured on two cores only. Each worker has gradients of its own, and Python runs in one of them at a time.
MOST_WORKERS = 2


def build_update(parallel: Single, config: TrainingConfig, device: torch.device, dtype: torch.dtype) -> Update:
    """The update for these settings. If the model is in a single process: replayed on a GPU, threaded on CPU cores."""
    if type(parallel) is Single and not config.activation_checkpointing:
        if device.type == "cuda" and "graphs" not in config.plain:
            return RecordedUpdate(parallel, config, device, dtype)
        workers = min(MOST_WORKERS, torch.get_num_threads())
        # PyTorch's own dropout draws from a source that all threads share, in no certain order.
        if device.type == "cpu" and workers > 1 and not {"workers", "attention", "dropout"} & set(config.plain):
            return ThreadedUpdate(parallel, config, device, dtype, workers=workers)
    return Update(parallel, config, device, dtype)
