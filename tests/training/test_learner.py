"""What a learner sets up for its processes."""

import pytest
import torch
from small_updates import small_model

from translate.config.training import TrainingConfig
from translate.distributed.parallel import Single
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.model.layers import blocks_of
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


@pytest.mark.parametrize("asked", [False, True])
def test_blocks_compute_again_for_the_gradient_where_the_settings_say_so(asked: bool) -> None:
    computed: list[None] = []
    model, config = small_model(), TrainingConfig(activation_checkpointing=asked)
    blocks = blocks_of(model)
    for block in blocks:
        block.feed_forward.register_forward_pre_hook(lambda *_: computed.append(None))
    Learner(model, config, torch.device("cpu"), torch.float32, SINGLE_PROCESS, updates_per_epoch=1)
    tokens, mask = torch.ones(1, 3, dtype=torch.int64), torch.ones(1, 3, dtype=torch.bool)
    model(tokens, mask, tokens, mask).sum().backward()
    assert len(computed) == len(blocks) * (2 if asked else 1)
