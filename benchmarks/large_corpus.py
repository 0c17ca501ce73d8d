"""How long millions of pairs take to prepare, and how much memory it costs to train on them.

    python benchmarks/large_corpus.py --folder FOLDER [--pairs 5000000] [--updates 300] [--kind bpe]

Writes made-up pairs into the folder (a caption of the demo corpus and a made-up name each), learns codecs from them,
encodes them, and trains a small model. A second call with the same folder finds the pairs and their encoding there,
however many were asked for.

The table has seconds, and the peak of resident memory so far. Memory mapped from files counts, too, though the system
reclaims it when needed.
"""

import argparse
import functools
import logging
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from translate import pipeline
from translate.commands.options import at_least
from translate.config.schema import Config
from translate.data.cache import CorpusCache
from translate.data.corpora import ParallelCorpora
from translate.data.holdout import new_files
from translate.data.splits import open_split
from translate.errors import DataError
from translate.pipeline import train
from translate.system.files import atomic_open
from translate.text.tokenizers import TOKENIZERS
from translate.training.trainer import Trainer

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvw" for vowel in "aeiou"]


def write_pairs(folder: Path, pairs: int) -> None:
    """Training and validation text, the same in every call. DataError if there is some in the folder already."""
    sizes = {"val": 50, "train": pairs}
    files = new_files(folder, sizes, ("de", "en"))
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:  # All four get their names at the end.
        opened = {place: stack.enter_context(atomic_open(path)) for place, path in files.items()}
        for split, count in sizes.items():
            demo = open_split(ROOT / "data", split, "de", "en").in_memory()
            captions = list(zip(demo.source, demo.target, strict=True))
            rng = random.Random(split)
            for _ in range(count):
                name = "".join(rng.choices(SYLLABLES, k=3)).capitalize()
                source, target = rng.choice(captions)
                opened[split, "de"].write(f"{name}: {source}\n".encode())
                opened[split, "en"].write(f"{name}: {target}\n".encode())


def measured(owner: Any, name: str, what: Callable[[tuple[Any, ...]], str]) -> None:
    """Let each call of `owner.name` print how long it took, and the peak of resident memory so far."""
    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        started = time.perf_counter()
        result = original(*arguments, **keywords)
        row(what(arguments), time.perf_counter() - started)
        return result

    setattr(owner, name, wrapped)


def row(what: str, seconds: float) -> None:
    """A line of the table: what was done, in how many seconds, and the peak of resident memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what:<44}{seconds:>10.1f}{peak:>12.0f}", flush=True)


def main() -> None:
    """Write, prepare, train, and print the table."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--pairs", type=at_least(1), default=5_000_000)
    parser.add_argument("--updates", type=at_least(1), default=300)
    parser.add_argument("--kind", choices=TOKENIZERS, default="bpe", help="text.tokenizer.kind")
    args = parser.parse_args()
    folder = args.folder.resolve()

    print(f"{'':<44}{'seconds':>10}{'peak, MiB':>12}")
    row("start", time.perf_counter() - started)
    if not (folder / "train.en").exists():
        started = time.perf_counter()
        try:
            write_pairs(folder, args.pairs)
        except DataError as error:
            parser.error(str(error))
        except OSError as error:
            parser.error(f"cannot write to {folder}: {error.strerror}")
        row("write the pairs", time.perf_counter() - started)
    config = Config.model_validate(
        {
            "output": str(folder / "run"),
            "device": "cpu",
            "data": {"root": str(folder), "cache": str(folder / "cache")},
            "text": {"tokenizer": {"kind": args.kind}},
            "model": {"d_model": 64, "ffn": 128, "heads": 4, "encoder_layers": 1, "decoder_layers": 1},
            "training": {
                "max_epochs": None,
                "max_steps": args.updates,
                "batch": {"max_tokens": 1024},
                "samples": 0,
                "best": "loss",
            },
        }
    )
    measured(ParallelCorpora, "open_train", lambda _: "check and hash the training text")
    measured(CorpusCache, "codecs", lambda _: "codecs, learned or from the cache")
    measured(CorpusCache, "dataset", lambda asked: f"ids of {asked[2].name}, encoded or from the cache")
    measured(pipeline, "plan_batches", lambda _: "choose pairs, plan an epoch")
    first: list[float] = []
    update = Trainer._update

    def spy(self: Trainer, *arguments: Any) -> None:
        update(self, *arguments)
        if not first:
            first.append(time.perf_counter() - started)
            row("from the start to the end of the first update", first[0])

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    started = time.perf_counter()
    with patch.object(Trainer, "_update", spy):
        train(config, overwrite=True)
    row("and to the end of the run", time.perf_counter() - started)
    sizes = ((folder / f"train.{language}").stat().st_size for language in ("de", "en"))
    print(f"{sum(sizes) / 2**20:.0f} MiB of text, {args.updates} updates, {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
