"""How many processes train.py starts; that they train one model is tested in integration/test_processes.py."""

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tiny_project import Call, Project

from translate.commands import companions
from translate.commands.companions import processes_for
from translate.commands.train import main
from translate.config.loading import load_config
from translate.errors import TrainingError


@pytest.mark.parametrize(
    ("cores", "cuda", "overrides", "wanted"),
    [
        (1, False, [], 1),
        (2, False, [], 2),
        (16, False, [], 2),
        (16, True, [], 1),
        (16, True, ["device=cpu"], 2),
        (16, False, ["processes=5"], 5),
        (2, False, ["processes=1"], 1),
        (2, False, ["threads=1"], 2),
        (2, False, ["threads=2"], 1),
        (4, False, ["threads=2"], 2),
        (2, False, ["threads=8"], 1),
        (2, False, ["model.d_model=512"], 1),
        (2, False, ["model.d_model=512", "processes=2"], 2),
    ],
)
def test_how_many(
    cores: int, cuda: bool, overrides: list[str], wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(companions, "cores", lambda: cores)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    (tmp_path / "empty.yaml").touch()
    assert processes_for(load_config(tmp_path / "empty.yaml", overrides)) == wanted


def test_windows_has_one_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.yaml").touch()
    monkeypatch.setattr(companions, "cores", lambda: 16)
    monkeypatch.setattr("sys.platform", "win32")
    assert processes_for(load_config(tmp_path / "empty.yaml", ["device=cpu"])) == 1
    assert processes_for(load_config(tmp_path / "empty.yaml", ["device=cpu", "processes=2"])) == 2


def test_threads_of_the_environment_are_those_of_each_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty.yaml").touch()
    config = load_config(tmp_path / "empty.yaml", ["device=cpu"])
    monkeypatch.setattr(companions, "cores", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for threads, wanted in ((2, 1), (1, 2)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert processes_for(config) == wanted


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
