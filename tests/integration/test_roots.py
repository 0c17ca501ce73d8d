"""Every config in configs/roots/ trains, translates and is scored: all of them, found by the glob."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs" / "roots").glob("*.yaml"))


def test_there_are_some() -> None:
    assert len(CONFIGS) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_a_root(config: Path, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks/roots.py", config, "--folder", tmp_path]
    done = subprocess.run([*command, "--steps", "2", "--pairs", "8"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = tmp_path / config.stem
    assert json.loads((run / "finished.json").read_text(encoding="utf-8"))["updates"] == 2
    assert (run / "test.json").is_file()
    assert (run / "test.txt").read_text(encoding="utf-8").count("\n") == 8
    for heavy in run.rglob("*.safetensors"):
        heavy.unlink()  # up to a gigabyte
