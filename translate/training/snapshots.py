"""The weights at the last validations, and their mean (Vaswani et al., 2017, section 6.1)."""

from pathlib import Path

from torch import Tensor, nn

from translate.storage import read_tensors
from translate.training.checkpoint import StateStore
from translate.training.writer import Writer


class Snapshots:
    """The newest `last` snapshots of a model's weights in one folder."""

    def __init__(self, folder: Path, last: int, writer: Writer | None = None) -> None:
        self._store = StateStore(folder, last, writer)

    def add(self, step: int, model: nn.Module) -> None:
        """Keep the weights after `step` updates; written as training states are."""
        self._store.save(step, dict(model.named_parameters()), {})

    def mean(self) -> dict[str, Tensor]:
        """The mean of every parameter over the snapshots; none where there are fewer than two of them.

        Raises:
            CheckpointError: a snapshot could not be written, or is damaged.
        """
        self._store.wait()
        paths = self._store.paths()
        if len(paths) < 2:
            return {}
        total, _ = read_tensors(paths[0])
        for path in paths[1:]:
            for name, tensor in read_tensors(path)[0].items():
                total[name] += tensor
        return {name: tensor / len(paths) for name, tensor in total.items()}
