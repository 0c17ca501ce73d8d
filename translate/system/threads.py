"""Workers: threads of this process that divide its work on a CPU among them, and with it PyTorch's own threads.

Most operations of a small model are too short to be divided between the cores of a CPU. So each worker does a part of
the work by itself.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Event, Lock
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

# Speed was measured on two cores only. All workers contend for the GIL, and in training each has gradients of its own.
MAX_WORKERS = 2

T = TypeVar("T")
R = TypeVar("R")


def worker_count(device: torch.device) -> int:
    """How many workers suit this device: on a CPU, no more than PyTorch has threads."""
    return min(MAX_WORKERS, torch.get_num_threads()) if device.type == "cpu" else 1


def workers_for(device: torch.device, widths: NDArray[np.integer], max_tokens: int) -> int:
    """How many workers share batches of `max_tokens` tokens, all in work at a time, for sentences of these `widths`.

    One, if the widest sentence does not fit into a worker's share.
    """
    workers = worker_count(device)
    return workers if workers * widths.max(initial=0) <= max_tokens else 1


def threads_of_each(workers: int) -> int:
    """The share that each of so many workers has of PyTorch's threads."""
    return max(1, torch.get_num_threads() // workers)


def worker_threads(count: int, *, threads: int, name: str = "worker") -> ThreadPoolExecutor:
    """A pool of `count` workers, in each of which operations use this many `threads` of PyTorch."""
    return ThreadPoolExecutor(count, name, initializer=torch.set_num_threads, initargs=(threads,))


class _Users:
    """The threads that are inside `own_threads`, counted so that the last to leave restores PyTorch's usual number.

    The number that one thread sets is also the one with which new threads start. If each thread restored what it had
    found, one that entered later could leave the lower number of another behind.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = self._usual = 0

    def enter(self) -> None:
        with self._lock:
            self._usual = self._usual if self._count else torch.get_num_threads()
            self._count += 1

    def leave(self, own: int) -> None:
        """`own` is how many the calling thread had before."""
        with self._lock:
            self._count -= 1
            torch.set_num_threads(own if self._count else self._usual)


_USERS = _Users()


@contextmanager
def own_threads(threads: int) -> Iterator[None]:
    """Let operations of the calling thread use this many `threads` of PyTorch inside."""
    own = torch.get_num_threads()
    _USERS.enter()
    try:
        torch.set_num_threads(threads)
        yield
    finally:
        _USERS.leave(own)


def no_check() -> None:
    """The default: nothing can interrupt the work."""


def in_threads(
    work: Callable[[T, Callable[[], None]], R],
    items: Sequence[T],
    workers: int,
    check: Callable[[], None] = no_check,
) -> list[R]:
    """What `work` returns for each item, in order, with this many items in work at a time, one of them in this thread.

    `work` also gets a function to call now and then. It calls `check`, which may raise, and raises if the result is no
    longer needed, because `work` has failed for another item, or because a signal has interrupted this thread.
    """
    abandoned = Event()

    def check_both() -> None:
        check()
        if abandoned.is_set():
            raise CancelledError

    if workers == 1 or len(items) < 2:
        return [work(item, check_both) for item in items]
    results: dict[int, R] = {}
    rest = enumerate(items)  # Each worker takes the next item from it.

    def serve() -> None:
        try:
            for number, item in rest:
                results[number] = work(item, check_both)
        except BaseException:
            abandoned.set()
            raise

    threads = threads_of_each(workers)
    with worker_threads(workers - 1, threads=threads) as pool, own_threads(threads):
        try:
            others = [pool.submit(serve) for _ in range(1, workers)]
            with suppress(CancelledError):  # Another worker has failed, whose error follows.
                serve()
            errors = [other.exception() for other in others]
        except BaseException:
            abandoned.set()
            raise
    try:
        for error in errors:
            if error is not None and not isinstance(error, CancelledError):
                raise error
    finally:
        # An error leads to this frame, and these lead to the error: in such a circle, tensors would outlive the retry.
        others.clear()
        errors.clear()
        error = None
    return [results[number] for number in range(len(items))]
