"""The training states of one run: taken from its learner and given back; checkpoint.py has their files.

When one is due, the loop decides.
"""

from typing import Any

from torch import Tensor

from translate.training.checkpoint import StateStore, pack, unpack
from translate.training.learner import Learner
from translate.training.progress import Progress


class States:
    """Saves and restores a learner. All processes take part; the first one writes.

    Args:
        identity: plain values that identify settings and text; saved with each state, for a resume to compare.
    """

    def __init__(self, learner: Learner, store: StateStore, identity: dict[str, Any]) -> None:
        self.learner = learner
        self.store = store
        self.identity = identity
        self.saved_step = -1  # after which this process has saved the newest state

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

    def save_at_the_end(self) -> None:
        """Save a run that stops, unless an earlier state is still being written, and wait until that is done."""
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

    def wait(self) -> None:
        """Wait until everything is written. CheckpointError if that failed."""
        self.learner.processes.on_first(self.store.wait)

    def _tensors(self) -> dict[str, Tensor]:
        return pack(self.learner.parallel, self.learner.update.optimizers, self.learner.processes)
