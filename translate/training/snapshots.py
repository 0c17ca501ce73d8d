"""Checkpoint averaging: the weights at the last validations, and their mean (Vaswani et al., 2017, section 6.1)."""

import logging
from pathlib import Path

from torch import Tensor, nn

from translate.errors import CheckpointError
from translate.system.files import writing
from translate.system.storage import read_tensors
from translate.training.checkpoint import StateStore
from translate.training.writer import Writer

log = logging.getLogger("translate")


class Snapshots(StateStore):
    """The newest states that are a model's weights alone, in one folder, which is created.

    Raises:
        CheckpointError: it cannot be created.
    """

    format = "translate snapshot 1"

    def __init__(self, folder: Path, keep_last: int, writer: Writer) -> None:
        with writing(f"to {folder}", CheckpointError, "choose another folder: output=…"):
            folder.mkdir(exist_ok=True)
        super().__init__(folder, keep_last, writer)

    def add(self, step: int, model: nn.Module) -> None:
        """Keep the weights after `step` updates; like training states, they are written in the background."""
        self.save(step, dict(model.named_parameters()), {})

    def mean(self) -> tuple[int, dict[str, Tensor]]:
        """How many snapshots there are, and the mean of every parameter over them.

        Damaged ones are skipped, and named in the log.

        Raises:
            CheckpointError: a snapshot could not be written.
        """
        self.writer.wait()
        total: dict[str, Tensor] = {}
        count = 0
        for path in self.paths():
            try:
                weights, _ = read_tensors(path)
            except CheckpointError as error:
                log.warning("%s; the average is computed without it", error)
                continue
            count += 1
            if count == 1:
                total = weights
            else:
                for name, weight in weights.items():
                    total[name] += weight
        return count, {name: tensor / count for name, tensor in total.items()}
