"""What benchmarks/curve.py draws."""

import json
import sys
from pathlib import Path
from typing import Any

import curve
import pytest


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"kind": "validation", "step": 1, "nll": None, "accuracy": 0.0, "bleu": 0.0}],
        [{"kind": "validation", "step": step, "nll": 2.0, "accuracy": 0.5} for step in (1, 2)],
    ],
    ids=["before the first validation", "infinite loss", "labels"],
)
def test_runs_of_all_kinds(rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, picture = [tmp_path / "a", tmp_path / r"$\b$"], tmp_path / "picture.png"  # no formula
    for run in runs:
        run.mkdir()
        lines = [json.dumps(row) for row in ({"kind": "train", "step": 1, "nll": 2.0}, *rows)]
        (run / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["curve.py", *map(str, runs), "--output", str(picture)])
    curve.main()
    assert picture.stat().st_size > 0


def test_a_curve_has_the_rows_of_one_kind_that_have_the_figure() -> None:
    rows = [
        {"kind": "train", "step": 1, "nll": 3.0},
        {"kind": "validation", "step": 1, "nll": 2.5, "bleu": 7.0},
        {"kind": "train", "step": 2, "nll": 2.0},
        {"kind": "validation of the mean", "step": 2, "nll": 2.25, "bleu": 8.0},
    ]
    assert curve.curve(rows, "train", "nll") == ([1, 2], [3.0, 2.0])
    assert curve.curve(rows, "validation", "nll") == ([1], [2.5])
    assert curve.curve(rows, "train", "bleu") == ([], [])
