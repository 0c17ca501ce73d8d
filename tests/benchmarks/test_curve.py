"""What benchmarks/curve.py draws."""

import sys
from pathlib import Path

import curve
import pytest


def test_a_name_between_dollar_signs_is_no_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, picture = [tmp_path / "a", tmp_path / r"$\b$"], tmp_path / "picture.png"
    for run in runs:
        run.mkdir()
        (run / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "nll": 2.0}\n', encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["curve.py", *map(str, runs), "--output", str(picture)])
    curve.main()
    assert picture.stat().st_size > 0
