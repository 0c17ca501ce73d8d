"""Files of training states (checkpoints): a run's folder keeps the last few; states.py says what is in them."""

import logging
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from translate.errors import CheckpointError
from translate.system.storage import read_tensors, tensor_files, write_tensors
from translate.training.writer import Writer

PATTERN = "step-*.safetensors"
log = logging.getLogger("translate")


class SavedState(NamedTuple):
    """What `States.save` has written, as it is read again: tensors by name, and plain values."""

    tensors: dict[str, Tensor]
    progress: dict[str, Any]
    identity: dict[str, Any]


class StateStore:
    """The newest training states in one folder. The `writer`, shared with other files, writes all of them in order."""

    format = "translate training state 2"  # tells these files from others that are stored in the same way

    def __init__(self, folder: Path, keep_last: int, writer: Writer) -> None:
        self.folder = folder
        self.keep_last = keep_last
        self.writer = writer
        self._kind = str(folder)  # what the writer calls these files
        self._newest: tuple[int, Future[None]] | None = None
        self._unusable: set[Path] = set()  # files that `load_newest` has skipped

    def save(self, step: int, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Copy the state after `step` updates, write it while training continues, then remove all but the last few.

        Until its file is complete, the previous state is the newest. The copy takes as much memory as the state.

        Raises:
            CheckpointError: an earlier file could not be written.
        """
        self._newest = step, self.writer.submit(self._kind, tensors, lambda copies: self._write(step, copies, values))

    def reserve(self, tensors: dict[str, Tensor]) -> None:
        """Allocate the buffers into which `save` copies such tensors, in the background."""
        self.writer.reserve(self._kind, tensors)

    def is_free(self, seconds: float) -> bool:
        """Whether `save` would copy a state at once, because no earlier one is being written; see Writer.is_free."""
        return self.writer.is_free(self._kind, seconds)

    def unwritten(self) -> int | None:
        """The update after which the newest state was copied, if that state is not written yet."""
        return None if self._newest is None or self._newest[1].done() else self._newest[0]

    def _write(self, step: int, tensors: Mapping[str, Tensor], values: dict[str, Any]) -> None:
        path = self.folder / f"step-{step:08d}.safetensors"
        write_tensors(path, tensors, {"format": self.format, **values})
        self._unusable.discard(path)
        # The run was resumed from a state before any later ones: they are damaged, or snapshots that no state knows of.
        earlier = [other for other in self.paths() if other.name < path.name and other not in self._unusable]
        kept = {path, *earlier[: self.keep_last - 1]}
        for old in self.paths():
            if old in kept:
                continue
            try:
                old.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s, which is no longer needed, cannot be removed: %s", old, error.strerror)
        for unfinished in self.folder.glob(f".{PATTERN}.*"):  # left by a process that was killed while writing
            shutil.rmtree(unfinished, ignore_errors=True)

    def load_newest(self) -> SavedState:
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
                return SavedState(tensors, values["progress"], values["identity"])
            except CheckpointError as error:
                self._unusable.add(path)
                instead = "" if path == paths[-1] else "; using the previous training state instead"
                log.warning("%s%s", error, instead)
        raise CheckpointError(
            f"no usable training state in {self.folder}; start over with --overwrite, or elsewhere with output=…"
        )

    def paths(self) -> list[Path]:
        """The files, newest first."""
        return sorted((path for path in tensor_files(self.folder) if path.match(PATTERN)), reverse=True)
