"""Trains every config in configs/roots/ for a few updates on the demo corpus, and uses what comes out.

    python benchmarks/roots.py [configs/roots/NAME.yaml …] [--steps 10] [--pairs 2000] [--folder FOLDER]

It shows that each of them runs, not how good it is: train, translate and evaluate are called as a user calls them, with
nothing changed except where the text is and how much of it there is, the number of updates, a single validation, and
translations a fifth as long as their source.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from translate.commands import evaluate, train, translate
from translate.commands.options import at_least

CONFIGS = sorted((ROOT / "configs" / "roots").glob("*.yaml"))
HELD_OUT = 3  # sentences to validate on, and to score: the large models decode slowly on a CPU


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", type=Path, nargs="*", default=CONFIGS, metavar="CONFIG", help="default: all")
    parser.add_argument("--steps", type=at_least(1), default=10, help="updates per config")
    parser.add_argument("--pairs", type=at_least(1), default=2000, help="sentence pairs to train on")
    parser.add_argument("--folder", type=Path, help="where the runs go; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        try:
            write_text(folder / "text", args.pairs)
        except OSError as error:
            parser.error(f"cannot write to {folder}: {error.strerror}")
        codes = [try_out(config, folder, args.steps) for config in args.configs]
    print(f"{codes.count(0)} of {len(codes)} configs train, translate and are scored", file=sys.stderr)
    return 0 if codes and not any(codes) else 1


def write_text(folder: Path, pairs: int) -> None:
    """The first lines of the corpora in data/, `pairs` of them to train on."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in {"train": pairs, "val": HELD_OUT, "test": HELD_OUT}.items():
        for file in (f"{split}.de", f"{split}.en", f"languages/{split}.tsv"):
            lines = (ROOT / "data" / file).read_text(encoding="utf-8").split("\n")[:count]
            (folder / Path(file).name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def try_out(config: Path, folder: Path, steps: int) -> int:
    """Train, translate and evaluate; the first exit code that is not 0, or 0."""
    print(f"\n--- {config.name}", file=sys.stderr)
    run = folder / config.stem
    model = ["--checkpoint", str(run / "model.safetensors")]
    overrides = [f"data.root={folder / 'text'}", f"data.cache={folder / 'cache'}", f"output={run}"]
    overrides += [f"training.max_steps={steps}", f"training.validate_every={steps}"]
    overrides += ["decoding.max_ratio=0.2", "decoding.max_extra=1"]
    code = (
        train.main(["--config", str(config), "--overwrite", *overrides])
        or translate.main([*model, "Ein Mann fährt Fahrrad."])
        or evaluate.main([*model, "--split", "test", "--search", "greedy"])
    )
    for state in (run / "states").glob("*.safetensors"):  # up to a gigabyte, and nobody resumes it
        state.unlink()
    return code


if __name__ == "__main__":
    sys.exit(main())
