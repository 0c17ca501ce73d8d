"""What the choices are worth: tokenizations, and the variants of the model, side by side on the same pairs.

    python benchmarks/choices.py --data FOLDER [--seeds 1 2 3] [--only tokens|model] [--jobs 2] [section.key=value …]

Trains benchmarks/choices.yaml once for every choice and seed, each in a process of one thread, `--jobs` at a time, and
prints the tables of docs/choices.md. All runs see the same pairs equally often. Finished runs are not repeated,
and interrupted ones continue, so the command can be stopped and repeated.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from translate.commands.options import at_least
from translate.config.loading import load_config
from translate.data.corpora import corpora_of
from translate.data.splits import open_split
from translate.errors import TranslateError
from translate.model_file import SavedModel
from translate.runs.folder import RunFolder
from translate.text.vocabulary import UNK

CONFIG = ROOT / "benchmarks" / "choices.yaml"
TOKENS = ("word", "bpe", "wordpiece", "unigram", "char", "byte")
COMMON = ("target tokens per CPU second", "CPU minutes", "seeds")
CPU = "cpu-seconds"  # A file beside the model, if nothing interrupted the run. Other work does not change CPU time.
MODELS = list(itertools.product(("pre", "post"), ("sinusoidal", "learned"), ("relu", "gelu")))


def tokens_overrides(kind: str) -> list[str]:
    """Another tokenizer; words seen once are unknown, as usual."""
    return [f"text.tokenizer.kind={kind}", *(["text.tokenizer.min_freq=2"] if kind == "word" else [])]


def name_of(variant: tuple[str, ...]) -> str:
    """What runs with a variant of the model are called, before their seed."""
    return "-".join(("model", *variant))


def model_overrides(norm: str, positions: str, activation: str) -> list[str]:
    """Another variant of the model."""
    return [f"model.norm={norm}", f"model.positions={positions}", f"model.activation={activation}"]


CHOICES = {f"tokens-{kind}": tokens_overrides(kind) for kind in TOKENS} | {
    name_of(variant): model_overrides(*variant) for variant in MODELS
}
# This one is the same system as the subword one.
SAME = {"model-pre-sinusoidal-relu": "tokens-bpe"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Multi30k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", choices=("tokens", "model"), help="train only this half of the choices")
    parser.add_argument("--jobs", type=at_least(1), default=2, help="number of runs in parallel")
    parser.add_argument("--folder", type=Path, default=ROOT / "checkpoints" / "choices")
    parser.add_argument("--report", action="store_true", help="train nothing; print the results so far")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value")
    args = parser.parse_intermixed_args()
    for seed in args.seeds:
        if args.seeds.count(seed) > 1:
            parser.error(f"argument --seeds: {seed} is given twice")
    runs = [(choice, seed) for seed in args.seeds for choice in CHOICES if choice not in SAME]
    if args.only is not None:
        runs = [(choice, seed) for choice, seed in runs if choice.startswith(args.only) or choice in SAME.values()]

    def train(run: tuple[str, int]) -> None:
        choice, seed = run
        folder = RunFolder(args.folder / f"{choice}-{seed}")
        if folder.finished.is_file():
            return
        command = [sys.executable, str(ROOT / "scripts/train.py"), "--config", str(CONFIG)]
        command += [f"data.root={args.data.resolve()}", "processes=1", "threads=1", f"output={folder.path}"]
        command += [*CHOICES[choice], *args.overrides, f"seed={seed}"]
        command += ["--resume"] if folder.has_model_or_states() else []
        with (args.folder / f"{folder.path.name}.log").open("ab") as log:
            process = subprocess.Popen(command, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{folder.path.name} failed: see {log.name}")
        if "--resume" not in command:
            (folder.path / CPU).write_text(f"{usage.ru_utime + usage.ru_stime}\n", encoding="utf-8")
        print(f"{folder.path.name} is trained", file=sys.stderr)

    if not args.report:
        try:
            corpora_of(load_config(CONFIG, [f"data.root={args.data.resolve()}", *args.overrides]).data).check()
            args.folder.mkdir(parents=True, exist_ok=True)
        except TranslateError as error:
            parser.error(str(error))
        except OSError as error:
            parser.error(f"cannot write to {args.folder}: {error.strerror}")
        with ThreadPoolExecutor(args.jobs) as pool:
            list(pool.map(train, runs))
    if args.only != "model":
        print_tokens(args.folder, args.seeds)
    if args.only != "tokens":
        print_models(args.folder, args.seeds)


class Results:
    """The finished runs of one choice."""

    def __init__(self, folder: Path, choice: str, seeds: Sequence[int]) -> None:
        places = [RunFolder(folder / f"{SAME.get(choice, choice)}-{seed}") for seed in seeds]
        self.runs = [run for run in places if run.finished.is_file()]

    def values(self, name: str) -> list[float]:
        """A validation score of every run."""
        return [SavedModel.load(run.model).about["validation"][name] for run in self.runs]

    def score(self, name: str) -> str:
        """Mean and standard deviation of a validation score over the seeds."""
        values = self.values(name)
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.1f}{spread}"

    def cost(self) -> list[str]:
        """Target tokens per second of CPU time, CPU minutes of a run (medians over the seeds), and number of seeds."""
        tokens, minutes = [], []
        for run in self.runs:
            if (run.path / CPU).is_file():
                seconds = float((run.path / CPU).read_text(encoding="utf-8"))
                summary = json.loads(run.finished.read_text(encoding="utf-8"))
                tokens.append(summary["target_tokens"] / seconds)
                minutes.append(seconds / 60)
        measured = [f"{statistics.median(tokens):,.0f}", f"{statistics.median(minutes):.1f}"] if tokens else ["–", "–"]
        return [*measured, str(len(self.runs))]


def print_tokens(folder: Path, seeds: Sequence[int]) -> None:
    """The table of tokens, as Markdown; choices without a finished run are left out."""
    print_row("tokens", "val BLEU", "val chrF", "vocabulary", "tokens per sentence", "unknown tokens", *COMMON)
    print_row(*["---"] * (6 + len(COMMON)))
    for kind in TOKENS:
        results = Results(folder, f"tokens-{kind}", seeds)
        if results.runs:
            print_row(kind, results.score("bleu"), results.score("chrf"), *tokens_of(results.runs[0]), *results.cost())
    print()


def print_models(folder: Path, seeds: Sequence[int]) -> None:
    """The table of models, and that of what each of their choices adds."""
    print_row("norm", "positions", "activation", "val BLEU", "val chrF", *COMMON)
    print_row(*["---"] * (5 + len(COMMON)))
    found = {variant: Results(folder, name_of(variant), seeds) for variant in MODELS}
    for variant, results in found.items():
        if results.runs:
            print_row(*variant, results.score("bleu"), results.score("chrf"), *results.cost())
    print()
    print_effects({variant: results.values("bleu") for variant, results in found.items()})


def print_effects(values: dict[tuple[str, ...], list[float]]) -> None:
    """What each choice adds to val BLEU, on average over all runs with either option, and its standard error."""
    print_row("choice", "adds to val BLEU", "runs of each")
    print_row(*["---"] * 3)
    several = [runs for runs in values.values() if len(runs) > 1]
    if len(several) < len(values):
        return
    variance = sum(statistics.variance(runs) * (len(runs) - 1) for runs in several) / sum(len(r) - 1 for r in several)
    for place, (usual, other) in enumerate((("post", "pre"), ("sinusoidal", "learned"), ("relu", "gelu"))):
        sides = [[runs for variant, runs in values.items() if variant[place] == level] for level in (usual, other)]
        usual_mean, other_mean = (statistics.mean(map(statistics.mean, side)) for side in sides)
        error = (variance * sum(1 / len(runs) for side in sides for runs in side)) ** 0.5 / len(sides[0])
        counts = " and ".join(str(sum(map(len, side))) for side in sides)
        print_row(f"{other} instead of {usual}", f"{other_mean - usual_mean:+.2f} ± {error:.2f}", counts)


def print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |")


def tokens_of(run: RunFolder) -> list[str]:
    """How a run's model cuts the validation text: vocabularies, mean lengths, shares of unknown tokens (de / en)."""
    saved = SavedModel.load(run.model)
    text = open_split(saved.config.data.root, "val", "de", "en").in_memory()
    sides = [saved.source.encode(text.source), saved.target.encode(text.target)]
    tokens = [sum(map(len, side)) for side in sides]
    unknown = [sum(ids.count(UNK) for ids in side) for side in sides]
    return [
        " / ".join(f"{len(codec.vocabulary):,}" for codec in (saved.source, saved.target)),
        " / ".join(f"{count / len(side):.1f}" for count, side in zip(tokens, sides, strict=True)),
        " / ".join(f"{part / count:.1%}" for part, count in zip(unknown, tokens, strict=True)),
    ]


if __name__ == "__main__":
    main()
