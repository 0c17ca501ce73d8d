"""Processes that cannot begin; that they train one model is tested in integration/test_processes.py."""

import os

import pytest
import torch.distributed as dist
from tiny_project import Call, Project

from translate.commands import companions
from translate.commands.train import main
from translate.errors import TrainingError


def test_a_companion_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companions, "START", "raise SystemExit(7)")
    with pytest.raises(TrainingError) as caught, companions.companions(2, []):
        raise AssertionError("it did not come")
    assert str(caught.value) == (
        "a process that was started to train with this one ended with exit code 7; its own message says why. "
        "With processes=1, this one trains alone"
    )
    assert "WORLD_SIZE" not in os.environ


@pytest.mark.slow
def test_a_mistake_leaves_nothing_behind(call: Call, untrained: Project) -> None:
    (untrained.corpus / "val.it").unlink()
    for _ in range(2):
        said = call(main, "--config", untrained.config, "processes=2")
        assert said.code == 2
        assert said.err.count("error: ") == 1
        assert "val.it" in said.err
        assert not dist.is_initialized()
    assert "WORLD_SIZE" not in os.environ
