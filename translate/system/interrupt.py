"""Ctrl-C, SIGTERM and a closed terminal as a request that training honours at the next safe moment."""

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar
from weakref import WeakSet

SHUTDOWN = timedelta(seconds=10)  # time for one of several processes to print its last message when the run ends
GRACE = 5.0  # seconds for a process to shut down cleanly after a second signal
ECHO = 0.5  # seconds within which another signal counts as a duplicate, not as a second request
WORTH_WAITING = 1.0  # seconds that an update may still take after a signal; then it is abandoned
# Sent when the terminal closes, as when ssh loses its connection; not on Windows.
HANGUP = getattr(signal, "SIGHUP", None)

T = TypeVar("T")
_begun = WeakSet["Future[Any]"]()  # by `in_thread`


def under_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def handle(numbers: Iterable[int | None], handler: Callable[[int, FrameType | None], Any]) -> dict[int, Any]:
    """Set the handler of those signals that exist (not None); returns their handlers from before.

    Signals that the process was started to ignore stay ignored: SIGHUP under nohup, SIGINT in the background of a
    script. Nothing changes if the calling thread is not the main one, which alone may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [number for number in numbers if number is not None and signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heeded}


class Interrupted(Exception):
    """Training stopped because a signal asked for it; the run is saved."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)  # What it is made from, so that it can be sent to other processes.
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.signal_number).name}"


class Echoes:
    """Tells duplicates of a signal from a second request.

    Duplicates occur: the `timeout` command sends a signal to its child, and again to the child's process group. A
    program that gets Ctrl-C along with its child may pass it on as SIGTERM.
    """

    def __init__(self) -> None:
        self._heard = -math.inf

    def includes_this(self) -> bool:
        """Whether the signal that has just come follows another one, of whatever number, at once."""
        now = time.monotonic()
        if now - self._heard < ECHO:
            return True
        self._heard = now
        return False


class InterruptGuard:
    """While open, only remembers the first SIGINT or SIGTERM; a second one goes to the handler from before.

    SIGHUP is only remembered, however often it comes: the terminal and the shell may both send it.

    Under torchrun, every signal is only remembered. torchrun passes on signals that their sender may also have sent to
    this process directly, so a second one may be a duplicate; and torchrun itself kills processes that hang.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._since = math.inf
        self._asked = False
        self._echoes = Echoes()

    def __enter__(self) -> "InterruptGuard":
        self._handlers = handle((signal.SIGINT, signal.SIGTERM, HANGUP), self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore(*self._handlers)

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.received is not None:
            raise Interrupted(self.received)

    def check_if_late(self) -> None:
        """Raise Interrupted if a signal has come, and not just now."""
        if time.monotonic() - self._since > WORTH_WAITING:
            self.check()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received, self._since = number, time.monotonic()
        if number == HANGUP or under_torchrun() or self._echoes.includes_this():
            return
        if self._asked:
            self._restore(*self._handlers.keys() & {signal.SIGINT, signal.SIGTERM})
            signal.raise_signal(number)
        self._asked = True

    def _restore(self, *numbers: int) -> None:
        for number in numbers:
            signal.signal(number, self._handlers[number])


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """Begin work that is long in code which does not look for signals, so that these interrupt the wait for its result.

    The work itself then goes on: see `must_exit_at_once`.
    """
    outcome: Future[T] = Future()
    _begun.add(outcome)

    def finish() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # A panic of a library in Rust is no Exception.
            outcome.set_exception(error)

    threading.Thread(target=finish, daemon=True).start()
    return outcome


def must_exit_at_once() -> bool:
    """Whether work of `in_thread` goes on: if it came back to Python while that shuts down, it could end in SIGABRT."""
    return not all(outcome.done() for outcome in _begun)


@contextmanager
def second_signal_ends(grace: float = GRACE) -> Iterator[None]:
    """Inside, a second SIGINT or SIGTERM ends this process after `grace` seconds, even if it hangs.

    Python runs signal handlers only in the main thread, between bytecode instructions: none while it waits in C code,
    perhaps for another process that is stuck. So another thread counts the signals.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    left = threading.Event()
    threading.Thread(target=_end_after_the_second, args=(reader, left, grace), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        left.set()
        writer.close()  # which ends the thread


def _end_after_the_second(signals: socket.socket, left: threading.Event, grace: float) -> None:
    """Read the numbers of signals as they come, until the socket closes, or two of them asked to end the process."""
    received = 0
    echoes = Echoes()
    with signals:
        while received < 2 and (number := signals.recv(1)):
            received += number[0] in (signal.SIGINT, signal.SIGTERM) and not echoes.includes_this()
        if received == 2 and not left.wait(grace):
            with suppress(OSError):  # Standard error may be a file on a full disk.
                sys.stderr.write("stopped without a clean shutdown: something hangs\n")
                sys.stderr.flush()
            os._exit(128 + number[0])
