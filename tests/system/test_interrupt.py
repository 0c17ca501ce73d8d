"""Signals: the first is a wish, the second ends a process even if it hangs; after training they are as before."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Timer
from unittest.mock import Mock

import pytest

from translate.system import interrupt
from translate.system.interrupt import (
    Interrupted,
    InterruptGuard,
    in_thread,
    must_exit_at_once,
    second_signal_ends,
)

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals on this system")
LONG = 1000  # seconds, in which even a machine that stands still for a while gets around to a second signal
HANGS = """
import signal, sys, time
from translate.system import interrupt
from translate.system.interrupt import second_signal_ends

interrupt.ECHO = float(sys.argv[1])
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: print("heard", flush=True))
with second_signal_ends(grace=0.2):
    print("ready", flush=True)
    while True:
        time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _handlers_as_they_were() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def got() -> list[int]:
    """The signals that come through to the handlers from before."""
    found: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: found.append(number))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_training_is_over_a_signal_does_what_it_did_before(number: signal.Signals, got: list[int]) -> None:
    with InterruptGuard() as guard:
        os.kill(os.getpid(), number)
        assert (guard.received, got) == (number, [])
        with pytest.raises(Interrupted, match=f"^stopped by {number.name}$"):
            guard.check()
    with InterruptGuard() as guard:
        guard.check()
    os.kill(os.getpid(), number)
    assert (guard.received, got) == (None, [number])


def test_what_is_under_way_may_take_a_second_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with InterruptGuard() as guard:
        guard.check_if_late()
        os.kill(os.getpid(), signal.SIGTERM)
        guard.check_if_late()
        now = 101.0
        guard.check_if_late()
        now = 101.1
        with pytest.raises(Interrupted, match="stopped by SIGTERM"):
            guard.check_if_late()
        if interrupt.HANGUP is not None:  # Another signal does not prolong it.
            os.kill(os.getpid(), interrupt.HANGUP)
            with pytest.raises(Interrupted, match="stopped by SIGTERM"):
                guard.check_if_late()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_torchrun_may_send_the_same_signal_again(
    number: signal.Signals, got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for by_torchrun in (True, False):
        with monkeypatch.context() as patch:
            patch.delenv("TORCHELASTIC_RUN_ID", raising=False)
            if by_torchrun:
                patch.setenv("TORCHELASTIC_RUN_ID", "none")
            patch.setattr("translate.system.interrupt.ECHO", 0)
            with InterruptGuard() as guard:
                os.kill(os.getpid(), number)
                os.kill(os.getpid(), number)
            assert (guard.received, got) == (number, [] if by_torchrun else [number])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_timeout_sends_each_signal_twice(
    number: signal.Signals, got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.system.interrupt.ECHO", LONG)
    with InterruptGuard() as guard:
        for _ in range(2):
            os.kill(os.getpid(), number)
        assert (guard.received, got) == (number, [])
        monkeypatch.setattr("translate.system.interrupt.ECHO", 0)
        os.kill(os.getpid(), number)
        assert got == [number]


def test_a_signal_after_half_a_second_is_a_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes sooner is a duplicate of the first, however many have come in between."""
    clock = iter([100.0, 100.1, 100.49, 100.5, 100.99, 101.0])
    monkeypatch.setattr(time, "monotonic", clock.__next__)
    echoes = interrupt.Echoes()
    assert [echoes.includes_this() for _ in range(6)] == [False, True, True, False, True, False]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_may_be_passed_on_as_sigterm(
    number: signal.Signals, got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both mean one request, in whichever order they come."""
    monkeypatch.setattr(interrupt, "ECHO", LONG)
    with InterruptGuard() as guard:
        for each in (number, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), each)
        assert (guard.received, got) == (number, [])


@pytest.mark.parametrize("first", ["SIGHUP", "SIGINT"])
def test_a_closed_terminal_is_heard_of_twice_and_ends_no_run_that_is_being_saved(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt, "ECHO", 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # It is ignored if the tests run under nohup.
    with InterruptGuard() as guard:
        for name in (first, "SIGHUP", "SIGHUP"):
            os.kill(os.getpid(), getattr(signal, name))
        with pytest.raises(Interrupted, match=f"^stopped by {first}$"):
            guard.check()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_what_is_ignored_stays_ignored(name: str) -> None:
    """SIGHUP under nohup, SIGINT in the background of a script."""
    number = getattr(signal, name)
    signal.signal(number, signal.SIG_IGN)
    with InterruptGuard() as guard:
        os.kill(os.getpid(), number)
        guard.check()
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_second_signal_gets_through_where_another_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "ECHO", 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with InterruptGuard():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_closed_terminal_does_not_end_what_a_second_signal_has_begun(
    got: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupt, "ECHO", 0)
    with InterruptGuard():
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
    assert got == [signal.SIGTERM]


def test_a_closed_terminal_ends_no_process_that_is_shutting_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "ECHO", 0)
    ended: list[int] = []
    monkeypatch.setattr("translate.system.interrupt.os._exit", ended.append)
    signal.signal(signal.SIGHUP, lambda *_: None)
    with second_signal_ends(grace=0):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.1)
    assert ended == []


