"""One of the processes that test_several_processes.py starts: with the others it does the jobs of a file, in order.

python process.py CONFIG JOBS.json
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from tiny_runs import at_call, gradients, sigterm, trainer_of
from torch import Tensor

from translate.config.loading import load_config
from translate.data.batching import Batch
from translate.distributed.group import Group
from translate.errors import ConfigError, DataError
from translate.evaluation.validation import Validator
from translate.optimization.update import Update
from translate.pipeline import train_together
from translate.system.interrupt import Interrupted
from translate.system.storage import write_tensors
from translate.training.trainer import Trainer


def do_run(
    group: Group,
    config: Path,
    overrides: list[str],
    own: list[list[str]] | None = None,
    resume: bool = False,
    stop: Any = None,
    fail: int | None = None,
    room: Any = None,
) -> None:
    """A training, for which each process may have overrides of its `own`.

    Where that is asked for, a signal stops it before the update [1] of process [0].
    Or the validation with the number `fail` runs out of memory. Or process [0] has `room` for [1] tokens at a time.
    """
    overrides = [*overrides, *(own[group.rank] if own else [])]
    with pytest.MonkeyPatch.context() as patch:
        if room is not None and room[0] == group.rank:
            patch.setattr(Update, "accumulate", with_room_for(room[1]))
        if fail is not None:
            at_call(patch, Validator, "__call__", fail, out_of_memory)
            with pytest.raises(DataError, match="The run is saved"):
                train_together(load_config(config, overrides), processes=group)
            return
        if stop is not None and stop[0] == group.rank:
            at_call(patch, Trainer, "_update", stop[1], sigterm)
        try:
            train_together(load_config(config, overrides), resume=resume, processes=group)
            received = None
        except Interrupted as interruption:
            received = interruption.signal_number
    assert received == (None if stop is None else signal.SIGTERM)  # in every process


def do_refused(group: Group, config: Path, overrides: list[str], own: list[list[str]], folder: str) -> None:
    """A training that each process refuses; why goes into a file."""
    with pytest.raises(ConfigError) as refusal:
        train_together(load_config(config, [*overrides, *own[group.rank]]), processes=group)
    Path(folder, f"refusal-{group.rank}").write_text(str(refusal.value), encoding="utf-8")


def with_room_for(most: int) -> Callable[..., Tensor]:
    """Update.accumulate, which runs out of memory if a batch has more tokens than that, with padding."""
    accumulate = Update.accumulate

    def limited(self: Update, batch: Batch, share: float, *, last: bool) -> Tensor:
        if batch.source_BS.numel() + batch.target_BT.numel() > most:
            raise MemoryError
        return accumulate(self, batch, share, last=last)

    return limited


def out_of_memory() -> NoReturn:
    raise DataError("out of memory")


def do_gradients(group: Group, config: Path, overrides: list[str], updates: Any, folder: str) -> None:
    """The gradients of some updates, each in a file."""
    trainer = trainer_of(load_config(config, overrides), group)
    for number, update in enumerate(updates):
        found = gradients(trainer, [np.array(batch) for batch in update])
        if group.rank == 0:
            write_tensors(Path(folder) / f"{number}.safetensors", found, {})


if __name__ == "__main__":
    torch.set_num_threads(1)
    jobs = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    group = Group.of_environment()
    os.environ["TQDM_DISABLE"] = "1"
    with group:
        for kind, job in jobs:
            do = {"run": do_run, "refused": do_refused, "gradients": do_gradients}[kind]
            do(group, Path(sys.argv[1]), **job)
    group.await_last_message()
