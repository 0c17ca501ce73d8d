"""Whoever asks a benchmark for help gets an answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))

# All of them in one process, because PyTorch takes seconds to import.
ASK = """
import runpy
import sys

for benchmark in sys.argv[1:]:
    sys.argv = [benchmark, "--help"]
    try:
        runpy.run_path(benchmark, run_name="__main__")
    except SystemExit as end:
        print(end.code, end="\\0")
"""


@pytest.fixture(scope="module")
def answers() -> dict[Path, str]:
    """What each benchmark says, and then its exit code or why it ended."""
    assert len(BENCHMARKS) >= 8
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", ASK, *map(str, BENCHMARKS)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return dict(zip(BENCHMARKS, done.stdout.split("\0"), strict=False))


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda path: path.name)
def test_every_benchmark_says_what_it_is_for(benchmark: Path, answers: dict[Path, str]) -> None:
    answer = answers[benchmark]
    assert f"python benchmarks/{benchmark.name}" in answer or f"benchmarks/{benchmark.name} is no program" in answer
