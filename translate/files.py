"""Files that are either complete or absent, and locks between processes."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of file systems that have none


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A file to fill, which is renamed to `path` once all of it is on disk; missing folders are created.

    It is in a folder of its own, so that the code that fills it may replace it with another file. If anything goes
    wrong, an earlier file at `path` is left as it was. OSError if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:  # Before the folder exists: Ctrl-C may come at any time, even within tempfile.TemporaryDirectory.
        folder.mkdir()
        file = folder / path.name
        file.touch()
        mode = file.stat().st_mode  # the user's default for new files
        yield file
        file.chmod(mode)
        with file.open("rb+") as written:
            os.fsync(written.fileno())
        file.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_open(path: Path) -> Iterator[BinaryIO]:
    """The same, opened for writing."""
    with atomic_file(path) as place, place.open("wb") as file:
        yield file


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file in one piece. OSError if that fails."""
    with atomic_open(path) as file:
        file.write(content)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, which is created and stays; False if another process holds it.

    Some file systems have no locks: there it is as if there were no other process. OSError if the file cannot be
    opened, as when it belongs to another user.
    """
    lock = FileLock(path, timeout=0)
    try:
        _acquire(lock)
        alone = True
    except Timeout:
        alone = False
    try:
        yield alone
    finally:
        lock.release()


@contextmanager
def wait_for_lock(path: Path) -> Iterator[bool]:
    """Wait for other processes that are inside, by the lock of a file that is removed when none is.

    Because it is removed, two processes may rarely be inside together, and some file systems have no locks, where it
    yields False: only for work that may be done twice. OSError if the folder cannot be written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    _acquire(lock)
    try:
        yield lock.is_locked
    finally:
        with suppress(OSError):  # Windows removes no file that is open.
            path.unlink()
        lock.release()


def _acquire(lock: FileLock) -> None:
    try:
        lock.acquire()
    except NotImplementedError:
        pass
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
