"""Snapshots of weights, and their mean."""

from pathlib import Path

import pytest
import torch
from torch import nn

from translate.errors import CheckpointError
from translate.training.checkpoint import StateStore
from translate.training.snapshots import Snapshots
from translate.training.writer import Writer


def model(value: float) -> nn.Linear:
    linear = nn.Linear(2, 3)
    for parameter in linear.parameters():
        nn.init.constant_(parameter, value)
    return linear


def test_the_mean_of_the_last_ones(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path / "made", 3, Writer())
    assert snapshots.mean() == (0, {})
    for step, value in enumerate((100.0, 1.0, 2.0, 6.0)):
        snapshots.add(step, model(value))
    count, mean = snapshots.mean()
    assert count == 3
    assert {name: tensor.shape for name, tensor in mean.items()} == {"weight": (3, 2), "bias": (3,)}
    assert all(torch.equal(tensor, torch.full_like(tensor, 3.0)) for tensor in mean.values())


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(CheckpointError, match=r"cannot write to .*taken: File exists; choose another folder: output=…"):
        Snapshots(tmp_path / "taken", 3, Writer())


def test_a_snapshot_is_no_training_state(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, 3, Writer())
    snapshots.add(1, model(1.0))
    snapshots.mean()  # By then it is written.
    with pytest.raises(CheckpointError, match="no usable training state in"):
        StateStore(tmp_path, 1, Writer()).load_newest()


def test_what_a_lost_run_left_is_replaced(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, 3, Writer())
    for step, value in ((1, 1.0), (2, 3.0), (3, 100.0), (2, 5.0)):  # back to a state before update 3
        snapshots.add(step, model(value))
    count, mean = snapshots.mean()
    assert count == 2
    assert all(torch.equal(tensor, torch.full_like(tensor, 3.0)) for tensor in mean.values())


def test_a_damaged_one_is_passed_over_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    snapshots = Snapshots(tmp_path, 3, Writer())
    for step, value in ((1, 1.0), (2, 3.0), (3, 100.0)):
        snapshots.add(step, model(value))
    snapshots.mean()  # By then all are written.
    newest = max(tmp_path.iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    count, mean = snapshots.mean()
    assert count == 2
    assert all(torch.equal(tensor, torch.full_like(tensor, 2.0)) for tensor in mean.values())
    [message] = caplog.messages
    assert newest.name in message
    assert message.endswith("; the average is computed without it")
    min(tmp_path.iterdir()).unlink()
    assert snapshots.mean()[0] == 1
