"""Whoever asks a benchmark for help gets an answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_every_benchmark_says_what_it_is_for(benchmark: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(benchmark), "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert "python benchmarks/" in done.stdout or "is no program" in done.stderr
    assert "Traceback" not in done.stderr
