"""Lines to translate: from arguments, from a file, or from standard input as they arrive."""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, cast

from translate.errors import ConfigError, DataError
from translate.system.paths import exists

if TYPE_CHECKING:
    from io import BufferedReader

    import torch

    from translate.data.lines import Text

# Lines translated together, and their characters: sorted by length, they make full batches, which are larger on a GPU.
# What is complete is written, so that with long lines, which take long, less is lost when the program is stopped.
CHUNK = 1000
CHARACTERS = 100_000
TIMES_ON_GPU = 4
BLOCK = 1 << 16  # bytes of standard input, at most, at a time


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
