"""Training states (checkpoints): everything a run needs to continue as if it had never stopped.

Each file holds weights, optimizer state, random state and progress; the run's folder keeps the last few.
"""

import logging
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, optim

from translate.errors import CheckpointError
from translate.storage import read_tensors, tensor_files, write_tensors
from translate.training.parallel import ParallelModel
from translate.training.processes import Processes, seed_of
from translate.training.writer import Writer

FORMAT = "translate training state 2"
PATTERN = "step-*.safetensors"
log = logging.getLogger("translate")


class StateStore:
    """The newest training states in one folder. The `writer`, shared with other files, writes all of them in order.

    `format` tells these files from others that are stored in the same way.
    """

    def __init__(self, folder: Path, keep_last: int, writer: Writer, *, format: str = FORMAT) -> None:
        self.folder = folder
        self.keep_last = keep_last
        self.format = format
        self._writer = writer
        self._newest: tuple[int, Future[None]] | None = None

    def save(self, step: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Copy the state after `step` updates, write it while training continues, then remove all but the last few.

        Until its file is complete, the previous state is the newest. The copy takes as much memory as the state.

        Raises:
            CheckpointError: an earlier file could not be written.
        """

        def write(copies: Mapping[str, Tensor]) -> None:
            self._write(step, copies, values)

        self._newest = step, self._writer.later(str(self.folder), tensors, write)

    def reserve(self, tensors: dict[str, Tensor]) -> None:
        """Allocate the buffers into which `save` copies such tensors, in the background."""
        self._writer.reserve(str(self.folder), tensors)

    def unwritten(self) -> int | None:
        """The update after which the newest state was copied, if that state is not written yet."""
        return None if self._newest is None or self._newest[1].done() else self._newest[0]

    def wait(self) -> None:
        """Wait until everything is written. CheckpointError if that failed."""
        self._writer.wait()

    def _write(self, step: int, tensors: Mapping[str, Tensor], values: dict[str, Any]) -> None:
        path = self.folder / f"step-{step:08d}.safetensors"
        write_tensors(path, tensors, {"format": self.format, **values})
        others = [other for other in self.paths() if other != path]
        # Files of later updates are damaged: the run was resumed from an older state because of that.
        damaged = [other for other in others if other.name > path.name]
        for old in [*damaged, *others[len(damaged) + self.keep_last - 1 :]]:
            try:
                old.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s, which is no longer needed, cannot be removed: %s", old, error.strerror)
        for unfinished in self.folder.glob(f".{PATTERN}.*"):  # left by a process that was killed while writing
            shutil.rmtree(unfinished, ignore_errors=True)

    def load_newest(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The newest intact state; damaged ones are skipped, and named in the log.

        Raises:
            CheckpointError: there is none.
        """
        paths = self.paths()
        for path in paths:
            try:
                tensors, values = read_tensors(path)
                if values.get("format") != self.format:
                    raise CheckpointError(f"{path} is not a training state of this version")
                return tensors, values
            except CheckpointError as error:
                instead = "" if path == paths[-1] else "; using the previous training state instead"
                log.warning("%s%s", error, instead)
        raise CheckpointError(
            f"no usable training state in {self.folder}; start over with --overwrite, or elsewhere with output=…"
        )

    def paths(self) -> list[Path]:
        """The files, newest first."""
        return sorted((path for path in tensor_files(self.folder) if path.match(PATTERN)), reverse=True)


def pack(parallel: ParallelModel, optimizers: Sequence[optim.Optimizer], processes: Processes) -> dict[str, Tensor]:
    """Unsharded weights and optimizer state, and the random state of every process, as named tensors."""
    tensors = {f"model.{name}": tensor for name, tensor in parallel.weights().items()}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{key}": parallel.whole(value) for key, value in state.items()}
    for rank, state in enumerate(processes.gather_tensors(torch.get_rng_state())):
        tensors[_random("cpu", rank)] = state
    if _on_a_gpu(parallel):
        for rank, state in enumerate(processes.gather_tensors(torch.cuda.get_rng_state())):
            tensors[_random("cuda", rank)] = state
    return tensors


def unpack(
    tensors: dict[str, Tensor],
    parallel: ParallelModel,
    optimizers: Sequence[optim.Optimizer],
    processes: Processes,
    seed: tuple[int, int],
) -> None:
    """Restore what `pack` gathered, into a model and optimizers of the same settings.

    If the number of processes has changed, the saved random states do not fit: each process is seeded from `seed`.
    """
    parallel.load({name: tensors[f"model.{name}"] for name, _ in parallel.model.named_parameters()})
    for number, optimizer in enumerate(optimizers):
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for name in (name for name in tensors if name.startswith(f"optimizer.{number}.")):
            index, key = name.split(".")[2:]
            value, parameter = tensors[name], parameters[int(index)]
            # The optimizer's step count is a scalar; all other state has the shape of the parameter.
            state.setdefault(int(index), {})[key] = parallel.part_of(value, parameter) if value.ndim else value
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    if sum(name.startswith(_random("cpu", 0)) for name in tensors) != processes.count:
        torch.manual_seed(seed_of(*seed, processes.rank))
        return
    torch.set_rng_state(tensors[_random("cpu", processes.rank)])
    if _on_a_gpu(parallel):
        if _random("cuda", processes.rank) in tensors:
            torch.cuda.set_rng_state(tensors[_random("cuda", processes.rank)])
        else:  # The state is that of a CPU: do not draw the first numbers of the run again.
            torch.cuda.manual_seed(seed_of(*seed, processes.rank))


def _on_a_gpu(parallel: ParallelModel) -> bool:
    return next(parallel.model.parameters()).device.type == "cuda"


def _random(device: str, rank: int) -> str:
    return f"random.{device}.{rank}" if rank else f"random.{device}"
