"""The folder of a run: what counts as one that was begun, and what goes when another begins there."""

from pathlib import Path

import pytest

from translate.runs import RunFolder


@pytest.mark.parametrize("name", ["model.safetensors", "states/step-00000001.safetensors"])
def test_a_model_or_a_state_is_a_run(name: str, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.make()
    assert not run.is_started()
    (tmp_path / name).touch()
    assert run.is_started()


def test_a_run_begins_with_nothing_of_the_one_before(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.make()
    run.snapshots.mkdir()
    earlier = [run.model, run.metrics, run.finished, run.states / "step-1.safetensors", run.snapshots / "1.safetensors"]
    for path in (*earlier, run.config, tmp_path / "notes.txt"):
        path.touch()
    run.begin("seed: 1\n")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"config.yaml", "notes.txt"}
    assert run.config.read_text(encoding="utf-8") == "seed: 1\n"
