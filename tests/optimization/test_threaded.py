"""Passes in several threads give the gradients, and the figures, of passes one after the other."""

import gc
import threading
import weakref
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
from small_updates import CPU, UPDATES, small_model

from translate.config.training import TrainingConfig
from translate.data.batching import Batch
from translate.distributed.parallel import ParallelModel, Single
from translate.model.dropout import Dropout, drawing_from
from translate.optimization.build import build_update
from translate.optimization.threaded import ThreadedUpdate, view_of
from translate.optimization.update import Pass, Update

BATCHES = [*UPDATES[0], *UPDATES[1]]
TOKENS = float(sum(len(batch.labels_N) for batch in BATCHES))


def update_of(workers: int, *, dropout: float = 0.0, r_drop: float = 0.0) -> Update:
    torch.manual_seed(1)
    model = small_model()
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = dropout
    config = TrainingConfig(r_drop=r_drop)
    parallel = Single(model.train())
    if workers == 1:
        return Update(parallel, config, CPU, torch.float32)
    return ThreadedUpdate(parallel, config, CPU, torch.float32, workers=workers)


def passed(update: Update, batches: list[Batch] = BATCHES) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The figures and gradients of an update, whose batches are dealt out to its workers."""
    update.begin()
    passes = [[Pass(batch, 1) for batch in batches[worker :: update.workers]] for worker in range(update.workers)]
    sums = update.accumulate_all(passes, TOKENS).tolist()
    found = {name: p.grad.clone() for name, p in update.parallel.model.named_parameters() if p.grad is not None}
    return sums, found


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
@pytest.mark.parametrize("workers", [2, 3])
def test_figures_and_gradients_are_those_of_one_worker(workers: int, r_drop: float) -> None:
    plain, threaded = update_of(1, r_drop=r_drop), update_of(workers, r_drop=r_drop)
    for number in (1, 2, 3):  # with weights that differ each time
        sums, expected = passed(plain)
        found_sums, found = passed(threaded)
        assert found_sums == pytest.approx(sums, rel=1e-5)
        assert found.keys() == expected.keys() == dict(plain.parallel.model.named_parameters()).keys()
        for name, gradient in expected.items():
            assert (found[name] - gradient).norm() <= 1e-5 * gradient.norm(), name
        for update in (plain, threaded):
            update.clip()
            update.step(0.01 / number)


def test_a_pass_without_weight_counts_nothing() -> None:
    update, alone = update_of(2), update_of(1)
    update.begin()
    sums = update.accumulate_all([[Pass(BATCHES[0], 1)], [Pass(BATCHES[1], 0)]], TOKENS).tolist()
    alone.begin()
    assert sums == pytest.approx(alone.accumulate_all([[Pass(BATCHES[0], 1)]], TOKENS).tolist())
    for found, expected in zip(update.parallel.model.parameters(), alone.parallel.model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad)


def test_dropout_is_the_same_in_each_run_and_different_in_each_worker_and_update() -> None:
    same = [BATCHES[0], BATCHES[0]]
    runs = []
    for _ in range(3):
        update = update_of(2, dropout=0.3)
        runs.append([passed(update, same) for _ in range(2)])
    for run in runs[1:]:
        for (sums, gradients), (other_sums, other_gradients) in zip(runs[0], run, strict=True):
            assert sums == other_sums
            assert all(torch.equal(gradients[name], other_gradients[name]) for name in gradients)
    (first, _), (second, _) = runs[0]
    assert first != second
    torch.manual_seed(1)
    update = update_of(2, dropout=0.3)
    update.begin()
    seen: list[torch.Tensor] = []
    plain = update._pass

    def noted(*arguments: Any) -> torch.Tensor:
        seen.append(plain(*arguments))
        return seen[-1]

    update._pass = noted
    passed(update, same)
    one, other = seen
    assert not torch.equal(one, other)


def test_dropout_of_other_threads_draws_elsewhere() -> None:
    x, source = torch.ones(1000), torch.Generator().manual_seed(5)
    state = torch.get_rng_state()
    with drawing_from(source):
        ours = Dropout(0.5)(x)
        nearly_all = Dropout(0.999)(x)
        elsewhere: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: elsewhere.append(Dropout(0.5)(x)))
        assert torch.equal(torch.get_rng_state(), state)
        thread.start()
        thread.join()
    assert not torch.equal(torch.get_rng_state(), state)
    torch.set_rng_state(state)
    assert torch.equal(elsewhere[0], Dropout(0.5)(x))
    with drawing_from(torch.Generator().manual_seed(5)):
        assert torch.equal(ours, Dropout(0.5)(x))
        assert torch.equal(nearly_all, Dropout(0.999)(x))


def test_an_error_is_raised_once_all_workers_are_done() -> None:
    update = update_of(2)
    update.begin()
    ended = threading.Event()
    plain = update._pass

    def work(forward: Any, batch: Batch, share: float) -> torch.Tensor:
        if batch is BATCHES[0]:
            raise RuntimeError("not enough memory")
        try:
            return plain(forward, batch, share)
        finally:
            ended.set()

    update._pass = work
    with pytest.raises(RuntimeError, match="not enough memory"):
        passed(update, BATCHES[:2])
    assert ended.is_set()
    update._pass = plain
    sums, found = passed(update)
    expected_sums, expected = passed(update_of(1))
    assert sums == pytest.approx(expected_sums)
    assert all(torch.allclose(found[name], expected[name], atol=1e-6) for name in expected)


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_keeps_no_tensor_of_its_pass_alive(failing: int) -> None:
    """The same update is tried again, with smaller batches, and needs the memory."""
    update, held = update_of(2), []
    plain = update._pass

    def work(forward: Any, batch: Batch, share: float) -> torch.Tensor:
        if batch is BATCHES[failing]:
            tensor = torch.ones(3)
            held.append(weakref.ref(tensor))
            raise RuntimeError("not enough memory")
        return plain(forward, batch, share)

    update._pass = work
    gc.disable()
    try:
        with suppress(RuntimeError):
            passed(update, BATCHES[:2])
        assert held[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("failing", [False, True])
def test_the_calling_thread_is_a_worker_and_has_its_share_of_pytorchs_threads(failing: bool, two_threads: None) -> None:
    torch.set_num_threads(4)
    update = update_of(2)
    update.begin()
    seen: dict[str, int] = {}
    plain = update._pass

    def noted(*arguments: Any) -> torch.Tensor:
        seen[threading.current_thread().name] = torch.get_num_threads()
        if failing:
            raise RuntimeError("not enough memory")
        return plain(*arguments)

    update._pass = noted
    with pytest.raises(RuntimeError, match="not enough memory") if failing else nullcontext():
        passed(update, BATCHES[:2])
    assert seen == {"MainThread": 2, "worker_0": 2}
    assert torch.get_num_threads() == 4


def test_gradients_are_moved_to_the_models_parameters() -> None:
    update = update_of(2)
    passed(update)
    assert isinstance(update, ThreadedUpdate)
    own, other = update._views
    assert own is update.parallel.model
    assert all(parameter.grad is None for parameter in other.parameters())
    for mine, theirs in zip(own.parameters(), other.parameters(), strict=True):
        assert mine.data_ptr() == theirs.data_ptr()


def test_workers_train_a_model_that_was_in_use_before() -> None:
    assert all(module.training for module in view_of(small_model().eval()).modules())


@pytest.mark.parametrize(
    ("settings", "threads", "workers"),
    [
        ({}, 1, 1),
        ({}, 2, 2),
        ({}, 16, 2),
        ({"plain": ["loss", "memory", "graphs"]}, 2, 2),
        ({"plain": ["workers"]}, 2, 1),
        ({"plain": ["attention"]}, 2, 1),
        ({"plain": ["dropout"]}, 2, 1),
        ({"activation_checkpointing": True}, 2, 1),
    ],
)
def test_when_there_are_workers(
    settings: dict[str, Any], threads: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    config = TrainingConfig.model_validate(settings)
    assert build_update(Single(small_model()), config, CPU, torch.float32, updates=9).workers == workers
    several = ParallelModel(small_model())
    assert build_update(several, config, CPU, torch.float32, updates=9).workers == 1
