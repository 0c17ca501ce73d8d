"""Ctrl-C, SIGTERM and a closed terminal as a request that training honours at the next safe moment."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType, TracebackType

SHUTDOWN = timedelta(seconds=10)  # within which one of several processes writes its last line when the run ends
GRACE = 5.0  # seconds that a process has to end in order after a second signal
ECHO = 0.5  # seconds within which the same signal again is no second wish
# What a terminal sends that closes, as when ssh loses its connection; not on Windows.
HANGUP = getattr(signal, "SIGHUP", None)


def under_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


class Interrupted(Exception):
    """Training stopped because a signal asked for it; the run is saved."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


class Echoes:
    """Tells a signal that comes again from the same signal heard twice.

    The `timeout` command passes a signal on to its child and to the group of processes that the child belongs to.
    """

    def __init__(self) -> None:
        self._heard: dict[int, float] = {}

    def includes(self, number: int) -> bool:
        """Whether this signal, which has just come, is one with the same number that came a moment ago."""
        now = time.monotonic()
        if number in self._heard and now - self._heard[number] < ECHO:
            return True
        self._heard[number] = now
        return False


class InterruptGuard:
    """While open, remembers the first SIGINT or SIGTERM instead of ending the process; a second one gets through.

    SIGHUP is remembered, too. It may come twice, from the terminal and from the shell, so it never gets through. What
    the process was started to ignore stays ignored: SIGHUP under nohup, SIGINT in the background of a script.

    Under torchrun nothing gets through. It passes on a signal that whoever sent it may have sent to this process as
    well, so a second one may be the same again; and it kills processes that hang by itself.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._asked = False
        self._echoes = Echoes()

    def __enter__(self) -> "InterruptGuard":
        numbers = [number for number in (signal.SIGINT, signal.SIGTERM, HANGUP) if number is not None]
        heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, self._remember) for number in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore(*self._handlers)

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.received is not None:
            raise Interrupted(self.received)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or number
        if number == HANGUP or under_torchrun() or self._echoes.includes(number):
            return
        if self._asked:
            self._restore(*self._handlers.keys() & {signal.SIGINT, signal.SIGTERM})
            signal.raise_signal(number)
        self._asked = True

    def _restore(self, *numbers: int) -> None:
        for number in numbers:
            signal.signal(number, self._handlers[number])


@contextmanager
def second_signal_ends(grace: float = GRACE) -> Iterator[None]:
    """Inside, a second SIGINT or SIGTERM ends this process after `grace` seconds, even if it hangs.

    Python's own handlers run only when the main thread returns from what it is doing. If it waits for another process
    that is stuck, that may be never.
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
    """Read the numbers of signals as they come, until there are no more, or two that ask for the end."""
    received = 0
    echoes = Echoes()
    with signals:
        while received < 2 and (number := signals.recv(1)):
            received += number[0] in (signal.SIGINT, signal.SIGTERM) and not echoes.includes(number[0])
        if received == 2 and not left.wait(grace):
            with suppress(OSError):  # Its disk may be full.
                print("stopped, though not in order: something hangs", file=sys.stderr, flush=True)
            os._exit(128 + number[0])
