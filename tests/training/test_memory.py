"""What tensors take, counted by hand and as the optimizers have it; when it has run out."""

from typing import Any

import pytest
import torch
from kinds_of_optimizers import KINDS, settings_of
from small_updates import small_model
from torch import Tensor

from translate.config.training import TrainingConfig
from translate.optimization.optimizer import build_optimizers
from translate.runs.resuming import is_free_to_change
from translate.training.memory import TensorMemory, human_size, lasting_memory, remedies, unsharded_bytes

CPU = torch.device("cpu")


# --- tensors ---------------------------------------------------------------------------------------------------------


def test_tensors_are_counted_while_they_are_there() -> None:
    before = torch.zeros(7)
    with TensorMemory() as memory:
        a = torch.zeros(1000)
        assert memory.now == 4000
        a.add_(1.0)
        before.mul_(2.0)
        parts = [a[:10], a.view(10, 100), before[:3], before.reshape(7, 1)]
        assert memory.now == 4000
        b = a.double()
        assert (memory.now, memory.peak) == (12000, 12000)
        del b
        del a
        assert memory.now == 4000  # There are views of it.
        parts.clear()
        assert (memory.now, memory.peak) == (0, 12000)


def test_activations_counted_by_hand() -> None:
    rows, width, hidden = 50, 8, 30
    x, w, v = torch.randn(rows, width), torch.randn(width, hidden), torch.randn(hidden, width)
    for weight in (w, v):
        weight.requires_grad_()
        weight.grad = torch.zeros_like(weight)
    with TensorMemory() as memory:
        y = (x @ w).relu() @ v
        assert memory.now == 4 * rows * (hidden + width)  # what relu has made, for the gradient of v, and y
        assert memory.peak == 4 * rows * 2 * hidden  # what goes into relu, and what comes out
        y.sum().backward()
        # y, relu(x @ w), its gradient and that of what goes into relu; the sum and its gradient.
        assert memory.peak == 4 * (rows * (width + 3 * hidden) + 2)
        del y
        assert memory.now == 0


def test_too_much_is_told_once_and_at_once() -> None:
    told: list[int] = []
    with TensorMemory(1000, lambda: told.append(1)):
        few = [torch.zeros(125) for _ in range(2)]
        assert told == []
        few += [torch.zeros(125)]
        assert told == [1]
        few += [torch.zeros(125)]
    assert told == [1]


# --- what lasts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_of_the_optimizers_is_known_beforehand(kind: str) -> None:
    config = TrainingConfig(optimizer=settings_of(kind))
    model = small_model()
    optimizers = build_optimizers(config.optimizer, model)
    before = lasting_memory(model, optimizers, config, CPU)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    for optimizer in optimizers:
        optimizer.step()
    state = [t for optimizer in optimizers for values in optimizer.state.values() for t in values.values() if t.ndim]
    weights = unsharded_bytes(model.parameters())
    assert before.parts["optimizer"] == unsharded_bytes(state) > 0
    assert before.parts["weights"] == before.parts["gradients"] == weights > 0
    assert before.parts["write buffers"] == 2 * weights + unsharded_bytes(state)
    assert before.to_come == sum(before.parts.values()) - weights
    # Of a run that is resumed the state is there.
    after = lasting_memory(model, optimizers, config, CPU)
    assert after.parts == before.parts
    assert after.to_come == before.to_come - unsharded_bytes(state)


def test_each_worker_has_its_own_gradients() -> None:
    config, model = TrainingConfig(), small_model()
    optimizers = build_optimizers(config.optimizer, model)
    one, three = (lasting_memory(model, optimizers, config, CPU, workers) for workers in (1, 3))
    further = 2 * unsharded_bytes(model.parameters())
    assert three.parts == {**one.parts, "gradients": one.parts["gradients"] + further}
    assert three.to_come == one.to_come + further


def test_of_a_shared_out_model_a_process_has_a_part_and_writes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    config, model = TrainingConfig(), small_model()
    optimizers = build_optimizers(config.optimizer, model)
    whole = lasting_memory(model, optimizers, config, CPU).parts
    largest = max(model.parameters(), key=Tensor.numel)
    monkeypatch.setattr(largest, "to_local", lambda: largest.detach()[:1], raising=False)
    saved = unsharded_bytes([largest.detach()[1:]])
    part = lasting_memory(model, optimizers, config, CPU).parts
    assert {name: whole[name] - part[name] for name in part} == {
        "weights": saved,
        "gradients": saved,
        "optimizer": 2 * saved,
        "write buffers": 0,
    }


def test_copies_are_on_the_cpu_and_one_more_with_snapshots() -> None:
    model = small_model()

    def copies(device: str, **settings: Any) -> int:
        config = TrainingConfig(**settings)
        optimizers = build_optimizers(config.optimizer, model)
        return lasting_memory(model, optimizers, config, torch.device(device)).parts["write buffers"]

    assert copies("cpu", average_last=3) == copies("cpu") + unsharded_bytes(model.parameters())
    assert copies("cuda") == 0


# --- when it has run out ---------------------------------------------------------------------------------------------


def test_what_to_change() -> None:
    config = TrainingConfig()
    lower = "lower training.batch.max_tokens (now 4096) and raise training.batch.accumulate to make up for it"
    assert remedies(config) == f"set training.activation_checkpointing: true, or in a new run {lower}"
    assert remedies(config.model_copy(update={"activation_checkpointing": True})) == f"in a new run {lower}"
    assert ": true, or train with fewer than 3 processes, or in a new run " in remedies(config, sharing=3)
    assert remedies(config, alone=9) == (
        "set training.activation_checkpointing: true, or in a new run lower data.filter.max_tokens: the largest batch "
        "is one line, of 9 tokens"
    )


def test_what_needs_no_new_run_may_change_when_a_run_is_resumed() -> None:
    assert is_free_to_change("training.activation_checkpointing")
    assert is_free_to_change("processes")
    assert not is_free_to_change("training.batch.max_tokens")


def test_sizes_for_people() -> None:
    assert [human_size(n) for n in (0, 3 * 2**20, 2**30 - 2**20, 2**30, 13.37 * 2**30)] == [
        "0 MiB",
        "3 MiB",
        "1023 MiB",
        "1.0 GiB",
        "13.4 GiB",
    ]
