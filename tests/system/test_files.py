"""Locks that keep processes apart, also where the file system has none. Files written whole: test_storage.py."""

import errno
import fcntl
import os
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from filelock import FileLock

from translate.errors import CheckpointError
from translate.runs.folder import RunFolder
from translate.system import files
from translate.system.files import atomic_file, try_lock, wait_for_lock


def test_a_name_that_is_too_long_is_noticed_before_there_is_anything_to_write(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"), atomic_file(tmp_path / ("x" * 256)):
        pytest.fail("the work has begun")


def test_one_at_a_time(tmp_path: Path) -> None:
    with try_lock(tmp_path / "lock") as alone, try_lock(tmp_path / "lock") as other:
        assert alone
        assert not other
    with try_lock(tmp_path / "lock") as alone:
        assert alone


def test_nothing_is_left_when_nobody_is_inside(tmp_path: Path) -> None:
    for _ in range(2):
        with wait_for_lock(tmp_path / "new/lock", "writing"):
            assert (tmp_path / "new/lock").exists()
        assert not list((tmp_path / "new").iterdir())


def test_where_open_files_cannot_be_removed_the_lock_is_free_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, missing_ok: bool = False) -> None:  # as Windows does
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", refuse)
    with wait_for_lock(tmp_path / "lock", "writing") as alone:
        assert alone
    with try_lock(tmp_path / "lock") as alone:
        assert alone


def test_waiting_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    path = tmp_path / "lock"

    def wait() -> None:
        with wait_for_lock(path, "encoding train"):
            pass

    waiting = threading.Thread(target=wait)
    with wait_for_lock(path, "encoding train"):
        waiting.start()
        while not caplog.messages:
            waiting.join(0.01)
            assert waiting.is_alive()
    waiting.join()
    assert caplog.messages == ["waiting for another process, which is encoding train"]


def test_other_users_of_the_folder_can_wait(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        with wait_for_lock(tmp_path / "lock", "encoding train"):
            assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(umask)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_file_systems_without_locks_do_without(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / "other").touch()  # left by a process that was killed
    with wait_for_lock(tmp_path / "lock", "writing") as locked, try_lock(tmp_path / "other") as alone:
        assert not locked
        assert alone
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_the_lock_of_another_user_is_no_missing_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: FileLock, timeout: float) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with pytest.raises(PermissionError), try_lock(tmp_path / "lock"):
        pass
    with (
        pytest.raises(CheckpointError, match=r"cannot write to .*: Permission denied; choose another folder"),
        RunFolder(tmp_path).exclusive(),
    ):
        pass


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError), wait_for_lock(tmp_path / "file/new/lock", "writing"):
        pass


@pytest.mark.parametrize("held", [True, False])
def test_a_signal_at_a_lock_removes_no_file_but_that_of_its_own_lock(
    held: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = files._acquire

    def interrupted(lock: FileLock) -> None:
        if not held:
            acquire(lock)
        raise SystemExit

    with wait_for_lock(tmp_path / "lock", "writing") if held else nullcontext():
        monkeypatch.setattr(files, "_acquire", interrupted)
        with pytest.raises(SystemExit), wait_for_lock(tmp_path / "lock", "writing"):
            pass
        assert (tmp_path / "lock").exists() == held
    assert list(tmp_path.iterdir()) == []
