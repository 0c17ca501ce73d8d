"""What all commands share: what is no mistake of the user's stays an error with a traceback."""

import errno
import importlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from tiny_project import own_logging

from translate import commands
from translate.commands.run import BRIEF_BUSY_LOOP, leaving_in_order, run
from translate.training import interrupt
from translate.training.interrupt import ECHO, second_signal_ends

ROOT = Path(__file__).resolve().parents[2]
POSIX = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals on this system")


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
        assert run(lambda: fail(errno.EFBIG), said.append) == 2
    assert said == ["error: the disk is full", f"error: cannot write: {os.strerror(errno.EFBIG)}"]


@pytest.mark.parametrize("arguments", ["train --config configs/demo.yaml", "translate hallo", "evaluate"])
def test_a_python_without_the_packages(arguments: str) -> None:
    script, *others = arguments.split()
    # -S: without the folder of this environment in which packages are.
    command = [sys.executable, "-S", f"scripts/{script}.py", *others]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: the package '\w+' is not installed for .*; use the environment of .*\n", done.stderr)


def test_a_python_that_is_too_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    monkeypatch.setattr(sys, "version", "3.9.18 (main)")
    with pytest.raises(SystemExit) as stopped:
        importlib.reload(commands)
    assert stopped.value.code == 2
    assert f"error: Python 3.10 or later is needed, but {sys.executable} is 3.9.18; " in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_no_memory_outside_of_an_operation_of_pytorch(error: Exception) -> None:
    said: list[str] = []

    def fail() -> None:
        raise error

    with own_logging():
        assert run(fail, said.append) == 2
    assert said == [
        "error: memory is used up, or this user may have no more processes (ulimit -u); end others, or use a machine "
        "with more memory"
    ]


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_reader_that_has_left(error: type[OSError], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("translate.commands.run.drop_output", lambda: None)

    def write() -> None:
        raise error

    with own_logging():
        assert run(write, said.append) == 141
    assert said == []


def test_a_working_directory_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def gone() -> Path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    with own_logging(), monkeypatch.context() as patch:
        patch.setattr(Path, "cwd", gone)
        assert run(lambda: print(Path.cwd()), said.append) == 2
    assert said == ["error: the working directory no longer exists; change to another one"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_file_that_this_locale_has_no_letters_for(encoding: str) -> None:
    said: list[str] = []

    def work() -> None:
        "dä\ud800".encode(encoding)

    with own_logging():
        if encoding == "utf-8":  # No matter of the locale.
            with pytest.raises(UnicodeEncodeError):
                run(work, said.append)
        else:
            assert run(work, said.append) == 2
            message = r"this locale (latin-1) cannot encode the file name 'd\xe4\ud800'; set PYTHONUTF8=1"
            assert said == [f"error: {message}"]


def ended_in_order(work: Callable[[], None], tell: Callable[[str], None]) -> int:
    """The exit code of a command that signals end in order."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # It is ignored if the tests run under nohup.
    try:
        with leaving_in_order(), own_logging():
            return run(work, tell)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@POSIX
def test_a_command_that_is_over_leaves_signals_as_they_were() -> None:
    """Otherwise those that come while Python shuts down would show tracebacks."""

    def handlers() -> list[object]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

    before, inside = handlers(), []
    with leaving_in_order(), own_logging():
        run(lambda: inside.extend(handlers()))
    assert handlers() == before
    assert before[1] not in inside


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_waits_until_pytorch_is_imported(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    module = ModuleType("torch")
    module.__spec__ = ModuleSpec("torch", None)

    def work() -> None:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "torch", module)
            patch.setattr(module.__spec__, "_initializing", True, raising=False)  # as Python does
            os.kill(os.getpid(), number)
            time.sleep(0.5)
            said.append("imported")
        time.sleep(10)  # until the signal interrupts it
        said.append("too late")

    # Importing takes longer than a process that has got a second signal is given to end.
    monkeypatch.setattr(interrupt, "ECHO", 0.05)
    monkeypatch.setattr(os, "_exit", lambda code: said.append("ended at once"))
    started = time.monotonic()
    with second_signal_ends(grace=0.3):
        assert ended_in_order(work, said.append) == 128 + number
    assert said == ["imported", "stopped"]
    assert time.monotonic() - started < 5


@POSIX
@pytest.mark.parametrize(("name", "echo"), [("SIGINT", ECHO), ("SIGTERM", ECHO), ("SIGHUP", 0.0)])
def test_a_signal_that_comes_twice_does_not_disturb_the_clearing_up(
    name: str, echo: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The `timeout` command sends it to its child, and to the group of processes that the child belongs to.

    SIGHUP may come from the terminal and, at any time after that, from the shell.
    """
    monkeypatch.setattr(interrupt, "ECHO", echo)
    number = getattr(signal, name)
    said: list[str] = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), number)
            said.append("clear")

    assert ended_in_order(work, said.append) == 128 + number
    assert said == ["clear", "stopped"]


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}])
def test_openmps_threads_wait_in_a_brief_busy_loop_unless_told_otherwise(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in BRIEF_BUSY_LOOP:
        monkeypatch.setenv(name, "")  # What `run` sets is undone afterwards, too.
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    found: dict[str, str] = {}
    with own_logging():
        run(lambda: found.update({name: os.environ[name] for name in BRIEF_BUSY_LOOP if name in os.environ}))
    assert found == (own or BRIEF_BUSY_LOOP)
