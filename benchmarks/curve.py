"""Draws how runs learned: training nll (loss without smoothing) by update, and validation BLEU if there are several.

    python benchmarks/curve.py RUN [RUN …] --output PICTURE.png

A RUN is a folder that training made; curves are labelled with its name. Needs matplotlib: pip install -e '.[dev]'.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
mpl.rcParams["text.parse_math"] = False  # What stands between two dollar signs is text, too.
from matplotlib import pyplot as plt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--output", type=Path, required=True, metavar="PICTURE")
    args = parser.parse_args()
    args.runs = [run.parent if run.name == "metrics.jsonl" else run for run in args.runs]
    names = [run.name for run in args.runs]
    missing = [str(run) for run in args.runs if not (run / "metrics.jsonl").is_file()]
    if missing:
        parser.error(f"there is no metrics.jsonl in {', '.join(missing)}")
    try:
        rows = {str(run) if names.count(run.name) > 1 else run.name: read_metrics(run) for run in args.runs}
    except (ValueError, TypeError, KeyError) as error:
        parser.error(f"a metrics.jsonl is damaged, or not the log of a run: {error!r}")
    if empty := [name for name, run in rows.items() if not any(row["kind"] == "train" for row in run)]:
        parser.error(f"there is nothing to draw in metrics.jsonl of {', '.join(empty)}")
    panels: list[tuple[str, str, str]] = [("train", "nll", "training nll, nats a token")]
    if any(sum(row["kind"] == "validation" and "bleu" in row for row in run) > 1 for run in rows.values()):
        panels.append(("validation", "bleu", "validation BLEU, greedy"))

    figure, axes = plt.subplots(1, len(panels), figsize=(4.5 * len(panels), 3), layout="constrained", squeeze=False)
    for axis, (kind, figure_name, label) in zip(axes[0], panels, strict=True):
        for name, run in rows.items():
            points = [(row["step"], row[figure_name]) for row in run if row["kind"] == kind and figure_name in row]
            axis.plot(
                *(zip(*points, strict=True) if points else ([], [])),
                label=name,
                marker="." if kind == "validation" else None,
            )
        axis.set_xlabel("update")
        axis.set_ylabel(label)
        axis.spines[["top", "right"]].set_visible(False)
    if len(rows) > 1:
        axes[0][0].legend(frameon=False)
    try:
        figure.savefig(args.output, dpi=120, metadata={"Software": None})
    except (OSError, ValueError) as error:  # the latter for an unknown kind of picture
        parser.error(f"{args.output} cannot be written: {error}")


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's log, except one that is being written."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    return [row for row in rows if row["kind"]]


if __name__ == "__main__":
    main()
