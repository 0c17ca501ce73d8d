"""Text files as streams of lines: plain, .gz or .zst, in UTF-8. Only a block of a file is in memory at a time."""

import gzip
import io
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Protocol

from translate.data.archives import is_member, opened_member
from translate.errors import DataError

PACKED = (".gz", ".zst")  # endings, in the order in which files are looked for
BLOCK = 1 << 20  # bytes of text
TO_UTF8 = "iconv -f ENCODING -t utf8, where ENCODING is what it is now, such as latin1, cp1251 or shift_jis"
# Bytes of a line after those of a block. A file of a few MB, packed, may hold a line that no memory has room for.
MAX_LINE_BYTES = 1 << 24
# File signatures: what files that are not UTF-8 begin with, and what to do with them.
SIGNATURES = {
    b"\x1f\x8b": "gzip: rename it to end in .gz or, if it was compressed twice, unpack it once",
    b"\x28\xb5\x2f\xfd": "Zstandard: rename it to end in .zst or, if it was compressed twice, unpack it once",
    b"\xfd7zXZ": "an xz archive: unpack it",
    b"BZh": "a bzip2 archive: unpack it",
    b"PK\x03\x04": "a zip archive: unpack it",
    b"\xff\xfe\0\0": "UTF-32: save it as UTF-8",
    b"\xff\xfe": "UTF-16: save it as UTF-8",
    b"\xfe\xff": "UTF-16: save it as UTF-8",
}


class Text(Protocol):
    """Lines that can be counted, and read as often as needed: a list, or files."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True)
class FileText:
    """The first `lines` lines of a file, read anew in each iteration.

    `version` is what `version_of` returned when they were counted and hashed. If it differs after reading: DataError,
    so that no other text passes under this one's digest.
    """

    path: Path
    lines: int
    version: tuple[int, int]

    def __len__(self) -> int:
        return self.lines

    def __iter__(self) -> Iterator[str]:
        yield from islice(lines_of(self.path), self.lines)
        if version_of(self.path) != self.version:
            raise DataError(f"{self.path} changed while it was being read. Run the command again.")


@dataclass(frozen=True)
class JoinedText:
    """Texts one after the other."""

    texts: tuple[Text, ...]

    def __len__(self) -> int:
        return sum(map(len, self.texts))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.texts)


@dataclass(frozen=True)
class Column:
    """What `part` takes from each row of a table."""

    rows: Text
    part: Callable[[str], str]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return map(self.part, self.rows)


def version_of(path: Path) -> tuple[int, int]:
    """When a file was last modified, in ns, and its size in bytes: they tell whether it has changed since.

    DataError if it is missing or out of reach, or can be read only once.
    """
    with _explained(path):
        state = (path.parent if is_member(path) else path).stat()
    if stat.S_ISFIFO(state.st_mode) or stat.S_ISCHR(state.st_mode):
        raise DataError(f"{path} is a pipe or a device, which can be read only once. Save it as a file.")
    return state.st_mtime_ns, state.st_size


def read_lines(path: Path) -> list[str]:
    """All lines of a file; see read_blocks."""
    return list(lines_of(path))


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, one by one; see read_blocks."""
    return chain.from_iterable(read_blocks(path))


def read_blocks(path: Path) -> Iterator[list[str]]:
    """The lines of a UTF-8 text, plain, .gz or .zst, without their ends, in lists of some thousands.

    Only a line feed ends a line, and takes one carriage return before it with it, as does the end of the file; other
    separators, such as U+2028, are part of the sentence.

    Raises:
        DataError: the file is missing, unreadable, a folder, damaged or not UTF-8, a line has no end, or the library
            for .zst is missing.
    """
    before = 0
    with _explained(path), _opened(path) as file:
        while content := file.read(BLOCK):
            if not content.endswith(b"\n"):
                content += (rest := file.readline(MAX_LINE_BYTES))
                if len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
                    raise _too_long(path, before, content)
            if not before and content[257:263] in (b"ustar\0", b"ustar "):
                raise DataError(f"{path} is a tar archive. Unpack it, and name the file that was in it.")
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _block_not_utf8(path, before, error) from None
            if not before:
                _refuse_odd(path, text)
            lines = (text if before else text.removeprefix("\ufeff")).split("\n")
            if not lines[-1]:
                lines.pop()
            yield [line.removesuffix("\r") for line in lines] if "\r" in text else lines
            before += len(lines)