@pytest.mark.slow
def test_a_second_signal_leaves_a_process_alone_that_ends_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "ECHO", 0)
    ended: list[int] = []
    monkeypatch.setattr("translate.system.interrupt.os._exit", ended.append)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with second_signal_ends(grace=0.3):
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
    assert signal.set_wakeup_fd(-1) == -1
    time.sleep(0.6)
    assert ended == []


@contextmanager
def hanging(echo: float) -> Iterator[subprocess.Popen[bytes]]:
    """A process that hangs, and takes further signals for duplicates for so many seconds."""
    command = [sys.executable, "-c", HANGS, str(echo)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_second_signal_ends_a_process_that_hangs() -> None:
    with hanging(echo=0) as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"heard\n"  # If both were on their way, the second could come first.
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
        assert process.stderr is not None
        assert process.stderr.read() == b"stopped without a clean shutdown: something hangs\n"


def test_a_full_disk_keeps_no_process_alive_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error may be a file there."""
    ended: list[int] = []
    monkeypatch.setattr(interrupt, "ECHO", 0.0)
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(sys, "stderr", Mock(write=Mock(side_effect=OSError(28, "No space left on device"))))
    signals, sender = socket.socketpair()
    with sender:
        sender.sendall(bytes([signal.SIGINT, signal.SIGTERM]))
        interrupt._end_after_the_second(signals, Event(), grace=0.0)
    assert ended == [128 + signal.SIGTERM]


@pytest.mark.slow
def test_a_duplicate_ends_no_process_that_hangs() -> None:
    """The `timeout` command sends a signal twice."""
    with hanging(echo=LONG) as process:
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        time.sleep(0.5)
        assert process.poll() is None


@pytest.mark.slow
def test_impatience_does_not_keep_a_process_alive_that_hangs() -> None:
    with hanging(echo=interrupt.ECHO) as process:
        for _ in range(200):  # each within the grace of the one before
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                time.sleep(0.05)
        assert process.poll() == 128 + signal.SIGINT


def test_the_result_of_work_in_a_thread() -> None:
    assert in_thread(lambda: 7).result() == 7
    with pytest.raises(ZeroDivisionError):
        in_thread(lambda: 1 // 0).result()
    with pytest.raises(SystemExit):  # like a panic of a library in Rust, no Exception
        in_thread(lambda: sys.exit(3)).result(timeout=60)
    assert not must_exit_at_once()


def test_a_signal_interrupts_the_wait_for_work_that_does_not_look_for_signals() -> None:
    def interrupt_it(*_: object) -> None:
        raise KeyboardInterrupt

    go_on = Event()
    signal.signal(signal.SIGTERM, interrupt_it)
    outcome = in_thread(go_on.wait)
    Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(KeyboardInterrupt):
        outcome.result()
    assert must_exit_at_once()
    go_on.set()
    assert outcome.result()
    assert not must_exit_at_once()
