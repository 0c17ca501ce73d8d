"""Where translations go: to standard output, or to a file that appears once it is complete; and how many are done."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TextIO

from translate.errors import DataError
from translate.system.paths import resolved

REPORT_EVERY = 30.0  # seconds between messages about the lines done, where no bar can show them

log = logging.getLogger("translate")


@contextmanager
def progress(*, shown: bool) -> Iterator[Callable[[int], object]]:
    """Counts the lines that it is told of, on standard error: below all messages or, without a terminal, now and then.

    Not shown with translations on standard output: those may be on the same terminal, or in a pager there.
    """
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    if shown and not sys.stderr.isatty():
        yield _LogOfLines().update
        return
    with logging_redirect_tqdm(), tqdm(unit=" lines", dynamic_ncols=True, disable=not shown) as bar:
        yield bar.update


class _LogOfLines:
    """Logs the number of lines every REPORT_EVERY seconds."""

    def __init__(self) -> None:
        self._lines, self._told = 0, time.monotonic()

    def update(self, lines: int) -> None:
        self._lines += lines
        if time.monotonic() - self._told > REPORT_EVERY:
            self._told = time.monotonic()
            log.info("lines done: %d", self._lines)


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears under its name once all is written. DataError if that fails.

    What was written before an error, or Ctrl-C, is kept under another name.
    """
    from translate.system.files import atomic_file, writing

    if path is None:
        yield sys.stdout
        return
    for stream in (sys.stdout, sys.stderr):
        if is_open_as(path, stream):  # such as /dev/stdout; a new file would replace what the stream has written
            yield stream
            return
    with writing(path, DataError, "name another file: --output FILE"):
        # What exists but is no file, such as /dev/null or a pipe, must not be replaced by one; a folder fails at once.
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="\n") as text:
                yield text
            return
        resolved(path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(resolved(path)) as place, place.open("w", encoding="utf-8", newline="\n") as text:
            try:
                yield text
                text.flush()
                os.fsync(text.fileno())  # Here, so that all is kept if the disk is full, or Ctrl-C comes meanwhile.
            except BaseException:
                keep_part(text, place, resolved(path))
                raise


def is_open_as(path: Path, stream: TextIO | None) -> bool:
    """Whether this stream reads or writes the file at `path`."""
    try:
        return stream is not None and os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    except (OSError, ValueError):  # There is no such file, or the stream has none.
        return False


def keep_part(text: TextIO, place: Path, path: Path) -> None:
    """Keep the lines finished before an error in a file beside the intended one, and say so."""
    from translate.system.files import shortened

    with suppress(OSError):  # If the disk is full, keep what is already on it.
        text.close()  # Windows renames no file that is open.
    lines = place.read_bytes()
    lines = lines[: lines.rfind(b"\n") + 1]
    if not lines:
        return
    os.truncate(place, len(lines))
    names = (path.with_name(f"{shortened(path.name)}.part{number}") for number in count(1))
    part = place.rename(next(name for name in names if not name.exists()))
    log.info("finished lines: %d, kept in %s", lines.count(b"\n"), part)
