"""Ctrl-C and SIGTERM as a request that training honours at the next safe moment."""

import signal
from types import FrameType, TracebackType


class Interrupted(Exception):
    """Training stopped because a signal asked for it; the run is saved."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.exit_code = 128 + signal_number


class InterruptGuard:
    """While open, remembers the first SIGINT or SIGTERM instead of ending the process; a second one gets through."""

    def __init__(self) -> None:
        self.received: int | None = None

    def __enter__(self) -> "InterruptGuard":
        self._handlers = {number: signal.signal(number, self._remember) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def check(self) -> None:
        """Raise Interrupted if a signal has come."""
        if self.received is not None:
            raise Interrupted(self.received)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
