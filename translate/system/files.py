"""Files that are either complete or absent, and locks between processes."""

import errno
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from translate.errors import DISK_FULL, TranslateError

log = logging.getLogger("translate")

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of file systems without locks

# The fallback to a file whose existence is the lock would keep everybody out after its process has been killed.
_file_lock = partial(FileLock, fallback_to_soft=False)


def shortened(name: str) -> str:
    """A file's name or, if it is about as long as systems allow (255 bytes), its beginning, with room for an ending."""
    return os.fsencode(name)[:240].decode("utf-8", "ignore")


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A file to fill, which is renamed to `path` once all of it is on disk, with the permissions of an earlier one.

    It is in a folder of its own, so that the code that fills it may replace it with another file. If anything goes
    wrong, an earlier file at `path` is left as it was. OSError if it cannot be written.
    """
    folder = path.parent / f".{shortened(path.name)}.{secrets.token_hex(4)}"
    # `try` begins before the folder exists: Ctrl-C may come at any time, after which tempfile.TemporaryDirectory could
    # leave its folder behind.
    try:
        folder.mkdir(0o700)  # The earlier file may be one that others must not read.
        file = folder / "new"  # Windows allows whole paths of 259 characters, and encoded text has names of 88.
        file.touch()
        mode = file.stat().st_mode  # the user's default for new files
        with suppress(FileNotFoundError):
            mode = path.stat().st_mode  # fails if the name is too long: better now than after hours of work
        yield file
        with file.open("rb+") as written:
            os.fsync(written.fileno())
        file.chmod(mode)
        file.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_open(path: Path) -> Iterator[BinaryIO]:
    """Like `atomic_file`, but opened for writing."""
    with atomic_file(path) as place, place.open("wb") as file:
        yield file


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file atomically. OSError if that fails."""
    with atomic_open(path) as file:
        file.write(content)


@contextmanager
def writing(place: Path | str, kind: type[TranslateError], remedy: str) -> Iterator[None]:
    """An OSError inside becomes an error of this kind: `cannot write PLACE: REASON; REMEDY`."""
    try:
        yield
    except OSError as error:
        room = "free some space, or " if error.errno in DISK_FULL else ""
        raise kind(f"cannot write {place}: {error.strerror}; {room}{remedy}") from error


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, which is created and stays; yields False if another process holds it.

    On file systems without locks, it always yields True. OSError if the file cannot be opened, as when it belongs to
    another user.
    """
    lock = _file_lock(path)
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
def wait_for_lock(path: Path, work: str) -> Iterator[bool]:
    """Wait until no other process is inside, by the lock of a file, which is removed on leaving.

    Only for work that may be done twice: because the file is removed, two processes may rarely be inside together, and
    on file systems without locks it does not wait, and yields False. `work` names for the log what the other process
    does. OSError if the folder cannot be written to.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _file_lock(path, mode=0o666)  # writable for other users, who have to wait, too
    inside = False
    try:
        try:
            _acquire(lock)
        except Timeout:
            log.info("waiting for another process, which is %s", work)
            _acquire(lock, timeout=-1)
        inside = True
        yield lock.is_locked
    finally:
        if inside or lock.is_locked:  # If a signal has ended the waiting, the file belongs to another process.
            with suppress(OSError):  # Windows removes no file that is open.
                path.unlink()
        lock.release()


def _acquire(lock: FileLock, timeout: float = 0) -> None:
    """Timeout if another process still holds the lock after this many seconds; with -1, it waits for ever."""
    try:
        lock.acquire(timeout)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
