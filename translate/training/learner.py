"""What the parts of training share: the model, its optimizers and progress, and the run's processes, log and display.

trainer.py trains the model, model_selection.py measures it, states.py saves it, and micro_batches.py makes its batches
fit into memory.
"""

import torch

from translate.config.training import TrainingConfig
from translate.distributed.parallel import build_parallel
from translate.distributed.processes import Processes
from translate.model.build import Model
from translate.optimization.build import build_update
from translate.optimization.recompute import recompute_blocks
from translate.system.allocation import explained_lack_of_memory
from translate.system.interrupt import InterruptGuard
from translate.training.abandon import let_blocks_check
from translate.training.memory import LastingMemory, human_size, lasting_memory, remedies
from translate.training.progress import Progress, total_steps
from translate.training.tracking import Bar, MetricsLog, NoBar, NoMetrics


class Learner:
    """One model in training, with its optimizers and progress, and the processes, log and display of the run.

    All processes take the same steps and make the same decisions. Only the first validates and writes; the metrics log
    and bar of the others write nothing.
    """

    def __init__(
        self,
        model: Model,
        config: TrainingConfig,
        device: torch.device,
        dtype: torch.dtype,
        processes: Processes,
        *,
        updates_per_epoch: int,
    ) -> None:
        self.model = model
        self.config = config
        self.device = device
        self.processes = processes
        self.updates_per_epoch = updates_per_epoch
        self.largest_alone: int | None = None  # see `remedies`; unknown before the first pass
        with explained_lack_of_memory(lambda: f"before training; {self.remedies()}"):
            self.parallel = build_parallel(config.parallel, model, processes)
        if config.activation_checkpointing:
            recompute_blocks(model)
        self.guard = InterruptGuard()  # opened by whoever calls `Trainer.train`
        if processes.count == 1 and device.type == "cpu":  # Several would have to agree; updates on a GPU are short.
            let_blocks_check(model, self.guard.check_if_late)
        self.total_steps = total_steps(config, updates_per_epoch)
        self.update = build_update(self.parallel, config, device, dtype, updates=self.total_steps)
        self.progress = Progress()
        self.metrics: MetricsLog = NoMetrics()  # until `Trainer.train` is given the log and the bar of the run
        self.bar: Bar = NoBar()

    def epochs_done(self) -> float:
        """The number of epochs so far, with the part done of the current one."""
        return self.progress.epoch + self.progress.position / self.updates_per_epoch

    @property
    def sharing(self) -> int:
        """How many processes share the memory of the device."""
        return self.processes.local_count if self.device.type == "cpu" else 1

    def lasting_memory(self) -> LastingMemory:
        """What training takes however small the batches are."""
        return lasting_memory(self.model, self.update.optimizers, self.config, self.device, self.update.workers)

    def remedies(self) -> str:
        """Advice for when memory runs out."""
        return remedies(self.config, self.sharing, self.largest_alone)

    def all_remedies(self) -> str:
        """The same, and how much memory is taken however small the batch is, which a smaller model lowers."""
        lasting = self.lasting_memory()
        *names, last = (name for name, number in lasting.parts.items() if number)
        return (
            f"{self.remedies()}; {', '.join(names)} and {last} alone take "
            f"{human_size(sum(lasting.parts.values()))}, which a smaller model.d_model, model.ffn or vocabulary lowers"
        )
