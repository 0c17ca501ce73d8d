"""Signals that end a command: once, in order, and not while a library is imported."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from own_logging import own_logging

from translate.commands import signals
from translate.commands.run import run
from translate.commands.signals import leaving_cleanly
from translate.system import interrupt
from translate.system.interrupt import second_signal_ends

ROOT = Path(__file__).resolve().parents[2]
LONG = 1000.0  # seconds, in which even a machine that stands still for a while gets around to a second signal
POSIX = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signals on this system")


def ended_in_order(work: Callable[[], None], tell: Callable[[str], None]) -> int:
    """The exit code of a command that signals end in order."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # It is ignored if the tests run under nohup.
    try:
        with leaving_cleanly(), own_logging():
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
    with leaving_cleanly(), own_logging():
        run(lambda: inside.extend(handlers()))
    assert handlers() == before
    assert before[1] not in inside


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_waits_until_a_library_is_imported(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    lines = ["import os, time", f"os.kill(os.getpid(), {int(number)})", "time.sleep(0.5)"]
    (tmp_path / f"slow_{number.name}.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)

    def work() -> None:
        importlib.import_module(f"slow_{number.name}")
        said.append("imported")
        time.sleep(10)  # until the signal interrupts it
        said.append("too late")

    # It is sent again once, after the import. Sent again and again, it would count as a second request meanwhile.
    send = signals.send_to_main_thread
    monkeypatch.setattr(signals, "send_to_main_thread", lambda each: (said.append("sent again"), send(each)))
    monkeypatch.setattr(interrupt, "ECHO", 0.05)
    monkeypatch.setattr(os, "_exit", lambda code: said.append("ended at once"))
    started = time.monotonic()
    with second_signal_ends(grace=30):
        assert ended_in_order(work, said.append) == 128 + number
    assert said == ["imported", "sent again", "stopped"]
    assert time.monotonic() - started < 5


@POSIX
def test_a_command_in_a_module_that_is_being_imported_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_module.py").write_text("""
import os, signal, time
from translate.commands.run import run

def work():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)

code = run(work, print)
""")
    monkeypatch.syspath_prepend(tmp_path)
    started = time.monotonic()
    with own_logging():
        assert importlib.import_module("users_module").code == 130
    assert time.monotonic() - started < 5


@POSIX
@pytest.mark.parametrize(("name", "echo"), [("SIGINT", LONG), ("SIGTERM", LONG), ("SIGHUP", 0.0)])
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


@POSIX
def test_ctrl_c_while_python_shuts_down_leaves_no_traceback() -> None:
    program = """
import atexit, signal
from translate.commands import signals
from translate.commands.run import run
signal.signal(signal.SIGINT, signal.default_int_handler)
atexit.register(signal.raise_signal, signal.SIGINT)
raise SystemExit(run(lambda: 0))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
