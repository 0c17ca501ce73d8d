"""The same work in this process and in several."""

import errno
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from translate.errors import DataError
from translate.system import pool
from translate.system.pool import chunks, mapped

ROOT = Path(__file__).resolve().parents[2]


def test_chunks_are_consecutive_lines() -> None:
    assert list(chunks(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(chunks([], 2)) == []


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "cpu_quota", lambda: math.inf)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert pool.cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS and Windows
    assert pool.cores() == 8


@pytest.mark.parametrize(("quota", "cores"), [(0.05, 1), (2.0, 2), (2.01, 3), (7.5, 8), (12.0, 8)])
def test_cores_are_no_more_than_a_container_may_keep_busy(
    quota: float, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(pool, "cpu_quota", lambda: quota)
    assert pool.cores() == cores


def test_few_items_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_Worker", None)
    for cores in (1, 8):
        monkeypatch.setattr(pool, "cores", lambda cores=cores: cores)
        assert list(mapped(sorted, ["ba"] * 9, "sorting")) == [["a", "b"]] * 9
        assert list(mapped(sorted, [], "sorting")) == []


def test_one_core_gets_no_other_process_and_one_item_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "cores", lambda: 1)
    items = iter(["ba"] * 100)
    assert next(mapped(sorted, items, "sorting")) == ["a", "b"]
    assert len(list(items)) == 99


@pytest.fixture
def started(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes started in a test, by two at a time; none of them is left at its end."""
    monkeypatch.setattr(pool, "MIN_ITEMS", 1)
    monkeypatch.setattr(pool, "cores", lambda: 2)
    yield processes
    assert processes
    assert None not in [process.returncode for process in processes]


@pytest.mark.usefixtures("started")
def test_several_processes_answer_as_one_and_in_order() -> None:
    items = [str(number) for number in range(41)]
    assert list(mapped(int, items, "reading")) == list(range(41))
    assert list(mapped(int, items[:1], "reading")) == [0]  # One of the processes gets nothing.


@pytest.mark.usefixtures("started")
def test_each_process_has_an_item_before_one_is_waited_for() -> None:
    items = map(str, range(9))
    with closing(mapped(int, items, "reading")) as answers:
        assert next(answers) == 0
        assert next(items) == "3"  # 2 is for the process that has just answered.


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_fewer_processes_do_if_the_system_allows_no_more(allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MIN_ITEMS", 1)
    monkeypatch.setattr(pool, "cores", lambda: 3)
    popen, started = subprocess.Popen, []

    def start(*arguments: Any, **keywords: Any) -> subprocess.Popen[bytes]:
        if len(started) == allowed:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        started.append(popen(*arguments, **keywords))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    assert list(mapped(int, [str(number) for number in range(9)], "reading")) == list(range(9))
    assert len(started) == allowed
    assert None not in [process.returncode for process in started]


def test_all_processes_start_before_one_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large question waits until its reader has loaded its libraries."""
    monkeypatch.setattr(pool, "MIN_ITEMS", 1)
    monkeypatch.setattr(pool, "cores", lambda: 2)
    done: list[str] = []
    start, ask = pool._Worker.__init__, pool._Worker.ask

    def watched_start(self: pool._Worker) -> None:
        done.append("start")
        start(self)

    def watched_ask(self: pool._Worker, question: Any) -> None:
        done.append("ask")
        ask(self, question)

    monkeypatch.setattr(pool._Worker, "__init__", watched_start)
    monkeypatch.setattr(pool._Worker, "ask", watched_ask)
    assert list(mapped(int, ["1"], "reading")) == [1]
    assert done == ["start", "start", "ask", "ask", "ask"]


@pytest.mark.usefixtures("started")
def test_what_is_printed_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "print('Welcome!', flush=True)\ndef work(item):\n    print('Working.', flush=True)\n    return item + 1\n"
    (tmp_path / "chatty.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from chatty import work

    assert list(mapped(work, [1, 2, 3], "counting")) == [2, 3, 4]


@pytest.mark.usefixtures("started")
def test_an_error_in_a_process_is_an_error_of_this_one() -> None:
    answers = mapped(int, ["1", "one"], "reading")
    assert next(answers) == 1
    with pytest.raises(ValueError, match="invalid literal for int"):
        next(answers)


@pytest.mark.usefixtures("started")
def test_a_process_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hungry.py").write_text("def work(item):\n    raise MemoryError\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from hungry import work

    with pytest.raises(DataError, match=r"^a tokenization process has run out of memory; let this run use fewer cores"):
        list(mapped(work, [1], "counting"))


def test_a_process_that_is_killed(started: list[subprocess.Popen[bytes]]) -> None:
    answers = mapped(int, ["1"] * 50, "reading")
    next(answers)
    for process in started:
        process.kill()
    with pytest.raises(DataError, match=r"^a tokenization process ended with exit code -9; if memory ran out, "):
        list(answers)


def test_a_process_that_is_killed_while_it_answers(started: list[subprocess.Popen[bytes]]) -> None:
    answers = mapped("x".__mul__, [1, 10_000_000], "growing")  # the latter more than a pipe holds
    assert next(answers) == "x"
    select.select([started[1].stdout], [], [])
    started[1].kill()
    with pytest.raises(DataError, match=r"^a tokenization process ended with exit code -9; if memory ran out, "):
        next(answers)


class Deadly:
    """Work that ends the process that gets it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (7,)

    def __call__(self, item: str) -> str:
        return item


@pytest.mark.usefixtures("started")
def test_a_process_that_has_ended_before_it_is_asked() -> None:
    item = "x" * 1_000_000  # more than a pipe holds
    with pytest.raises(DataError, match="a tokenization process ended with exit code 7; if memory ran out, "):
        list(mapped(Deadly(), [item], "nothing"))


def test_who_stops_asking_ends_the_processes(started: list[subprocess.Popen[bytes]]) -> None:
    answers = mapped(int, ["1"] * 50, "reading")
    next(answers)
    assert [process.poll() for process in started] == [None, None]
    with pytest.raises(KeyboardInterrupt):
        answers.throw(KeyboardInterrupt())


ENDLESS = """
import itertools
from translate.system import pool

pool.cores = lambda: 2
for answer in pool.mapped(int, itertools.repeat("1"), "reading"):
    print("answered", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="process groups of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C comes to all processes of a group, even while some of them are starting."""
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "answered\n"
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=120)  # to the end: no other process holds the pipes any more
    assert process.returncode == -number
    assert said.count("Traceback") == (1 if number == signal.SIGINT else 0), said
