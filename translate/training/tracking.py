"""What a run reports: one JSON line per event in a file, and a progress bar for the person who waits."""

import errno
import json
import logging
import os
import sys
import time
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from translate.errors import CheckpointError
from translate.system.files import writing
from translate.system.terminal import printable
from translate.training.progress import for_json

log = logging.getLogger("translate")


class MetricsLog:
    """A file of JSON lines. Repeated runs write the same rows, except for what depends on the clock, under "timing"."""

    def __init__(self, path: Path, keep_bytes: int = 0) -> None:
        """Open for writing, and keep the first `keep_bytes`: what was written before the state that is resumed.

        If the file lacks rows, as after a power failure, an incomplete row at its end is dropped, too.
        """
        remedy = "move the folder of the run (output=…), and continue with --resume"
        self._writing = partial(writing, path, CheckpointError, remedy)
        with writing(path, CheckpointError, "choose another folder: output=…"):
            self._file = path.open("ab", buffering=0)
            kept = path.read_bytes()[:keep_bytes]
            if len(kept) < keep_bytes:
                log.warning("%s has lost rows that the run had written", path)
            self._file.truncate(kept.rfind(b"\n") + 1)
            self._file.seek(0, os.SEEK_END)  # Otherwise `tell` returns the old end until a row is written.

    def write(self, kind: str, values: dict[str, Any], timing: dict[str, float]) -> None:
        """Append one row, and hand it to the operating system at once. CheckpointError if that fails."""
        rounded = {name: round(value, 3) for name, value in timing.items()}
        row = json.dumps({"kind": kind, **for_json(values), "timing": rounded}, ensure_ascii=False).encode() + b"\n"
        with self._writing():
            if self._file.write(row) < len(row):  # A partial write: the disk is full.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> int:
        """Make sure that all rows are on disk; returns the bytes written so far. CheckpointError if that fails."""
        with self._writing():
            os.fsync(self._file)
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class NoMetrics(MetricsLog):
    """The log of all processes but the first: nothing is written."""

    def __init__(self) -> None:
        pass

    def write(self, kind: str, values: dict[str, Any], timing: dict[str, float]) -> None:
        pass

    def sync(self) -> int:
        return 0

    def close(self) -> None:
        pass


class Bar:
    """tqdm's bar over the updates of a run on standard error, followed by the newest figures.

    It is shown only on a terminal. Elsewhere, as in a log file, the figures are printed as lines. Training goes on if
    they cannot be written, because the disk is full, the reader of a pipe has ended, or the terminal is gone.
    """

    def __init__(self, total: int, done: int) -> None:
        self._total, self._before, self._done = total, done, done
        self._started = time.monotonic()
        # To tqdm, None means: disabled where there is no terminal.
        self._bar = tqdm(total=total, initial=done, unit=" updates", dynamic_ncols=True, smoothing=0.05, disable=None)

    def advance(self) -> None:
        self._done += 1
        self._bar.update()

    def show(self, **figures: str) -> None:
        """Show the newest figures, by their names."""
        self._bar.set_postfix(figures)
        if self._bar.disable:  # The bar would also show these times.
            elapsed = time.monotonic() - self._started
            left = elapsed / max(1, self._done - self._before) * (self._total - self._done)
            figures |= {"elapsed": tqdm.format_interval(elapsed), "left": tqdm.format_interval(left)}
            self.say(f"update {self._done:,} of {self._total:,}: " + ", ".join(map(" ".join, figures.items())))

    def say(self, message: str) -> None:
        """Print lines above the bar."""
        with suppress(OSError):
            tqdm.write(printable(message), file=sys.stderr)

    def close(self) -> None:
        self._bar.close()


def log_above_the_bar() -> AbstractContextManager[None]:
    """Inside, what is logged appears above the bar, as what it says does."""
    return logging_redirect_tqdm()


class NoBar(Bar):
    """The bar of all processes but the first: nothing is shown."""

    def __init__(self) -> None:
        pass

    def advance(self) -> None:
        pass

    def show(self, **figures: str) -> None:
        pass

    def say(self, message: str) -> None:
        pass

    def close(self) -> None:
        pass
