"""How fast this project trains, compared with a plain loop, a tuned one and other toolkits on the same cores and text.

    python benchmarks/peers.py --data FOLDER [--pairs N] [--rounds R] [--threads 2] [--device cuda]
        [--peers-python PYTHON]

Each trains in a process of its own, and they take turns: while one makes a pass over some batches, the others wait. All
have the dimensions, the vocabularies and the batch size of configs/tutorial.yaml. A pass has the same number of batches
for each, made from all pairs, as in training: in random order (the plain loop, Marian and JoeyNMT) or in buckets of
similar length (the tuned loop, OpenNMT-py and this project). The first pass warms up; in each further one, over new
batches, the rate of a loop is divided by that of the plain loop, and the medians are printed.

    tokens/s    target tokens, ends included, padding excluded
    ceiling     the matrix products that the tokens need, as a share of those that PyTorch does in the same time in the
                same arithmetic, if it does nothing else (2,048 rows and columns; on a GPU 8,192)
    peak        the most memory that the process held, or that its processes held together; with --device cuda that of
                the GPU
    loss        on the training pairs of the last pass, in nats per token, with dropout: pairs differ with and without
                buckets. Training settings are the same for all, initialization and details each toolkit's own, but
                this project begins with weights as large as those of the plain loop. "random" is this project on
                exactly the batches of the plain loop

A toolkit that is not installed is left out. Toolkits may live in another environment with PyTorch and NumPy, whose
interpreter is PYTHON. All processes stay in memory to the end: about 1.5 GB each. On a GPU, use passes of some thousand
pairs: this project records an update for each new shape of batches, mostly in the first pass.
"""

import argparse
import contextlib
import json
import logging
import math
import os
import statistics
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
import torch
from bare import bare_trainer, train_up_to, training_text
from loops import Batches, Job
from numpy.typing import NDArray
from torch import nn
from turns import Contender, Pass, peak_memory, serve, take_turns

from translate.commands.options import at_least
from translate.commands.run import BRIEF_BUSY_LOOP
from translate.config.loading import config_from_dict, config_to_dict, load_config
from translate.config.schema import Config
from translate.data.batching import BatchPlan, Epoch
from translate.data.dataset import Dataset, EncodedText
from translate.distributed.group import Group
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.errors import DataError, TranslateError
from translate.model.build import build_model
from translate.pipeline import choose_dtype
from translate.system.allocation import keep_memory
from translate.system.device import avoid_cudnn_attention, prepare_cpu, resolve_device
from translate.system.precision import PRECISIONS, name_of
from translate.training.tracking import MetricsLog

# What `translate.system.allocation.keep_memory` asks of glibc, as environment variables.
KEPT_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(2**26),
    "MALLOC_ARENA_MAX": "1",
}


# --- what is trained -------------------------------------------------------------------------------------------------


def make_job(args: argparse.Namespace) -> Job:
    """Make the batches of each pass."""
    overrides = [f"data.root={args.data.resolve()}", f"device={args.device}", f"threads={args.threads}"]
    config = load_config(args.config, overrides)
    (source, target), dataset = training_text(config)
    batch = limited(config).training.batch
    rows, everything = batch.max_sentences, np.arange(len(dataset))
    assert rows is not None
    plan = BatchPlan(everything, dataset.source.lengths, dataset.target.lengths, batch, seed=1)
    # The full batches of an epoch, in its order.
    buckets = [pairs for [pairs] in plan.epoch(0) if len(pairs) == rows]
    passes, count = 1 + args.rounds, args.pairs // rows
    if not 0 < passes * count <= len(buckets):
        raise DataError(
            f"--pairs {args.pairs} makes {passes} passes of {count} batches of {rows} pairs; it has {len(buckets)}"
        )
    shuffled = np.random.default_rng(1).permutation(everything)[: passes * count * rows]
    pairs = np.concatenate([shuffled, *buckets[: passes * count]])
    places = np.arange(len(pairs)).reshape(2, passes, count, rows).tolist()
    prepare_cpu(args.threads)
    return Job(
        config=config_to_dict(limited(config)),
        device=args.device,
        arithmetic=name_of(choose_dtype(config, resolve_device(args.device), config.training.precision)),
        threads=args.threads,
        source_words=len(source.vocabulary),
        target_words=len(target.vocabulary),
        source=[dataset.source[pair].tolist() for pair in pairs.tolist()],
        target=[dataset.target[pair].tolist() for pair in pairs.tolist()],
        shuffled=places[0],
        bucketed=places[1],
    )


