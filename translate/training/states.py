"""The training states of one run: everything that it needs to continue as if it had never stopped.

These are weights, optimizer state, random state and progress, taken from a learner and given back. checkpoint.py writes
and reads their files; when one is due, the loop decides.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, optim

from translate.distributed.parallel import ParallelModel
from translate.distributed.processes import Processes, seed_of
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.progress import Progress

MAX_WAIT = 0.5  # seconds that training waits for the previous state to be written before it goes on


class States:
    """Saves and restores a learner. All processes take part; the first one writes.

    Every so many updates, a state is due. `save_soon` saves it, but if a slow disk is still writing the previous one,
    training goes on: `save_when_free` tries again after each of the next updates, and `save_if_due` after the last one
    of the run. `save` is for a state that may not be put off.

    Args:
        identity: plain values that identify settings and text; saved with each state, for a resume to compare.
    """

    def __init__(self, learner: Learner, store: StateStore, identity: dict[str, Any]) -> None:
        self.learner = learner
        self.store = store
        self.identity = identity
        self.saved_step = -1  # after which this process has saved the newest state
        self.is_due = False  # whether a state is still to be saved

    def restore(self, tensors: dict[str, Tensor], progress: Progress, seed: int) -> None:
        """Set the learner to what a state holds; `seed` is for random states of another number of processes."""
        learner = self.learner
        learner.progress = progress
        unpack(tensors, learner.parallel, learner.update.optimizers, learner.processes, (seed, progress.step))

    def reserve(self) -> None:
        """Allocate what copies of the state need, once the first update has created the optimizers' state."""
        tensors = self._tensors()
        self.learner.processes.on_first(lambda: self.store.reserve(tensors))

    def save(self) -> None:
        """Copy the state as it is now; it is written while training continues."""
        progress = self.learner.progress
        progress.log_bytes = self.learner.metrics.sync()
        values = {"progress": progress.to_dict(), "identity": self.identity}
        tensors = self._tensors()
        self.learner.processes.on_first(lambda: self.store.save(progress.step, tensors, values))
        self.saved_step = progress.step
        self.is_due = False

    def save_soon(self) -> None:
        """A state is due: save it now, or after a later update if the previous one is not written within a moment."""
        seconds = 0.0 if self.is_due else MAX_WAIT  # Training has waited once already.
        self.is_due = True
        self.save_when_free(seconds)

    def save_when_free(self, seconds: float = 0.0) -> None:
        """If a state is due, save it as it is now, unless the previous one is still being written."""
        if self.is_due and self.learner.processes.on_first(lambda: self.store.is_free(seconds)):
            self.save()

    def save_if_due(self) -> None:
        """If a state is due, save it even if that has to wait for the previous one."""
        if self.is_due:
            self.save()

    def save_before_stopping(self) -> None:
        """Save a run that is stopped, unless an earlier state is still being written, and wait until that is done."""
        step = self.learner.progress.step
        unwritten = self.learner.processes.on_first(self.store.unwritten)
        if unwritten is None:
            if self.saved_step < step:  # An abandoned update leaves nothing new.
                self.save()
        elif unwritten < step:
            # Writing another one after it would take as long again, and whoever stops the run may not wait for that.
            self.learner.bar.say(
                f"the training state after update {unwritten} was still being written and is kept as the last one; "
                f"updates to repeat when resuming: {step - unwritten}"
            )
        self.wait()

    def check(self) -> None:
        """CheckpointError, in the process that writes, if a file could not be written."""
        self.store.writer.check()

    def wait(self) -> None:
        """Wait until everything is written. CheckpointError if that failed."""
        self.learner.processes.on_first(self.store.writer.wait)

    def _tensors(self) -> dict[str, Tensor]:
        return pack(self.learner.parallel, self.learner.update.optimizers, self.learner.processes)


def pack(parallel: ParallelModel, optimizers: Sequence[optim.Optimizer], processes: Processes) -> dict[str, Tensor]:
    """Unsharded weights and optimizer state, and the random state of every process, as named tensors."""
    tensors = {f"model.{name}": tensor for name, tensor in parallel.weights().items()}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{key}": parallel.unsharded(value) for key, value in state.items()}
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
            own = parallel.shard_of(value, parameter) if value.ndim else value
            # The optimizer keeps what it is given. Without a copy, that would be a map of the file, which Windows does
            # not remove meanwhile, and whose room on the disk is not free until the run ends.
            state.setdefault(int(index), {})[key] = own.clone()
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
