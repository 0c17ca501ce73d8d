"""The files of training states: the last few, whole ones, and what happens to damaged ones."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest
import torch

from translate.errors import CheckpointError
from translate.system.files import atomic_file
from translate.system.storage import write_tensors
from translate.training.checkpoint import StateStore
from translate.training.writer import Writer


def store_with(folder: Path, keep_last: int, *steps: int) -> StateStore:
    """One that has written the states after these updates, in this order."""
    store = StateStore(folder, keep_last, Writer())
    for step in steps:
        store.save(step, {"weight": torch.ones(1)}, {"progress": {"step": step}, "identity": {}})
    store.writer.wait()
    return store


def test_only_a_state_that_is_still_being_written_is_unwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted run saves no other state while that is so, and one after its last update otherwise."""
    store, write, go_on = store_with(tmp_path, 2), StateStore._write, Event()

    def slowly(self: StateStore, *state: object) -> None:
        go_on.wait(60)
        write(self, *state)

    monkeypatch.setattr(StateStore, "_write", slowly)
    assert store.unwritten() is None
    store.save(3, {"weight": torch.ones(1)}, {})
    assert store.unwritten() == 3
    go_on.set()
    store.writer.wait()
    assert store.unwritten() is None


def test_a_state_of_another_format_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = store_with(tmp_path, 2, 1)
    newer = tmp_path / "step-00000002.safetensors"
    write_tensors(newer, {"weight": torch.zeros(1)}, {"format": "translate training state 3"})
    assert store.load_newest().progress["step"] == 1
    assert caplog.messages == [
        f"{newer} is not a training state of this version; using the previous training state instead"
    ]


@pytest.mark.parametrize("keep_last", [1, 2])
def test_no_state_is_removed_before_the_next_one_is_whole(
    keep_last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_with(tmp_path, keep_last, *range(1, keep_last + 1))
    before = store.paths()
    assert len(before) == keep_last
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("translate.system.files.os.fsync", Mock(side_effect=full))
    store.save(9, {"weight": torch.zeros(1)}, {})
    with pytest.raises(CheckpointError, match="No space left on device"):
        store.writer.wait()
    assert sorted(tmp_path.iterdir(), reverse=True) == before


def test_an_old_state_that_cannot_be_removed_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = tmp_path / "step-00000001.safetensors"
    (old / "x").mkdir(parents=True)
    assert store_with(tmp_path, 1, 2).load_newest().progress["step"] == 2
    assert caplog.messages == [f"{old}, which is no longer needed, cannot be removed: {os.strerror(errno.EISDIR)}"]


def test_what_a_killed_process_was_writing_is_cleared_away(tmp_path: Path) -> None:
    with suppress(KeyboardInterrupt), atomic_file(tmp_path / "step-00000001.safetensors") as file:
        shutil.copytree(file.parent, tmp_path / f"{file.parent.name}b")
        raise KeyboardInterrupt
    assert [path.name[:26] for path in tmp_path.iterdir()] == [".step-00000001.safetensors"]
    store_with(tmp_path, 1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002.safetensors"]


def test_a_damaged_state_does_not_count_as_one_of_the_last(tmp_path: Path) -> None:
    store = store_with(tmp_path, 2, 1, 5, 3)  # The run went back to a state before update 3.
    assert [path.name for path in store.paths()] == ["step-00000003.safetensors", "step-00000001.safetensors"]


def test_nor_does_one_that_is_older_than_the_next(tmp_path: Path) -> None:
    store_with(tmp_path, 2, 1, 3)
    (tmp_path / "step-00000003.safetensors").write_bytes(b"")
    store = StateStore(tmp_path, 2, Writer())
    assert store.load_newest().progress["step"] == 1
    for step, left in ((5, [5, 1]), (3, [3, 1]), (4, [4, 3])):
        store.save(step, {"weight": torch.ones(1)}, {})
        store.writer.wait()
        assert [path.name for path in store.paths()] == [f"step-0000000{number}.safetensors" for number in left]


@pytest.mark.parametrize("name", ["kept.safetensors", "the best.safetensors"])
def test_files_of_other_names_are_left_alone(name: str, tmp_path: Path) -> None:
    write_tensors(tmp_path / name, {"weight": torch.zeros(1)}, {})
    store = store_with(tmp_path, 1, 1, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "step-00000002.safetensors"])
    assert store.load_newest().progress["step"] == 2
