"""The folder of a run, and the folders of all runs: where files are, and which model is the newest.

checkpoints/NAME/model.safetensors (the best model), config.yaml (resolved), metrics.jsonl, states/ (to resume from),
snapshots/ (weights to average, if that is asked for) and finished.json once the run is over.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from translate.config.schema import Config
from translate.errors import CheckpointError
from translate.evaluation.reports import read_report, translations_beside
from translate.system.files import atomic_write, try_lock, writing
from translate.system.paths import checkpoints, demo_corpus, exists, resolved
from translate.system.storage import read_tensors, tensor_files

WRITTEN = "# Written by training: all settings of this run.\n"  # the first line of its config.yaml


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @classmethod
    def of(cls, config: Config) -> "RunFolder":
        """The folder that a run by this config leaves its files in."""
        assert config.output is not None, "load_config fills it in"
        return cls(config.output)

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def states(self) -> Path:
        return self.path / "states"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def finished(self) -> Path:
        return self.path / "finished.json"

    def has_model_or_states(self) -> bool:
        """Whether a run has left a model or a state to resume from here. CheckpointError if that cannot be seen."""
        return exists(self.model) or self.has_states()

    def holds_a_run(self) -> bool:
        """Whether a run is here, or the rest of a finished one whose model and states have been moved away."""
        return self.has_model_or_states() or self.finished.is_file()

    def has_any_trace(self) -> bool:
        """Whether a run has left anything besides its config here."""
        return self.holds_a_run() or self.metrics.exists()

    def files_of_others(self) -> list[Path]:
        """Files that no run has written, but that a new run would replace or remove.

        If a run has written the config, or left a model, a state or finished.json, all files count as the run's own.
        CheckpointError if they cannot be read.
        """
        if self.holds_a_run():
            return []
        with self._writing():
            if self.config.is_file() and self.config.read_bytes().startswith(WRITTEN.encode()):
                return []
            files = (self.config, self.metrics, *self.snapshots.glob("*.safetensors"), *self._reports())
            return [file for file in files if file.is_file()]

    def has_states(self) -> bool:
        """Whether there is a state to resume from. CheckpointError if that cannot be seen."""
        return bool(tensor_files(self.states))

    def was_cut_off(self, config: str) -> bool:
        """Whether a run by this config ended before it wrote a state, as on a full disk; it may have left a model."""
        if self.has_states() or self.finished.exists():
            return False
        with suppress(OSError, ValueError):
            # Each validation is followed by a state. So after two of them, states have been removed, or, more rarely, a
            # slow disk was still writing the first one; then the user must say that the model may go.
            validations = self.metrics.read_bytes().count(b'"kind": "validation"') if self.metrics.exists() else 0
            return validations < 2 and self.config.read_text(encoding="utf-8") == WRITTEN + config
        return False

    def has_only_result(self, config: str) -> bool:
        """Whether a run by this config is finished, with its model intact and its states removed."""
        if self.has_states() or not self.finished.exists() or self.damage_of_model():
            return False
        with suppress(OSError, ValueError):
            return self.config.read_text(encoding="utf-8") == WRITTEN + config
        return False

    def damage_of_model(self) -> str | None:
        """What is wrong with the best model, if it is missing or damaged."""
        if not self.model.exists():
            return f"{self.model} is missing"
        try:
            read_tensors(self.model)
        except CheckpointError as error:
            return str(error)
        return None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock this folder for one training. CheckpointError if another one is using it, or it cannot be written to.

        The folder is created, and goes again if nothing was put into it, because the training has not begun.
        """
        is_new = not exists(self.path)
        self.make()
        with ExitStack() as stack:
            with self._writing():
                alone = stack.enter_context(try_lock(self.path / ".lock"))
            if not alone:
                raise CheckpointError(
                    f"another training run is using {self.path}; wait until it ends, or choose another folder: output=…"
                )
            try:
                yield
            finally:
                if is_new:
                    self._remove_if_empty()

    def _remove_if_empty(self) -> None:
        with suppress(OSError):
            if {path.name for path in self.path.iterdir()} <= {".lock", self.states.name}:
                self.states.rmdir()  # This fails if it holds a state, and then the rest stays, too.
                (self.path / ".lock").unlink()
                self.path.rmdir()

    def make(self) -> None:
        """Create the folders. CheckpointError if they cannot be created, or not be written to."""
        with self._writing():
            self.states.mkdir(parents=True, exist_ok=True)
            # To learn now if it fails: the first state may come after hours, and `begin` removes states first.
            for folder in (self.path, self.states):
                with TemporaryFile(dir=folder):
                    pass

    def begin(self, config: str) -> None:
        """Remove the files of an earlier run, with reports on its model, and nothing else; write this run's config.

        CheckpointError if that fails; the model goes last.
        """
        with self._writing():
            weights = [*tensor_files(self.states), *tensor_files(self.snapshots)]
            # The model last: nothing of it is lost if the others cannot be removed.
            for file in (*weights, *self._reports(), self.metrics, self.finished, self.model):
                file.unlink(missing_ok=True)
            self._tidy()
            self._write_config(config)

    def go_on(self, config: str) -> None:
        """Write the config with which a resumed run continues. CheckpointError if that fails.

        A finished run that is extended stays marked as over, so that its model is found, unless that is lost.
        """
        with self._writing():
            if self.finished.exists() and self.damage_of_model():
                self.finished.unlink(missing_ok=True)
            self._tidy()
            self._write_config(config)

    def _write_config(self, config: str) -> None:
        atomic_write(self.config, (WRITTEN + config).encode())

    def _tidy(self) -> None:
        """Remove temporary files left by a process that was killed while writing."""
        for file in (self.model, self.config, self.finished):
            for folder in self.path.glob(f".{file.name}.*/"):
                shutil.rmtree(folder, ignore_errors=True)

    def finished_after(self) -> int | None:
        """How many updates the run had made when it was over, if it ever was."""
        with suppress(OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
            return int(json.loads(self.finished.read_bytes())["updates"])
        return None

    def finish(self, summary: dict[str, Any]) -> None:
        """Mark the run as over. CheckpointError if that fails."""
        with self._writing():
            atomic_write(self.finished, json.dumps(summary, indent=2, ensure_ascii=False).encode())

    def _reports(self) -> Iterator[Path]:
        """What scripts/evaluate.py has written here about this run: reports, and the translations beside them."""
        for path in self.path.glob("*.json"):
            report = read_report(path)
            if report is not None and not self._is_about_others(report):
                yield from (path, translations_beside(path))

    def _is_about_others(self, report: dict[str, Any]) -> bool:
        """Whether a report is about models elsewhere. If they have gone, this run may have been moved here."""
        models = [Path(name) for name in report.get("checkpoints", ())]
        return resolved(self.model) not in models and any(map(exists, models))

    def _writing(self) -> AbstractContextManager[None]:
        return writing(f"to {self.path}", CheckpointError, "choose another folder: output=…")


def open_folder(config: Config, *, resume: bool, overwrite: bool) -> RunFolder:
    """Create the run's folder, or check that this run may use the one that is there.

    Raises:
        CheckpointError: it holds a run that is neither to be resumed nor overwritten, or somebody's own files.
    """
    run = RunFolder.of(config)
    run.make()
    if others := run.files_of_others():
        raise would_be_replaced(others[0])
    if run.holds_a_run() and not (resume or overwrite):
        resumed = "--resume continues it, " if run.has_states() else ""
        raise CheckpointError(
            f"{run.path} already holds a run; {resumed}--overwrite replaces it, output=… uses another folder"
        )
    return run


def would_be_replaced(file: Path) -> CheckpointError:
    """The error if a run would replace or remove a file that is not its own."""
    return CheckpointError(
        f"{file} would be overwritten or removed by the run; move it, or use another folder: output=…"
    )


def is_found(run: RunFolder) -> bool:
    """Whether the run is under checkpoints/, where `newest_model` looks."""
    folder = resolved(checkpoints())
    return folder in resolved(run.path).parents or folder == resolved(run.path.parent)  # the run may be a link there


def newest_model() -> Path:
    """The model of the run under checkpoints/, at any depth, that finished last. CheckpointError if there is none."""
    folder = checkpoints()
    files = {*folder.glob("*/finished.json"), *folder.rglob("finished.json")}  # rglob does not follow links to folders
    finished = [run for file in files if (run := RunFolder(file.parent)).model.is_file()]
    if not finished:
        train = (
            "python scripts/train.py --config configs/demo.yaml" if demo_corpus() else "translate-train --config FILE"
        )
        raise CheckpointError(
            f"no finished run under {folder}; train one with: {train}, or name a model file with --checkpoint FILE"
        )
    return max(finished, key=lambda run: (run.finished.stat().st_mtime_ns, run.path)).model
