"""Lines to ids: in this process or, if the text is long, in one process per core.

The other processes are fresh interpreters, which load neither PyTorch nor the calling program. They get lines through a
pipe and answer with arrays, and end when their pipe closes, whatever becomes of this process.
"""

import logging
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from translate.data.lines import Text, chunks
from translate.errors import DataError
from translate.text.codec import Codec

CHUNK = 10_000  # lines encoded at a time
WORTHWHILE = 100_000  # lines; with fewer, processes take longer to start than they save

Encoded = tuple[NDArray[Any], NDArray[np.int32]]  # the ids of some lines, one after the other, and how many each has

log = logging.getLogger("translate")


def encoded_chunks(codec: Codec, lines: Text) -> Generator[Encoded, None, None]:
    """The ids of all lines, some thousands of lines at a time, in their order.

    Raises:
        ConfigError: the tokenizer's library is missing.
        DataError: one of the processes was killed.
    """
    processes = cores()
    if processes == 1 or len(lines) < WORTHWHILE:
        return (_encode(codec, chunk) for chunk in chunks(lines, CHUNK))
    log.info("encoding %d lines in %d processes", len(lines), processes)
    return _in_processes(codec, chunks(lines, CHUNK), processes)


def id_type(codec: Codec) -> DTypeLike:
    """The smallest type that holds the vocabulary."""
    return np.uint16 if len(codec.vocabulary) <= 2**16 else np.int32


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _encode(codec: Codec, lines: list[str]) -> Encoded:
    ids = codec.encode(lines)
    return np.fromiter(chain.from_iterable(ids), id_type(codec)), np.fromiter(map(len, ids), np.int32, len(lines))


def _in_processes(codec: Codec, chunks: Iterator[list[str]], count: int) -> Generator[Encoded, None, None]:
    workers = [_Worker(codec) for _ in range(count)]
    busy: deque[_Worker] = deque()
    try:
        for number, chunk in enumerate(chunks):
            if len(busy) == count:
                yield busy.popleft().answer()
            worker = workers[number % count]  # the one that has just answered, and is now idle
            worker.ask(chunk)
            busy.append(worker)
        for worker in busy:
            yield worker.answer()
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """Another process that encodes lines."""

    def __init__(self, codec: Codec) -> None:
        command = [sys.executable, "-c", START, *sys.path]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.ask(codec.to_dict())

    def ask(self, question: Any) -> None:
        with suppress(BrokenPipeError):  # `answer` reports it.
            pickle.dump(question, self._to, pickle.HIGHEST_PROTOCOL)
            self._to.flush()

    def answer(self) -> Encoded:
        try:
            answer: Encoded | Exception = pickle.load(self._from)
        except (EOFError, pickle.UnpicklingError):
            raise DataError(
                f"a process that encoded text ended with exit code {self._process.wait()}; if memory ran out, "
                "let this run use fewer cores"
            ) from None
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
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the one that asks ends the others.
sys.path[:] = sys.argv[1:]
from translate.data.encoding import work
work()
"""


def work() -> None:
    """What a worker process does: read a codec and then lines from standard input, and write the ids of the lines."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that nothing a library prints is taken for an answer
    with suppress(EOFError, BrokenPipeError):
        codec = Codec.from_dict(pickle.load(sys.stdin.buffer))
        while True:
            lines = pickle.load(sys.stdin.buffer)
            answer: Encoded | Exception
            try:
                answer = _encode(codec, lines)
            except Exception as error:
                answer = error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
