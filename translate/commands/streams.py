"""Input and output of translate.py: lines from arguments, a file or standard input; translations to standard output, or
to a file that appears once it is complete."""

import argparse
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, TextIO, cast

from translate.errors import ConfigError, DataError
from translate.system.paths import exists, resolved

if TYPE_CHECKING:
    from io import BufferedReader

    import torch

    from translate.data.lines import Text

# Lines translated together, and their characters: sorted by length, they make full batches, which are larger on a GPU.
# What is complete is written, so that with long lines, which take long, less is lost when the program is stopped.
CHUNK, CHARACTERS, TIMES_ON_GPU = 1000, 100_000, 4
BLOCK = 1 << 16  # bytes of standard input, at most, at a time
REPORT_EVERY = 30.0  # seconds between messages about the lines done, where no bar can show them

log = logging.getLogger("translate")


def source_text(args: argparse.Namespace) -> "Text | None":
    """The lines to translate, from arguments or a file; None if they come from standard input.

    ConfigError if both are given; DataError if any cannot be read.
    """
    if args.sentences and args.input:
        raise ConfigError("sentences and --input are both given; use one of them")
    if args.sentences:
        return argument_lines(args.sentences)
    return file_lines(args.input) if args.input else None


def file_lines(path: Path) -> "Text":
    """The lines of a file, not held in memory, but read once to count them. DataError if any cannot be read."""
    from translate.data.lines import FileText, read_blocks, read_lines, version_of

    if not (exists(path) and path.is_file()):  # such as a pipe, which can be read only once
        return read_lines(path)
    version = version_of(path)
    return FileText(path, sum(map(len, read_blocks(path))), version)


def source_lines(source: "Text | None", device: "torch.device") -> Iterator[list[str]]:
    """The lines to translate, as many at a time as suit the device; those of standard input as they arrive."""
    portion = Portion(1 if device.type == "cpu" else TIMES_ON_GPU)
    return standard_input(portion) if source is None else portions(source, portion)


class Portion:
    """Lines gathered until there are enough to translate together: `times` as many as suit a CPU."""

    def __init__(self, times: int) -> None:
        self._max_lines, self._max_characters = times * CHUNK, times * CHARACTERS
        self._lines: list[str] = []
        self._characters = 0

    def append(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line)

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def full(self) -> bool:
        return len(self._lines) >= self._max_lines or self._characters >= self._max_characters

    def take(self) -> list[str]:
        """The lines, which are gone from here afterwards."""
        lines, self._lines, self._characters = self._lines, [], 0
        return lines


def portions(source: Iterable[str], portion: Portion) -> Iterator[list[str]]:
    """All lines, gathered in `portion`."""
    for line in source:
        portion.append(line)
        if portion.full:
            yield portion.take()
    if portion:
        yield portion.take()


def argument_lines(sentences: Sequence[str]) -> list[str]:
    """The lines of the arguments. DataError names a sentence that is not UTF-8."""
    # Python has decoded the arguments by the locale, and in the C locale that is ASCII.
    texts = [_decode(os.fsencode(text), f"sentence {number}") for number, text in enumerate(sentences, start=1)]
    # A line feed at the end of a sentence ends its line, as in a file, and begins no other.
    return [line.removesuffix("\r") for text in texts for line in text.removesuffix("\n").split("\n")]


def standard_input(portion: Portion) -> Iterator[list[str]]:
    """The lines of standard input as they arrive, gathered in `portion`.

    Whoever writes them one by one gets each translation at once.

    DataError names a line that is not UTF-8, or has no end; those before it come first.
    """
    from translate.data.lines import MAX_LINE_BYTES

    if sys.stdin is None:  # It was closed before we began.
        return
    stream = cast("BufferedReader", sys.stdin.buffer)
    begun = bytearray()  # what has arrived of the current line
    number = 0
    try:
        while block := read_some(stream):
            first, *others = block.split(b"\n")
            begun += first
            for content in others:
                number += 1
                portion.append(line_of(bytes(begun), number))
                begun = bytearray(content)
                if portion.full:
                    yield portion.take()
            if len(begun) > MAX_LINE_BYTES:
                place, limit = f"standard input, line {number + 1}", MAX_LINE_BYTES >> 20
                raise DataError(f"{place} has more than {limit} MiB; put a line feed after each sentence")
            if portion and not more_has_arrived(stream):
                yield portion.take()
        if begun:
            portion.append(line_of(bytes(begun), number + 1))
    except DataError:
        if portion:
            yield portion.take()
        raise
    if portion:
        yield portion.take()


def read_some(stream: "BufferedReader") -> bytes:
    """What has arrived on standard input, or else what comes next; nothing at its end. DataError if that fails."""
    try:
        wait_for_more(stream)
        return stream.read1(BLOCK)
    except OSError as error:
        raise DataError(f"standard input cannot be read: {error.strerror}; name a file: --input FILE") from error


def line_of(content: bytes, number: int) -> str:
    """A line of standard input. DataError if it is not UTF-8."""
    from translate.data.lines import looks_like

    kind = looks_like(content) if number == 1 else ""
    line = _decode(content.removesuffix(b"\r"), f"standard input, line {number}", kind)
    return line.removeprefix("\ufeff") if number == 1 else line


def wait_for_more(stream: "BufferedReader") -> None:
    """Wait until there is something to read, or an exception such as Ctrl-C; where `select` cannot, do not wait.

    A signal that arrives just before a read does not interrupt it: Python has looked for signals, and the operating
    system does not know yet that it has to wake anybody. With a descriptor that becomes readable, none is missed.
    """
    reading, writing = socket.socketpair()  # Not a pipe: before Python 3.12, Windows can make none that never blocks.
    with reading, writing:
        writing.setblocking(False)
        previous = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        try:
            with suppress(OSError, ValueError):
                while stream.fileno() not in select([stream.fileno(), reading.fileno()], [], [])[0]:
                    reading.recv(1)
        finally:
            signal.set_wakeup_fd(previous)


def more_has_arrived(stream: "BufferedReader") -> bool:
    """Whether the next read would not have to wait; False if that cannot be known, as on Windows."""
    try:
        return bool(select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def _decode(content: bytes, line: str, kind: str = "") -> str:
    """Decode UTF-8. DataError names the line and the byte of anything else, and the kind of file that it looks like."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        from translate.data.lines import TO_UTF8, not_utf8

        other, _, _ = kind.partition(":")
        remedy = (
            f"It looks like {other}: name the file with --input, or unpack it first."
            if other
            else f"Convert the text to UTF-8: {TO_UTF8}."
        )
        raise not_utf8(line, error, remedy) from None


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
