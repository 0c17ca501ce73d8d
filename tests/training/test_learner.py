"""What a learner sets up for its processes."""

import pytest
import torch
from small_updates import small_model

from translate.config.training import TrainingConfig
from translate.distributed.parallel import Single
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.system.interrupt import InterruptGuard
from translate.training import learner as learner_module
from translate.training.learner import Learner


class FirstOfTwo(Processes):
    count = local_count = 2


@pytest.mark.parametrize(("processes", "checked"), [(SINGLE_PROCESS, True), (FirstOfTwo(), False)], ids=["one", "two"])
def test_one_of_several_processes_does_not_abandon_an_update_alone(
    processes: Processes, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others would wait for it."""
    checks: list[None] = []
    monkeypatch.setattr(InterruptGuard, "check_if_late", lambda self: checks.append(None))
    monkeypatch.setattr(learner_module, "build_parallel", lambda kind, model, processes: Single(model))
    model = small_model()
    Learner(model, TrainingConfig(), torch.device("cpu"), torch.float32, processes, updates_per_epoch=1)
    tokens, mask = torch.ones(1, 3, dtype=torch.int64), torch.ones(1, 3, dtype=torch.bool)
    model(tokens, mask, tokens, mask)
    assert (len(checks) > 0) == checked
