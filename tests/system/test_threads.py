"""Work divided among threads: results in order, and a failure ends all of it."""

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
import torch

from translate.commands.signals import send_to_main_thread
from translate.system.threads import in_threads, own_threads, worker_count, worker_threads, workers_for

CPU = torch.device("cpu")


def test_how_many(two_threads: None) -> None:
    assert worker_count(CPU) == 2
    torch.set_num_threads(4)
    assert worker_count(CPU) == 2
    assert worker_count(torch.device("cuda")) == 1
    torch.set_num_threads(1)
    assert worker_count(CPU) == 1


@pytest.mark.parametrize(("widest", "workers"), [(50, 2), (51, 1)])
def test_two_share_batches_if_half_of_one_holds_every_sentence(widest: int, workers: int, two_threads: None) -> None:
    assert workers_for(CPU, np.array([3, widest, 7]), max_tokens=100) == workers
    assert workers_for(CPU, np.array([], dtype=np.int64), max_tokens=100) == 2


@pytest.mark.parametrize(("threads", "each"), [(4, 2), (3, 1), (2, 1)])
def test_pytorchs_threads_are_divided(threads: int, each: int, two_threads: None) -> None:
    torch.set_num_threads(threads)
    assert in_threads(lambda item, check: torch.get_num_threads(), range(2), 2) == [each, each]
    assert torch.get_num_threads() == threads


def test_a_pool_of_threads_leaves_this_one_its_share(two_threads: None) -> None:
    with worker_threads(1, threads=1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == 2


def test_shares_that_overlap_leave_later_threads_as_many_as_before(two_threads: None) -> None:
    torch.set_num_threads(16)

    def seen_by_a_new_thread() -> int:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.get_num_threads).result()

    entered, left = threading.Event(), threading.Event()

    def overlap() -> int:
        with own_threads(4):
            entered.set()
            assert left.wait(10)
        return torch.get_num_threads()

    with ThreadPoolExecutor(1) as pool:
        with own_threads(8):
            other = pool.submit(overlap)  # It begins with 8.
            assert entered.wait(10)
        left.set()
        assert other.result() == 16
    assert seen_by_a_new_thread() == torch.get_num_threads() == 16


def test_a_share_inside_another_leaves_that_one_as_it_was(two_threads: None) -> None:
    torch.set_num_threads(16)
    with own_threads(8):
        with own_threads(4):
            assert torch.get_num_threads() == 4
        assert torch.get_num_threads() == 8
    assert torch.get_num_threads() == 16


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_order(workers: int) -> None:
    assert in_threads(lambda item, check: item**2, range(20), workers) == [item**2 for item in range(20)]
    assert in_threads(lambda item, check: item, [], workers) == []


@pytest.mark.parametrize("items", [2, 4])
def test_two_items_are_in_work_at_a_time_one_of_them_in_this_thread(items: int) -> None:
    both = threading.Barrier(2, timeout=10)

    def work(item: int, check: Callable[[], None]) -> str:
        both.wait()
        return threading.current_thread().name

    assert set(in_threads(work, range(items), 2)) == {"MainThread", "worker_0"}


def test_a_single_item_stays_in_this_thread_which_has_all_of_pytorchs_threads() -> None:
    assert in_threads(lambda item, check: threading.current_thread(), [1], 2) == [threading.current_thread()]


def test_a_signal_while_only_another_thread_works_ends_that_work() -> None:
    both = threading.Barrier(2, timeout=10)
    stopped: list[bool] = []

    def work(item: int, check: Callable[[], None]) -> None:
        both.wait()
        if threading.current_thread() is threading.main_thread():
            return
        time.sleep(0.1)  # Now the main thread waits for this one.
        send_to_main_thread(signal.SIGINT)
        ends = time.monotonic() + 10
        try:
            while time.monotonic() < ends:
                check()
        except CancelledError:
            stopped.append(True)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(2), 2)
    assert stopped == [True]


def test_a_signal_before_this_thread_begins_to_work_ends_the_work_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = threading.Event()
    stopped: list[bool] = []

    def work(item: int, check: Callable[[], None]) -> None:
        begun.set()
        ends = time.monotonic() + 10
        try:
            while time.monotonic() < ends:
                check()
        except CancelledError:
            stopped.append(True)
            raise

    def submit(pool: ThreadPoolExecutor, serve: Callable[[], None]) -> None:
        original(pool, serve)
        begun.wait()
        raise KeyboardInterrupt

    original = ThreadPoolExecutor.submit
    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(2), 2)
    assert stopped == [True]


class Tensors:
    """Stands for what a worker holds when memory runs out."""


@pytest.mark.parametrize("thread", ["MainThread", "worker_0"])
def test_an_error_keeps_nothing_alive_of_the_worker_that_failed(thread: str) -> None:
    held: list[weakref.ref[Tensors]] = []
    both = threading.Barrier(2, timeout=10)

    def work(item: int, check: Callable[[], None]) -> None:
        both.wait()
        if threading.current_thread().name == thread:
            tensors = Tensors()
            held.append(weakref.ref(tensors))
            raise MemoryError

    gc.disable()
    try:
        with suppress(MemoryError):
            in_threads(work, range(2), 2)
        assert held[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(("workers", "failing"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_a_failure_ends_what_is_in_work(workers: int, failing: int) -> None:
    begun: list[int] = []
    stopped: list[int] = []
    all_of_them = threading.Barrier(workers, timeout=10)

    def work(item: int, check: Callable[[], None]) -> None:
        begun.append(item)
        if item < workers:
            all_of_them.wait()
        if item == failing:
            raise ZeroDivisionError
        try:
            while True:
                check()
        except CancelledError:
            stopped.append(item)
            raise

    with pytest.raises(ZeroDivisionError):
        in_threads(work, range(100), workers)
    assert sorted(begun) == list(range(workers))
    assert sorted(stopped) == sorted(set(begun) - {failing})