def limited(config: Config) -> Config:
    """The config with batches limited only by sentences, so that their number is the same in any order."""
    batch = config.training.batch
    sentences = batch.model_copy(
        update={"max_sentences": batch.max_sentences or 128, "max_tokens": 10**9, "accumulate": 1}
    )
    return config.model_copy(update={"training": config.training.model_copy(update={"batch": sentences})})


@dataclass(frozen=True)
class OnePass(BatchPlan):
    """Given batches, as the plan of every epoch."""

    batches: Batches = field(default_factory=list)

    def epoch(self, number: int) -> Epoch:
        bounds = np.cumsum([0, *map(len, self.batches)])
        return Epoch(self.indices, bounds, np.arange(len(self.batches)), 1)


def one_pass(job: Job, batches: Batches) -> OnePass:
    """The batches of a pass, for this project."""
    source, target = (np.array([len(ids) for ids in lines]) for lines in (job.source, job.target))
    batch = config_from_dict(job.config).training.batch
    return OnePass(np.concatenate(batches), source, target, batch, seed=1, batches=batches)


def flops_per_token(model: SimpleNamespace, words: int, source: NDArray[Any], target: NDArray[Any]) -> float:
    """Floating-point operations of the matrix products of a training step, for each target token.

    Two for each multiplication and addition of the forward pass, and twice as many for the backward pass, which has two
    products for each one. Attention is counted over the whole square, as it is computed, but without padding.

    Args:
        model: the dimensions, named as in a config.
        words: size of the target vocabulary.
        source, target: tokens of each sentence, including its end.
    """
    square, mixing = model.d_model**2, 2 * model.d_model * model.ffn
    s, t = source.sum(), target.sum()
    encoder = s * (4 * square + mixing) + 2 * model.d_model * (source**2).sum()
    decoder = t * (6 * square + mixing) + s * 2 * square
    decoder += 2 * model.d_model * ((target**2).sum() + (source * target).sum())
    projection = t * model.d_model * words
    return float(6 * (model.encoder_layers * encoder + model.decoder_layers * decoder + projection) / t)


# --- who trains ------------------------------------------------------------------------------------------------------