def without_blank_end(lines: Iterable[str]) -> Iterator[str]:
    """All lines but the blank ones at the end."""
    blank: list[str] = []
    for line in lines:
        blank.append(line)
        if line.strip():
            yield from blank
            blank.clear()


def looks_like(content: bytes) -> str:
    """The kind of file that begins like this, with what to do with it, by the SIGNATURES; empty if none fits."""
    return next((kind for signature, kind in SIGNATURES.items() if content.startswith(signature)), "")


def not_utf8(line: str, error: UnicodeDecodeError, remedy: str) -> DataError:
    """The error where a line, alone or among others that were decoded with it, is not UTF-8."""
    content, start = error.object, error.start
    byte = start - content.rfind(b"\n", 0, start)
    return DataError(f"{line}, byte {byte}: {content[start]:#04x} is not UTF-8 ({error.reason}). {remedy}")


def _block_not_utf8(path: Path, before: int, error: UnicodeDecodeError) -> DataError:
    """The error where a block of a file, with so many lines `before` it, is not UTF-8."""
    line = before + error.object.count(b"\n", 0, error.start) + 1
    kind = "" if before else looks_like(error.object)
    remedy = f"It looks like {kind}." if kind else f"Save the file as UTF-8: {TO_UTF8}."
    return not_utf8(f"{path}, line {line}", error, remedy)


def _too_long(path: Path, before: int, content: bytes) -> DataError:
    """The error where a block, with so many lines `before` it, begins a line that is longer than any of text."""
    if not before:
        _refuse_odd(path, content.decode("utf-8", errors="replace"))
    line = before + content.count(b"\n") + 1
    limit = MAX_LINE_BYTES >> 20
    return DataError(f"{path}, line {line} has more than {limit} MiB. A text needs one sentence per line.")


def _refuse_odd(path: Path, text: str) -> None:
    """DataError if the beginning of a file is valid UTF-8, but is no text in lines."""
    if text.count("\0") * 3 > len(text):
        raise DataError(f"{path}: a third or more of its characters are NUL. It looks like UTF-16: save it as UTF-8.")
    if "\n" not in text and text.count("\r") >= 10:
        raise DataError(f"{path} ends its lines with carriage returns (CR) only. Save it with line feeds (LF).")


def excerpt(line: str) -> str:
    """A line, or its beginning, in quotes, for messages."""
    return repr(line if len(line) <= 80 else f"{line[:79]}…")


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    if is_member(path):
        return opened_member(path)
    unpacked: Any
    match path.suffix:
        case ".gz":
            unpacked = gzip.GzipFile(path)
        case ".zst":
            unpacked = _zstd().ZstdFile(path)
        case _:
            return path.open("rb")
    return io.BufferedReader(unpacked)  # It finds lines in C, which GzipFile does in Python.


def _zstd() -> Any:
    """The library that Python has from 3.14 on, or the same one for older versions."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        try:
            from backports import zstd
        except ModuleNotFoundError as error:
            raise DataError("reading .zst needs the package 'backports.zstd': pip install backports.zstd") from error
    return zstd


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a file, as a DataError."""
    kind, errors = "gzip", (EOFError, zlib.error)
    if path.suffix == ".zst":
        kind, errors = "Zstandard", (EOFError, _zstd().ZstdError)
    try:
        yield
    except FileNotFoundError:
        plain = path.with_suffix("") if path.suffix in PACKED else path
        near = [file for ending in ("", *PACKED) if (file := Path(f"{plain}{ending}")).is_file()]
        remedy = f"Did you mean {near[0]}?" if near else "Check the path."
        raise DataError(f"{path} does not exist. {remedy}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder. Name a file.") from None
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{path} is not a valid gzip file ({error}). Get it again, or rename it if it is plain text."
        ) from None
    except errors as error:
        raise DataError(
            f"{path} is a damaged or truncated {kind} file ({error}). Get it again, or rename it if it is plain text."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
