"""Files that are either whole or not there, and locks that keep processes apart."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what file systems answer that have none


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A file to fill that gets the name `path` once all of it has reached the disk; its folders are made.

    It stands in a folder of its own, so that whatever fills it may put another file in its place. Whatever goes wrong,
    a file that stood at `path` before still does. OSError where it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:  # Before the folder is there: Ctrl-C may come at any time, also within tempfile.TemporaryDirectory.
        folder.mkdir()
        file = folder / path.name
        file.touch()
        mode = file.stat().st_mode  # as the user wants new files to be
        yield file
        file.chmod(mode)
        with file.open("rb+") as written:
            os.fsync(written.fileno())
        file.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """The same, open to be written to."""
    with unfinished(path) as place, place.open("wb") as file:
        yield file


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one piece. OSError where that is not possible."""
    with written_whole(path) as file:
        file.write(content)


@contextmanager
def locked_at_once(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, which is made and stays; False where another process holds it.

    Some file systems know no locks: there it is as if no other process were there. OSError where the file cannot be
    opened, as that of another user.
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
def in_turn(path: Path) -> Iterator[None]:
    """Wait for other processes that are inside, by the lock of a file that is gone when nobody is.

    Because it is taken away, two may once be inside together, and some file systems know no locks: for what does no
    harm when it is done twice. OSError where the folder cannot be written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    _acquire(lock)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


def _acquire(lock: FileLock) -> None:
    try:
        lock.acquire()
    except NotImplementedError:
        pass
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
