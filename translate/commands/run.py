"""What all commands share: UTF-8 streams, messages on standard error, and exit codes.

0 is success, 2 an error that the user can fix (one message, no traceback), 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP (the
terminal was closed), 141 that the reader of the output has closed it (SIGPIPE).
"""

import atexit
import errno
import gc
import io
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from translate.commands.signals import CtrlC
from translate.errors import DISK_FULL, TranslateError
from translate.system.terminal import PrintableFormatter, printable

# How many objects Python makes before it searches for garbage. Those of PyTorch's and spaCy's modules, some 200,000,
# all stay; with Python's own number of 700, searching them again and again takes an eighth of the time of their import.
OBJECTS_BEFORE_COLLECTION = 100_000

PACKAGES = {"yaml": "pyyaml"}  # what pip calls a package, where Python calls it otherwise

NO_THREAD = "can't start new thread"  # how Python says that it has no memory for one, or may not have another

NOT_MAPPED = "failed to map segment"  # how Linux says that a library gets no memory, or may not be executed

# OpenMP's threads wait for each other in a busy loop, by default for so long that processes which share a machine are
# several times as slow. With PASSIVE they sleep instead, and have to be woken for each of the short operations of an
# optimizer. A loop of 2,000 turns lasts from one of these to the next; GNU's OpenMP follows this number, not PASSIVE.
BRIEF_BUSY_LOOP = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "2000"}


def complain(message: str) -> None:
    """Say what went wrong, if that is possible: the disk that standard error goes to may be full."""
    with suppress(OSError):
        # One write, as print is not under `python -u`, which torchrun starts: it would put its own report in between.
        sys.stderr.write(f"{printable(message)}\n")
        sys.stderr.flush()


def run(work: Callable[[], int | None], tell: Callable[[str], None] = complain) -> int:
    """Do the work of a command, which may return an exit code, and `tell` what went wrong; returns the exit code."""
    set_up()
    if not has_working_directory():  # Imported without one, PyTorch's library for linear algebra ends the process.
        tell("error: the working directory no longer exists; change to another one")
        return 2
    ctrl_c = CtrlC()
    try:
        code = work() or 0
        sys.stdout.flush()
    except BaseException as error:
        ending = ending_by(error, interrupted=ctrl_c.came)
        if ending is None:
            raise
        if isinstance(error, OSError):  # Standard output may be what has failed.
            drop_output()
        code = ending.exit_code
        if ending.message:
            tell(ending.message)
    finally:
        ctrl_c.forget()
    return code


@dataclass(frozen=True)
class Ending:
    """The exit code of a command, and what to say of its end; an empty message if nothing."""

    exit_code: int
    message: str


def ending_by(error: BaseException, *, interrupted: bool) -> Ending | None:
    """How a command ends by this error; None if a traceback is to show it."""
    match error:
        case TranslateError():
            return Ending(2, f"error: {error}")
        case ModuleNotFoundError():
            if (error.name or "translate").startswith("translate"):
                return None
            package = PACKAGES.get(error.name or "", error.name)
            return Ending(
                2,
                f"error: the package {package!r} is not installed for {sys.executable}; use the environment of the "
                "README, .venv/bin/python, or install it there",
            )
        case KeyboardInterrupt():
            return Ending(130, "stopped")
        case SystemExit(code=int(code)) if code > 128:  # by a signal
            return Ending(code, "stopped")
        case UnicodeEncodeError(encoding=encoding, object=name):
            if encoding == "utf-8":
                return None
            return Ending(2, f"error: this locale ({encoding}) cannot encode the file name {name!a}; set PYTHONUTF8=1")
        case BrokenPipeError() | ConnectionResetError():  # The reader of our output has left, as `head` does.
            return Ending(141, "")
        case OSError():
            if error.errno not in (*DISK_FULL, errno.EFBIG):  # the latter by a limit of the size of files
                return None
            full = error.errno == errno.ENOSPC
            return Ending(2, "error: the disk is full" if full else f"error: cannot write: {error.strerror}")
        case Exception() if isinstance(error, MemoryError) or NO_THREAD in str(error):
            return Ending(
                2,
                "error: memory is used up, or this user may have no more processes (ulimit -u); end others, or use a "
                "machine with more memory",
            )
        case ImportError() if NOT_MAPPED in str(error):
            return Ending(
                2,
                f"error: {error}; raise the limit of memory (ulimit -v) or, if {sys.prefix} is on a file system "
                "mounted with noexec, install the environment elsewhere",
            )
        case Exception() if interrupted:  # A library that is interrupted while it is imported may raise anything.
            return Ending(130, "stopped")
    return None


def set_up() -> None:
    """Prepare this process: its memory, its streams, its log, OpenMP, and how it ends."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    reopen_closed_output()
    use_utf8()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(message)s"))
    logging.basicConfig(handlers=[handler], force=True)
    logging.getLogger("translate").setLevel(logging.INFO)  # From libraries, warnings are enough.
    if BRIEF_BUSY_LOOP.keys().isdisjoint(os.environ):
        os.environ.update(BRIEF_BUSY_LOOP)  # OpenMP reads it when PyTorch is imported, which happens later.
    # If a process of several dies, PyTorch's C++ code in the others warns of it with stacks of 20 lines.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:  # Every disk is full or read-only.
        tempfile.tempdir = os.curdir  # Nothing is written there, but sacrebleu's import fails without a name.
    # So that Python, when it ends, does not search the 170,000 objects of PyTorch's modules for garbage, for 0.4 s.
    atexit.register(gc.freeze)


def has_working_directory() -> bool:
    """Whether the folder that this process works in still exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def drop_output() -> None:
    """Redirect standard output to nowhere: at exit, Python would try to write the rest, and complain that it cannot."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def reopen_closed_output() -> None:
    """Redirect closed standard streams to nowhere: Python has None for them, and a new file would get their number."""
    while (place := os.open(os.devnull, os.O_RDWR)) < 3:  # A new file gets the lowest free number.
        pass
    os.close(place)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def use_utf8() -> None:
    """Read and write UTF-8 whatever the locale; a line ends at a line feed and nowhere else."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", newline="\n", errors="strict" if stream is sys.stdin else "replace")
