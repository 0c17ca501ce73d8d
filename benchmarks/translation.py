"""How fast this project translates, compared with a plain loop, other toolkits and an engine, with the same weights.

    python benchmarks/translation.py --checkpoint MODEL --data FOLDER [--beam 5] [--lines N] [--rounds R]
        [--threads 2] [--peers-python PYTHON]

MODEL is the model.safetensors of a run of configs/tutorial.yaml; others may have what other toolkits do not. Each
translates lines of val in a process of its own, in float32, and they take turns: while one makes a pass, the others
wait. The first pass warms up, with few lines. Only search is timed, from ids to ids, without tokenizing and starting.

    lines/s     of the median pass
    ours/theirs how many times as fast this project is: the median of the ratios of each pass (lowest to highest)
    same        the share of lines with the same translation as this project's. Greedy search finds the same everywhere
                but for rounding; beam searches differ in when they stop, and JoeyNMT's has another length penalty
    peak        the most memory that the process held

The plain loop translates one line after the other, one out of eight of them. A toolkit that is not installed is left
out. Toolkits may live in another environment with PyTorch, whose interpreter is PYTHON.
"""

import argparse
import json
import logging
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
import torch
from translators import LENGTH_PENALTY, Lines, SearchJob, passes
from turns import Contender, Pass, serve, take_turns

from translate import Translator
from translate.commands.options import at_least
from translate.commands.run import BRIEF_BUSY_LOOP
from translate.config.loading import config_to_dict
from translate.data.splits import open_split
from translate.decoding.search import search
from translate.errors import CheckpointError, TranslateError
from translate.model_file import SavedModel
from translate.system.device import prepare_cpu

# Of the settings of a model, what all of the toolkits have.
EVERYWHERE = {
    "kind": "transformer",
    "norm": "post",
    "activation": "relu",
    "positions": "learned",
    "tie": "none",
    "d_qk": None,
    "d_v": None,
    "qkv_bias": True,
    "qk_norm": False,
    "embedding_norm_eps": None,
}
MAX_TOKENS = 60  # tokens that a translation has at most, including its end


def make_job(args: argparse.Namespace, folder: Path) -> SearchJob:
    """The model and the lines, for a process that may not have this project."""
    saved = SavedModel.load(args.checkpoint)
    settings = config_to_dict(saved.config)["model"]
    for key, value in EVERYWHERE.items():
        if settings.get(key) != value:
            raise CheckpointError(
                f"{args.checkpoint} has model.{key}: {settings.get(key)}, not {value}, which not all toolkits have; "
                "give a model of configs/tutorial.yaml"
            )
    lines = list(open_split(args.data, "val", saved.source.language, saved.target.language).source)[: args.lines]
    torch.save(saved.weights, folder / "weights.pt")
    return SearchJob(
        settings=settings,
        weights=str(folder / "weights.pt"),
        source_words=len(saved.source.vocabulary),
        target_words=len(saved.target.vocabulary),
        source=saved.source.encode(lines),
        max_tokens=MAX_TOKENS,
        beam=args.beam,
        batch=64,
        threads=args.threads,
    )


def this_project(job: SearchJob, checkpoint: Path) -> Iterator[Pass]:
    """The search of translate.py, with its own batches."""
    translator = Translator.load(checkpoint, "cpu")
    prepare_cpu(job.threads)
    how = {"beam_size": job.beam, "length_penalty": LENGTH_PENALTY} if job.beam > 1 else {}
    settings = translator.settings(search="beam" if how else "greedy", **how)
    # The same for all lines.
    settings = settings.model_copy(update={"max_ratio": 1e-9, "max_extra": job.max_tokens - 1})

    def translated(lines: Lines) -> Lines:
        found = search(translator.model, [np.array(line) for line in lines], settings)
        return [list(best.tokens) for [best] in found]

    yield from passes(job.source, translated)


def contenders(args: argparse.Namespace, job: Path) -> list[Contender]:
    """This project, and then the others."""
    own = [
        sys.executable,
        __file__,
        "--checkpoint",
        str(args.checkpoint),
        "--data",
        str(args.data),
        "--worker",
        str(job),
    ]

    def other(title: str, name: str, install: str) -> Contender:
        command = [str(args.peers_python), str(ROOT / "benchmarks" / "translators.py"), str(job), name]
        return Contender(title, "float32", command, install=install)

    found = [
        Contender("this project", "float32", own, BRIEF_BUSY_LOOP),
        other("Hugging Face Marian", "marian", "pip install transformers"),
        other("JoeyNMT", "joey", "pip install joeynmt importlib_metadata"),
        other("CTranslate2", "ctranslate", "pip install ctranslate2"),
    ]
    if args.beam == 1:
        found.insert(1, other("plain nn.Transformer", "plain", "pip install torch"))
    return found


def report(job: SearchJob, ours: Contender, others: list[Contender]) -> None:
    """Print the table."""
    how = f"a beam of {job.beam}, length penalty {LENGTH_PENALTY:g}" if job.beam > 1 else "greedy search"
    print(f"{len(job.source)} lines; {how}; {len(ours.passes) - 1} passes; {job.threads} threads")
    print(f"{'':<22}{'lines/s':>9}{'ours/theirs':>13}{'(from-to)':>15}{'same':>7}{'peak':>11}")
    own = [rate(one) for one in ours.passes[1:]]
    for each in [ours, *others]:
        rates = [rate(one) for one in each.passes[1:]]
        ratios = [mine / theirs for mine, theirs in zip(own, rates, strict=True)]
        last = each.passes[-1]
        mine = ours.passes[-1]["translations"][:: last["part"]]
        same = statistics.mean(a == b for a, b in zip(mine, last["translations"], strict=True))
        print(
            f"{each.title:<22}{statistics.median(rates):>9.1f}{statistics.median(ratios):>13.2f}"
            f"{f'({min(ratios):.2f}-{max(ratios):.2f})':>15}{same:>7.1%}{last['peak'] / 2**20:>7.0f} MiB"
        )


def rate(one: Pass) -> float:
    """Lines per second."""
    return float(len(one["translations"]) / one["seconds"])


def main() -> None:
    """Let all take turns, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="a model of configs/tutorial.yaml")
    parser.add_argument("--data", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--beam", type=at_least(1), default=5, help="hypotheses of each line; 1 is greedy search")
    parser.add_argument("--lines", type=at_least(1), default=256, help="of val, from its beginning; default: 256")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--threads", type=at_least(1), default=2)
    parser.add_argument("--peers-python", type=Path, default=Path(sys.executable), metavar="PYTHON")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if args.worker:
        serve(this_project(SearchJob.read(args.worker), args.checkpoint), "cpu")
        return

    with tempfile.TemporaryDirectory() as folder:
        try:
            job = make_job(args, Path(folder))
        except TranslateError as error:
            parser.error(str(error))
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(asdict(job)), encoding="utf-8")
        running = contenders(args, path)
        take_turns(running, running[:1], 1 + args.rounds, args.threads, Path(folder))
    report(job, running[0], running[1:])


if __name__ == "__main__":
    main()