def this_project(job: Job, passes: list[Batches], dtype: torch.dtype, processes: Processes) -> Iterator[Pass]:
    """The real trainer; its updates are timed, including making their batches, but not validations, which are empty."""
    config = config_from_dict(job.config)
    prepare_cpu(max(1, job.threads // processes.count))
    device = resolve_device(job.device)
    avoid_cudnn_attention()
    if "memory" not in config.training.plain:
        keep_memory(one_heap=dtype is torch.float32)
    sizes = {"source_size": job.source_words, "target_size": job.target_words}
    model = build_model(config.model, **sizes)
    begin_like_pytorch(model)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(MetricsLog(Path(folder) / "metrics.jsonl")) as metrics,
    ):
        trainer = bare_trainer(
            len(passes),
            model=model.to(device),
            dataset=Dataset(EncodedText.of(job.source), EncodedText.of(job.target)),
            plan=one_pass(job, passes[0]),
            config=config.training,
            device=device,
            dtype=dtype,
            processes=processes,
            folder=Path(folder),
        )
        done = 0
        for batches in passes:
            trainer.plan = one_pass(job, batches)
            done += len(batches)
            seconds, tokens = train_up_to(done, trainer, metrics)
            rows = map(json.loads, (Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
            loss = [row["nll"] for row in rows if row["kind"] == "train"][-1]
            yield {
                "seconds": seconds,
                "tokens": tokens,
                "loss": loss,
                "peak": float(processes.gather(peak_memory(job.device)).sum()),
            }


@torch.no_grad()
def begin_like_pytorch(model: nn.Module) -> None:
    """Make initial weights as large as those of torch.nn.Transformer, so that losses can be compared.

    It draws queries, keys and values as one matrix of three times as many rows, for which Xavier's numbers are smaller.
    """
    for name, weight in model.named_parameters():
        if name.endswith(("query.weight", "key.weight", "value.weight")):
            rows, columns = weight.shape
            weight.mul_(math.sqrt((rows + columns) / (3 * rows + columns)))


def contenders(args: argparse.Namespace, job: Job, path: Path) -> list[Contender]:
    """The ceiling, and all loops; the plain one is the first of them."""
    loops = str(ROOT / "benchmarks" / "loops.py")

    def loop(name: str, python: str = sys.executable) -> list[str]:
        return [python, loops, str(path), name]

    def ours(arithmetic: str, *launcher: str, order: str = "bucketed") -> list[str]:
        return [
            sys.executable,
            *launcher,
            __file__,
            "--data",
            str(args.data),
            "--worker",
            str(path),
            arithmetic,
            order,
        ]

    peers = str(args.peers_python)
    # OpenNMT-py asks for a PyTorch before 2.3, but works with later ones.
    alone = "pip install --no-deps OpenNMT-py pyonmttok configargparse pyahocorasick fasttext-wheel rapidfuzz"
    found = [
        Contender("ceiling", job.arithmetic, loop("ceiling")),
        Contender("plain nn.Transformer", "float32", loop("plain")),
        Contender("tuned nn.Transformer", job.arithmetic, loop("tuned"), KEPT_MEMORY),
        Contender("Hugging Face Marian", "float32", loop("marian", peers), install="pip install transformers"),
        Contender("JoeyNMT", "float32", loop("joey", peers), install="pip install joeynmt importlib_metadata"),
    ]
    if job.device == "cpu":
        found.append(Contender("OpenNMT-py", "float32", loop("opennmt", peers), install=alone))
    found.append(Contender("this project, random", "float32", ours("float32", order="shuffled"), BRIEF_BUSY_LOOP))
    found.append(Contender("this project", "float32", ours("float32"), BRIEF_BUSY_LOOP))
    if job.arithmetic != "float32":
        found.append(Contender("this project", job.arithmetic, ours(job.arithmetic), BRIEF_BUSY_LOOP))
    if args.threads > 1 and job.device == "cpu":
        title = f"this project, {args.threads} proc."
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(args.threads))
        found.append(Contender(title, job.arithmetic, ours(job.arithmetic, *launcher), BRIEF_BUSY_LOOP))
    return found


# --- what comes out --------------------------------------------------------------------------------------------------


def report(args: argparse.Namespace, job: Job, ceiling: Contender, loops: list[Contender]) -> None:
    """Print the table."""
    limits = {
        name: statistics.median(one[name] for one in ceiling.passes[1:]) for name in sorted({"float32", job.arithmetic})
    }
    source, target = (np.array([len(line) + 1 for line in lines]) for lines in (job.source, job.target))
    flops = flops_per_token(job.model, job.target_words, source, target)
    print(
        f"{args.rounds} passes of {len(job.shuffled[0])} updates; {flops / 1e6:.1f} MFLOP a target token; "
        f"vocabularies of {job.source_words} and {job.target_words}; {args.threads} threads of {os.cpu_count()} CPUs; "
        f"{job.device}"
    )
    print("ceiling: " + ", ".join(f"{name} {limit / 1e9:.0f} GFLOP/s" for name, limit in limits.items()))
    print(
        f"{'':<22}{'precision':<11}{'tokens/s':>9}{'times plain':>13}{'(from-to)':>13}{'ceiling':>9}{'peak':>10}"
        f"{'loss':>7}"
    )
    for loop in loops:
        rates, plain = (
            np.array([one["tokens"] / one["seconds"] for one in each.passes[1:]]) for each in (loop, loops[0])
        )
        ratios, rate = rates / plain, float(np.median(rates))
        print(
            f"{loop.title:<22}{loop.arithmetic:<11}{rate:>9.0f}{np.median(ratios):>13.2f}"
            f"{f'({min(ratios):.2f}-{max(ratios):.2f})':>13}{rate * flops / limits[loop.arithmetic]:>9.0%}"
            f"{loop.passes[-1]['peak'] / 2**20:>6.0f} MiB{loop.passes[-1]['loss']:>7.2f}"
        )


def main() -> None:
    """Let all take turns, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "tutorial.yaml")
    parser.add_argument("--pairs", type=at_least(1), default=1280, help="training pairs of one pass")
    parser.add_argument("--rounds", type=at_least(1), default=5)
    parser.add_argument("--threads", type=at_least(1), default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--peers-python", type=Path, default=Path(sys.executable), metavar="PYTHON")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if args.worker:
        path, arithmetic, order = args.worker
        job = Job.read(Path(path))
        torch.manual_seed(1)
        with Group.of_environment() if "WORLD_SIZE" in os.environ else nullcontext(SINGLE_PROCESS) as processes:
            passes = this_project(job, getattr(job, order), PRECISIONS[arithmetic], processes)
            if processes.rank == 0:
                serve(passes, job.device)
            else:  # The others keep step with the first.
                deque(passes, maxlen=0)
        return

    try:
        job = make_job(args)
    except TranslateError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(asdict(job)), encoding="utf-8")
        running = contenders(args, job, path)
        take_turns(running, running[:2], 1 + args.rounds, args.threads, Path(folder))
    report(args, job, running[0], running[1:])


if __name__ == "__main__":
    main()
