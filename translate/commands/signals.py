"""Signals while a command runs: it ends cleanly, and not while a library is being imported."""

import atexit
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from translate.system.interrupt import HANGUP, Echoes, handle

COMMAND = "translate.commands.run"  # the module whose `run` does the work of a command


class CtrlC:
    """Records whether Ctrl-C came; the handler that was there before still does its work."""

    def __init__(self) -> None:
        self.came = False
        self._echoes = Echoes()
        self._handler = signal.getsignal(signal.SIGINT)
        if callable(self._handler):
            signal.signal(signal.SIGINT, self._note)

    def forget(self) -> None:
        """Stop watching; while Python shuts down, Ctrl-C ends it at once, without a traceback."""
        if callable(self._handler):
            signal.signal(signal.SIGINT, self._handler)
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if comes_again(number):
            return
        self.came = True
        if callable(self._handler) and not self._echoes.includes_this():
            self._handler(number, frame)


def comes_again(number: int) -> bool:
    """Whether something is being imported; if so, this signal is sent again once that is over.

    Libraries are not prepared for an exception then: while PyTorch's is initialized, it would end the process by
    SIGABRT, and pydantic loses some, or raises an error of its own in their place.
    """
    if not is_importing():
        return False

    # Not sent again and again: second_signal_ends counts every signal, and importing may take longer than it waits.
    def send_later() -> None:
        while is_importing():
            time.sleep(0.02)
        send_to_main_thread(number)

    threading.Thread(target=send_later, daemon=True).start()
    return True


def is_importing() -> bool:
    """Whether the main thread is importing something, for the command that it runs."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    # A module that calls the command may itself be one that is being imported.
    while frame is not None and frame.f_globals.get("__name__") != COMMAND:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def send_to_main_thread(number: int) -> None:
    """Send this process a signal, from any thread."""
    if hasattr(signal, "pthread_kill"):
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, number)  # interrupts it even if it waits for input
    else:  # on Windows
        signal.raise_signal(number)


@contextmanager
def leaving_cleanly() -> Iterator[None]:
    """Inside, SIGTERM and SIGHUP end this process only after it has cleaned up, for example a half-written file.

    Afterwards they do what they did before: while Python shuts down, it could not exit cleanly any more.
    """
    echoes = Echoes()

    def leave(number: int, _: FrameType | None) -> None:
        if comes_again(number) or echoes.includes_this():
            return
        if number == HANGUP:  # It may come twice, from the terminal and from the shell.
            signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    before = handle((signal.SIGTERM, HANGUP), leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
