"""Every config in configs/roots/ trains, translates and is scored: all of them, found by the glob."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs" / "roots").glob("*.yaml"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the runs of all configs, one after the other in one process, which has to import PyTorch but once."""
    folder = tmp_path_factory.mktemp("roots")
    command = [sys.executable, ROOT / "benchmarks/roots.py", "--folder", folder, "--steps", "1", "--pairs", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield folder
    for heavy in folder.rglob("*.safetensors"):
        heavy.unlink()  # gigabytes


def test_there_are_some() -> None:
    assert len(CONFIGS) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_a_root(config: Path, runs: Path) -> None:
    run = runs / config.stem
    assert json.loads((run / "finished.json").read_text(encoding="utf-8"))["updates"] == 1
    assert (run / "test.json").is_file()
    assert (run / "test.txt").read_text(encoding="utf-8").count("\n") == 3
