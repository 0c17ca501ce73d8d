"""One update: the arithmetic of its passes, and the length of its gradient."""

import math
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_updates import CPU, UPDATES, small_model
from torch import Tensor

from translate.config.training import TrainingConfig
from translate.data.batching import Batch
from translate.distributed.parallel import Single
from translate.model.rows import ROWS
from translate.optimization.muon import Muon
from translate.optimization.update import Pass, Update


def passed(dtype: torch.dtype, clip_norm: float | None) -> tuple[Update, Tensor]:
    """An update with the gradients of one batch, and the logits that it passed."""
    torch.manual_seed(1)
    model = small_model()
    found: list[Tensor] = []
    model.register_forward_hook(lambda module, inputs, logits: found.append(logits.detach()))
    update = Update(Single(model), TrainingConfig(clip_norm=clip_norm), CPU, dtype)
    update.begin()
    update.accumulate(UPDATES[0][0], 1.0, last=True)
    return update, found[0]


def length(update: Update) -> float:
    gradients = (parameter.grad for parameter in update.parallel.model.parameters())
    return math.hypot(*(float(gradient.norm()) for gradient in gradients if gradient is not None))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_passes_are_in_the_arithmetic_that_was_asked_for(dtype: torch.dtype) -> None:
    assert passed(dtype, None)[1].dtype is dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matrices_are_made_orthogonal_in_it_too(dtype: torch.dtype) -> None:
    config = TrainingConfig.model_validate({"optimizer": {"kind": "muon"}})
    muon, _ = Update(Single(small_model()), config, CPU, dtype).optimizers
    assert isinstance(muon, Muon)
    assert muon.dtype is dtype


def test_rows_of_scores_are_a_multiple_where_each_number_of_rows_costs_machine_code() -> None:
    labels = len(UPDATES[0][0].labels_N)
    assert labels % ROWS > 0
    assert len(passed(torch.float32, None)[1]) == labels
    assert len(passed(torch.bfloat16, None)[1]) == labels + -labels % ROWS


def test_the_loss_is_told_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    update, told = passed(torch.float32, None)[0], []
    objective = update.objective

    def noted(*given: Any) -> tuple[Tensor, Tensor]:
        told.append(given[-1])
        return loss(*given)

    loss = objective.loss
    monkeypatch.setattr(update, "objective", replace(objective, loss=noted))
    update.accumulate(UPDATES[0][0], 1 / 3, last=True)
    assert told == [1 / 3]


def test_a_pass_without_weight_counts_nothing_and_the_last_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may have one pass more, and gradients are averaged once."""
    update, told, accumulate = passed(torch.float32, None)[0], [], Update.accumulate

    def noted(self: Update, batch: Batch, scale: float, *, last: bool) -> Tensor:
        told.append((scale, last))
        return accumulate(self, batch, scale, last=last)

    monkeypatch.setattr(Update, "accumulate", noted)
    passes = [Pass(UPDATES[0][0], 1), Pass(UPDATES[0][1], 1), Pass(UPDATES[1][0], 0)]
    sums = update.accumulate_all([passes], 10.0)
    assert told == [(0.1, False), (0.1, False), (0.0, True)]
    torch.testing.assert_close(sums, update.accumulate_all([passes[:2]], 10.0))


@pytest.mark.parametrize("clip_norm", [None, 0.01, 1e9])
def test_a_gradient_that_is_too_long_is_scaled_down(clip_norm: float | None) -> None:
    update, _ = passed(torch.float32, clip_norm)
    before = length(update)
    assert update.clip() == pytest.approx(before)
    assert length(update) == pytest.approx(0.01 if clip_norm == 0.01 else before, rel=1e-3)


def test_a_step_is_as_long_as_the_rate_asked_for() -> None:
    update, _ = passed(torch.float32, None)
    for rate in (0.0, 0.01, 0.002):  # Steps of Adam along the same gradient are of the rate's length.
        before = [parameter.detach().clone() for parameter in update.parallel.model.parameters()]
        update.step(rate)
        moved = [(a - b).abs().max().item() for a, b in zip(update.parallel.model.parameters(), before, strict=True)]
        assert max(moved) == pytest.approx(rate, rel=0.05)


class Noted(Single):
    """One of several processes, of which the others have the same gradient as this one."""

    def __init__(self) -> None:
        super().__init__(small_model())
        self.told: list[object] = []

    def __call__(self, *inputs: Tensor | None, **options: bool) -> Tensor:
        self.told.append("forward")
        return super().__call__(*inputs, **options)

    def backward_pass(self, *, last: bool) -> AbstractContextManager[None]:
        self.told.append(last)
        return super().backward_pass(last=last)

    def unsharded(self, tensor: Tensor) -> Tensor:
        return 2 * tensor


def test_processes_average_gradients_after_the_last_pass_and_not_before() -> None:
    """They run what averages, not the model itself: that would let each of them go its own way."""
    parallel = Noted()
    update = Update(parallel, TrainingConfig(), CPU, torch.float32)
    update.accumulate_all([[Pass(batch, 1) for batch in UPDATES[0]]], 10.0)
    assert parallel.told == [False, "forward", True, "forward"]


def test_the_length_of_a_sharded_gradient_is_that_of_the_whole() -> None:
    update = Update(Noted(), TrainingConfig(clip_norm=None), CPU, torch.float32)
    update.accumulate(UPDATES[0][0], 1.0, last=True)
    assert update.clip() == pytest.approx(2 * length(update))


def test_an_update_that_holds_nothing_for_later_has_no_memory_to_give_up() -> None:
    """If it said otherwise, a validation without memory would be tried again for ever."""
    assert not Update(Single(small_model()), TrainingConfig(), CPU, torch.float32).give_up_memory()
