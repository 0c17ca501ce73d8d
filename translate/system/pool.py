"""The same work on many items, such as chunks of text: in this process or, if there are many, in one process per core.

The other processes are fresh interpreters, which load neither PyTorch nor the calling program. They get items through
a pipe and answer through another one, and end when their pipe closes, whatever becomes of this process.
"""

import logging
import math
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import Any, TypeVar

from translate.errors import DataError
from translate.system.cgroups import cpu_quota

CHUNK = 10_000  # lines
FEWER_CORES = "let this run use fewer cores (on Linux: taskset -c 0,1 python …)"
MIN_ITEMS = 10  # with fewer, processes take longer to start than they save

A = TypeVar("A")
B = TypeVar("B")

log = logging.getLogger("translate")


def cores() -> int:
    """CPU cores that this process may use: no more than what a container's limit of CPU time amounts to, rounded up."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return allowed if math.isinf(quota) else min(allowed, math.ceil(quota))


def chunks(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Consecutive lines, `size` at a time."""
    rest = iter(lines)
    return iter(lambda: list(islice(rest, size)), [])


def mapped(work: Callable[[A], B], items: Iterable[A], doing: str) -> Generator[B, None, None]:
    """The results of `work` for all items, in order. Close the generator if you do not exhaust it.

    `work`, the items and the results are pickled; `doing` describes the work in the log.

    Raises:
        DataError: one of the processes was killed, or has run out of memory.
    """
    count = cores()
    rest = iter(items)
    first = list(islice(rest, MIN_ITEMS if count > 1 else 0))
    if len(first) < MIN_ITEMS:
        return (work(item) for item in chain(first, rest))
    log.info("%s in %d processes", doing, count)
    return in_processes(work, chain(first, rest), count)


def in_processes(work: Callable[[A], B], items: Iterator[A], count: int) -> Generator[B, None, None]:
    """The results of `work` for all items, in order, from up to `count` processes; see `mapped`.

    Each of them always has an item in work, or the result of one ready.
    """
    workers: list[_Worker] = []
    busy: deque[_Worker] = deque()
    try:
        with suppress(OSError):  # The system may not allow so many processes.
            for _ in range(count):
                workers.append(_Worker())
        if not workers:
            yield from map(work, items)
        for worker in workers:  # Only after starting all: this may block until the worker is up and reads.
            worker.ask(work)
        for number, item in enumerate(items):
            if len(busy) == len(workers):
                yield busy.popleft().answer()
            worker = workers[number % len(workers)]  # the one that has just answered, and is now idle
            worker.ask(item)
            busy.append(worker)
        for worker in busy:
            yield worker.answer()
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A worker process. The first thing it is sent is the work, and then items, each of which it answers."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", START, *sys.path]
        # In a session of its own: signals to the whole process group, such as Ctrl-C, reach only this process, which
        # then stops its workers.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def ask(self, question: Any) -> None:
        with suppress(BrokenPipeError):  # `answer` reports it.
            pickle.dump(question, self._to, pickle.HIGHEST_PROTOCOL)
            self._to.flush()

    def answer(self) -> Any:
        try:
            answer = pickle.load(self._from)
        except (EOFError, pickle.UnpicklingError):
            raise DataError(
                f"a tokenization process ended with exit code {self._process.wait()}; if memory ran out, {FEWER_CORES}"
            ) from None
        if isinstance(answer, MemoryError):
            raise DataError(f"a tokenization process has run out of memory; {FEWER_CORES}") from answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        with suppress(BrokenPipeError):
            self._to.close()
        self._from.close()


START = """\
import sys
sys.path[:] = sys.argv[1:]
from translate.system.pool import answer_all
answer_all()
"""


def answer_all() -> None:
    """The main loop of a worker process: read the work and then items from standard input, and write the results."""
    with suppress(EOFError, BrokenPipeError), os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # Standard output becomes standard error: nothing printed is taken for an answer.
        work = pickle.load(sys.stdin.buffer)
        while True:
            item = pickle.load(sys.stdin.buffer)
            try:
                answer = work(item)
            except Exception as error:
                answer = error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
