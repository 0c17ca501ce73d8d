"""The archives of Multi30k that torchtext 0.12 and later downloads, read as if they were folders; nothing is unpacked.

A text in an archive is named by the path of the archive and its own base name: `training.tar.gz/train.de`.
"""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO

from translate.errors import DataError

ARCHIVES = ("training.tar.gz", "validation.tar.gz", "mmt16_task1_test.tar.gz")
MAX_BYTES = 1 << 24  # of an archive; to list what is in one, it has to be unpacked
# What a damaged or truncated archive raises.
DAMAGED: tuple[type[Exception], ...] = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)


def is_archive(path: Path) -> bool:
    """Whether a path is that of one of these archives; one that is far larger than Multi30k holds something else."""
    return path.name in ARCHIVES and path.is_file() and path.stat().st_size <= MAX_BYTES


def is_member(path: Path) -> bool:
    """Whether a path names a text in an archive."""
    return is_archive(path.parent)


def members_of(archive: Path) -> list[Path]:
    """The paths of the regular files in an archive, as far as it can be read."""
    found: list[Path] = []
    with suppress(OSError, *DAMAGED), tarfile.open(archive) as file:
        found.extend(archive / _base_name(member) for member in file if member.isfile())
    return found


def is_damaged(archive: Path) -> bool:
    """Whether it is one of these archives, but cannot be read to its end."""
    if not is_archive(archive):
        return False
    try:
        with tarfile.open(archive) as file:
            file.getmembers()
    except DAMAGED:
        return True
    except OSError:
        pass
    return False


@contextmanager
def opened_member(path: Path) -> Iterator[IO[bytes]]:
    """The first regular file of that base name in an archive.

    FileNotFoundError if there is none; DataError if the archive is damaged.
    """
    try:
        with tarfile.open(path.parent) as archive:
            for member in archive:
                if member.isfile() and _base_name(member) == path.name:
                    content = archive.extractfile(member)
                    assert content is not None, "it is a regular file"
                    with content:
                        yield content
                    return
    except DAMAGED as error:
        raise DataError(f"{path.parent} is damaged or truncated ({error}). Get it again.") from None
    raise FileNotFoundError


def _base_name(member: tarfile.TarInfo) -> str:
    return PurePosixPath(member.name).name
