"""The folder of a run: what counts as one that was begun, and what goes when another begins there."""

import errno
import json
import os
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import torch

from translate.errors import CheckpointError
from translate.runs.folder import WRITTEN, RunFolder, is_found, newest_model
from translate.system.files import atomic_file
from translate.system.storage import write_tensors
from translate.training.checkpoint import StateStore
from translate.training.tracking import MetricsLog
from translate.training.writer import Writer


def finished_run(path: Path, time: int = 100) -> RunFolder:
    run = RunFolder(path)
    run.make()
    run.model.touch()
    run.finish({})
    os.utime(run.finished, (time, time))
    return run


@pytest.mark.parametrize("name", ["model.safetensors", "states/step-00000001.safetensors"])
def test_a_model_or_a_state_is_a_run(name: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.make()
    assert not run.has_model_or_states()
    (tmp_path / name).touch()
    assert run.has_model_or_states()


def test_a_folder_whose_name_is_too_long(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / ("x" * 300))
    with (
        pytest.raises(CheckpointError, match=r"cannot write to .*: File name too long; choose another"),
        run.exclusive(),
    ):
        pass


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"updates": 1e999}', '{"updates": null}', "[" * 100_000])
def test_a_mark_that_is_damaged_is_none(content: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.finished_after() is None
    run.finished.write_text(content, encoding="utf-8")
    assert run.finished_after() is None


def test_the_newest_run_may_lie_deeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    finished_run(tmp_path / "checkpoints/one", time=100)
    newest = finished_run(tmp_path / "checkpoints/sweep/two", time=200)
    assert newest_model() == newest.model


def test_of_runs_that_finished_at_the_same_time_it_is_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As copies may all have the time of copying."""
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    for name in "aghcbfde":
        finished_run(tmp_path / "checkpoints" / name)
    assert newest_model().parent.name == "h"


def test_the_newest_run_may_be_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    run = finished_run(tmp_path / "large disk" / "run")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "linked").symlink_to(run.path, target_is_directory=True)
    assert newest_model() == tmp_path / "checkpoints" / "linked" / "model.safetensors"
    assert is_found(RunFolder(tmp_path / "checkpoints" / "linked"))


def test_checkpoints_may_be_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    (tmp_path / "large disk").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "large disk", target_is_directory=True)
    assert is_found(RunFolder(tmp_path / "checkpoints" / "run"))
    assert is_found(RunFolder(tmp_path / "large disk" / "run"))
    assert not is_found(RunFolder(tmp_path / "run"))


def test_a_link_to_a_run_in_checkpoints_that_are_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    run = finished_run(tmp_path / "another disk" / "run")
    (tmp_path / "large disk").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "large disk", target_is_directory=True)
    linked = RunFolder(tmp_path / "checkpoints" / "linked")
    linked.path.symlink_to(run.path, target_is_directory=True)
    assert newest_model() == linked.model
    assert is_found(linked)


def test_a_run_begins_with_nothing_of_the_one_before(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.make()
    run.snapshots.mkdir()
    earlier = [run.model, run.metrics, run.finished, run.states / "step-1.safetensors", run.snapshots / "1.safetensors"]
    for path in (*earlier, run.config, tmp_path / "notes.txt"):
        path.touch()
    run.begin("seed: 1\n")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"config.yaml", "notes.txt"}
    assert run.config.read_text(encoding="utf-8") == f"{WRITTEN}seed: 1\n"


def test_where_states_cannot_be_removed_the_model_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path)
    run.make()
    kept = [run.model, run.metrics, run.finished, run.states / "step-1.safetensors"]
    for path in kept:
        path.touch()

    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.parent == run.states:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(CheckpointError, match="Permission denied"):
        run.begin("seed: 1\n")
    assert all(path.is_file() for path in kept)


def test_states_that_cannot_be_seen_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    run = RunFolder(tmp_path)
    assert not run.has_states()
    run.make()
    monkeypatch.setattr(Path, "iterdir", refuse)
    message = re.escape(f"the folder {run.states} cannot be read: Permission denied")
    for look in (run.has_states, StateStore(run.states, 1, Writer()).load_newest, lambda: run.begin("seed: 1\n")):
        with pytest.raises(CheckpointError, match=message):
            look()


@pytest.mark.parametrize("name", [".", "states"])
@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EACCES, ""), (errno.EROFS, ""), (errno.EFBIG, ""), (errno.ENOSPC, "free some space, or ")],
)
def test_a_folder_that_cannot_be_written_to_is_noticed_first(
    number: int, remedy: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> AbstractContextManager[None]:
        if dir == tmp_path / name:
            raise OSError(number, os.strerror(number))
        return nullcontext()

    monkeypatch.setattr("translate.runs.folder.TemporaryFile", refuse)
    with pytest.raises(CheckpointError) as caught:
        RunFolder(tmp_path).make()
    what = f"cannot write to {tmp_path}: {os.strerror(number)}"
    assert str(caught.value) == f"{what}; {remedy}choose another folder: output=…"


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "snapshots/a.safetensors", "test.json"])
def test_files_are_somebodys_own_unless_a_run_wrote_the_config(name: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.make()
    run.snapshots.mkdir()
    (tmp_path / "notes.json").write_text("{}")
    assert run.files_of_others() == []
    own = tmp_path / name
    own.write_text('{"model": 1, "decoding": 2, "sentences_per_second": 3}')
    assert run.files_of_others() == [own]
    run.model.touch()  # as by an earlier version, which wrote configs without their first line
    assert run.files_of_others() == []
    run.begin("seed: 1\n")
    assert not own.exists() or own == run.config
    run.metrics.touch()
    assert run.files_of_others() == []


def test_a_config_that_cannot_be_read_may_be_somebodys_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    run = RunFolder(tmp_path)
    run.config.touch()
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(CheckpointError, match="Permission denied; choose another folder"):
        run.files_of_others()


@pytest.mark.parametrize("name", ["model.safetensors", "states/step-00000001.safetensors", "finished.json"])
def test_a_folder_is_taken_by_a_run_and_by_what_is_left_of_a_finished_one(name: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.make()
    run.begin("seed: 1\n")
    assert not run.holds_a_run()  # It has nothing to lose yet.
    (tmp_path / name).touch()
    assert run.holds_a_run()


def test_a_resumed_run_has_the_config_that_it_goes_on_with(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    run.make()
    run.begin("seed: 1\n")
    run.go_on("seed: 2\n")
    assert run.config.read_text(encoding="utf-8").endswith("seed: 2\n")


def test_the_newest_model_is_of_the_run_that_finished_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    with pytest.raises(CheckpointError) as caught:
        newest_model()
    assert str(caught.value) == (
        f"no finished run under {tmp_path / 'checkpoints'}; train one with: "
        "python scripts/train.py --config configs/demo.yaml, or name a model file with --checkpoint FILE"
    )
    runs = tmp_path / "checkpoints"
    finished_run(runs / "older", time=100)
    newest = finished_run(runs / "newest", time=300)
    finished_run(runs / "without a model", time=400).model.unlink()
    finished_run(runs / "under way", time=500).finished.unlink()
    finished_run(runs / "zzz", time=200)
    assert newest_model() == newest.model


def test_a_finished_run_that_goes_on_stays_the_newest_unless_its_model_is_lost(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    write_tensors(run.model, {"weight": torch.ones(1)}, {})
    run.go_on("seed: 1\n")
    assert run.finished.exists()
    run.model.write_bytes(b"damaged")
    run.go_on("seed: 1\n")
    assert not run.finished.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "finished.json"])
def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path, name: str) -> None:
    run = RunFolder(tmp_path)
    run.make()
    held = atomic_file(tmp_path / name)
    held.__enter__()  # as a killed process leaves it
    (left,) = tmp_path.glob(f".{name}.*/")
    run.go_on("seed: 1\n")
    assert not left.exists()


def report_on(*models: Path) -> str:
    return json.dumps({"model": {}, "decoding": {}, "sentences_per_second": 1, "checkpoints": list(map(str, models))})


@pytest.mark.parametrize("name", ["run", "link"])
def test_reports_about_models_elsewhere_stay(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "run").mkdir()
    run, own, other = RunFolder(tmp_path / name), tmp_path / "run/model.safetensors", tmp_path / "other.safetensors"
    run.make()
    other.touch()
    own.touch()
    reports = {"own": [own], "ensemble": [other, own], "moved": [tmp_path / "gone"], "other": [other]}
    for name, models in reports.items():
        (run.path / f"{name}.json").write_text(report_on(*models), encoding="utf-8")
        (run.path / f"{name}.txt").touch()
    run.begin("seed: 1\n")
    assert {path.name for path in run.path.glob("*.*") if path.name != "config.yaml"} == {"other.json", "other.txt"}
    assert run.files_of_others() == []


@pytest.mark.parametrize(("validations", "cut_off"), [(0, True), (1, True), (2, False)])
def test_a_run_that_was_validated_twice_was_not_cut_off_before_its_first_state(
    validations: int, cut_off: bool, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path)
    run.make()
    run.begin("seed: 1\n")
    log = MetricsLog(run.metrics, keep_bytes=0)
    for step in range(validations):
        log.write("train", {"step": step}, {})
        log.write("validation", {"step": step}, {})
    log.close()
    assert run.was_cut_off("seed: 1\n") == cut_off


@pytest.mark.parametrize("left", ["states/step-00000001.safetensors", "finished.json"])
def test_a_run_with_a_state_or_a_mark_was_not_cut_off(left: str, tmp_path: Path) -> None:
    """So --resume-or-start does not replace a finished run whose states were removed to make room."""
    run = RunFolder(tmp_path)
    run.make()
    run.begin("seed: 1\n")
    run.model.touch()
    assert run.was_cut_off("seed: 1\n")
    (tmp_path / left).touch()
    assert not run.was_cut_off("seed: 1\n")
