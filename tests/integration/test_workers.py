"""Whole runs whose updates are made by several threads."""

from collections.abc import Callable, Iterator

import pytest
import torch
from test_several_processes import RUNS, WITHOUT_DROPOUT, assert_close_run
from tiny_runs import TinyProject, assert_same_run, newest_state, sigterm, stop, update

from translate.optimization.threaded import ThreadedUpdate
from translate.pipeline import train
from translate.runs.folder import RunFolder

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_thread_again() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    "settings", [(), ("training.batch.accumulate=3",), ("training.r_drop=2",), RUNS["batches of one pair"]]
)
def test_a_run_by_two_workers_ends_like_one_by_one(
    settings: tuple[str, ...], tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    run = train(tiny.config(*WITHOUT_DROPOUT, *settings, "threads=2"))
    torch.set_num_threads(1)
    assert_close_run(run, uninterrupted(*WITHOUT_DROPOUT, *settings))


def test_an_interrupted_run_ends_the_same_to_the_bit(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    wanted = uninterrupted("threads=2")
    stop(sigterm, update(5), tiny, "threads=2")
    assert_same_run(train(tiny.config("threads=2"), resume=True), wanted)


def test_an_update_that_would_take_long_is_made_again(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, uninterrupted: Callable[..., RunFolder]
) -> None:
    wanted = uninterrupted("threads=2")
    monkeypatch.setattr("translate.system.interrupt.WORTH_WAITING", -1.0)
    stop(sigterm, (ThreadedUpdate, "accumulate_all", 5), tiny, "threads=2")
    assert newest_state(RunFolder(tiny.folder / "run"))[1]["step"] == 4
    assert_same_run(train(tiny.config("threads=2"), resume=True), wanted)


def test_one_thread_can_resume_a_run_of_two(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    stop(sigterm, update(5), tiny, *WITHOUT_DROPOUT, "threads=2")
    assert_close_run(train(tiny.config(*WITHOUT_DROPOUT, "threads=1"), resume=True), uninterrupted(*WITHOUT_DROPOUT))


def test_workers_are_reported_and_memory_for_all_of_them(
    tiny: TinyProject, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    train(tiny.config("threads=2", "training.max_steps=2"))
    assert "; training on cpu, 2 workers of 1 CPU thread(s), in float32" in caplog.text
    assert ", activations of 2 times " in capsys.readouterr().err
