"""Draws how runs learned, by update: the nll (loss without smoothing) of training and validation, and validation BLEU.

Models of labels have accuracy in its place. If the nll of training (a line) still falls while that of validation
(dashed) rises, the model learns the training text by heart.

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
    labels = any(row["kind"] == "validation" and "bleu" not in row for run in rows.values() for row in run)
    score, label = ("accuracy", "validation accuracy") if labels else ("bleu", "validation BLEU, greedy")

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
    for number, (name, run) in enumerate(rows.items()):
        color = f"C{number}"
        left.plot(*curve(run, "train", "nll"), color=color, label=name if len(rows) > 1 else None)
        left.plot(*curve(run, "validation", "nll"), color=color, linestyle="dashed", marker=".")
        right.plot(*curve(run, "validation", score), color=color, marker=".")
    left.plot([], [], color="gray", label="training")
    left.plot([], [], color="gray", linestyle="dashed", marker=".", label="validation")
    left.legend(frameon=False)
    left.set_ylabel("nll, nats a token")
    right.set_ylabel(label)
    for axis in (left, right):
        axis.set_xlabel("update")
        axis.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(args.output, dpi=120, metadata={"Software": None})
    except (OSError, ValueError) as error:  # the latter for an unknown kind of picture
        parser.error(f"{args.output} cannot be written: {error}")


def curve(run: list[dict[str, Any]], kind: str, figure: str) -> tuple[list[int], list[float]]:
    """The updates at which the log has this figure, and the figure there."""
    found = [row for row in run if row["kind"] == kind and figure in row]
    return [row["step"] for row in found], [row[figure] for row in found]


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The rows of a run's log, except one that is being written."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    return [row for row in rows if row["kind"]]


if __name__ == "__main__":
    main()
