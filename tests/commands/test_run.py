"""What all commands share: what is no mistake of the user's stays an error with a traceback."""

import errno
import os

import pytest
from tiny_project import own_logging

from translate.commands.run import run


def test_only_a_full_disk_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("translate.commands.run.drop_output", lambda: None)

    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    with own_logging():
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            run(lambda: fail(errno.EIO), said.append)
        assert said == []
        assert run(lambda: fail(errno.ENOSPC), said.append) == 2
    assert said == ["error: the disk is full"]
