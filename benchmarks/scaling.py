"""How much faster several processes of one thread train than a single one of one thread, with the same updates.

    python benchmarks/scaling.py --data FOLDER [--config configs/multi30k.yaml] [--processes N] [section.key=value ...]

All train on the same pairs in the same batches, of which each process takes its part; the numbers of processes are
measured in turn. The ratio is that of the medians.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
import torch
from bare import bare_trainer, train_up_to, training_text

from translate.commands.options import at_least
from translate.config.loading import load_config
from translate.config.schema import Config
from translate.data.batching import BatchPlan
from translate.data.corpora import corpora_of
from translate.distributed.group import Group
from translate.distributed.processes import SINGLE_PROCESS
from translate.errors import TranslateError
from translate.model_file import fresh_model
from translate.pipeline import choose_dtype
from translate.system.allocation import keep_memory
from translate.system.device import prepare_cpu, resolve_device
from translate.system.precision import name_of
from translate.training.tracking import MetricsLog


def config_of(args: argparse.Namespace) -> Config:
    return load_config(args.config, [f"data.root={args.data.resolve()}", "device=cpu", "threads=1", *args.overrides])


def one_process(args: argparse.Namespace) -> None:
    """Train two passes over some pairs together with the other processes; print how fast the second one was."""
    config = config_of(args)
    group = Group.of_environment() if int(os.environ["WORLD_SIZE"]) > 1 else None
    processes = group or SINGLE_PROCESS
    if "memory" not in config.training.plain:
        keep_memory()
    with processes.first_ahead():
        (source, target), dataset = training_text(config)
    pairs = np.random.default_rng(1).permutation(len(dataset))[: args.pairs or None]
    prepare_cpu(threads=1)
    device = resolve_device("cpu")
    dtype = processes.on_first(lambda: choose_dtype(config, device, config.training.precision))
    batches = config.training.batch
    torch.manual_seed(config.seed)
    model = fresh_model(config, source, target)
    processes.seed_each_process(config.seed)
    with tempfile.TemporaryDirectory() as folder:
        trainer = bare_trainer(
            2,
            model=model,
            dataset=dataset,
            plan=BatchPlan(pairs, dataset.source.lengths, dataset.target.lengths, batches, seed=1),
            config=config.training,
            device=device,
            dtype=dtype,
            processes=processes,
            folder=Path(folder),
        )
        metrics = MetricsLog(Path(folder) / "metrics.jsonl")
        last = trainer.total_steps
        train_up_to(last // 2, trainer, metrics)  # The first pass warms up.
        seconds, tokens = train_up_to(last, trainer, metrics)
        if processes.rank == 0:
            print(json.dumps({"rate": tokens / seconds, "updates": last // 2, "dtype": name_of(dtype)}))
    if group is not None:
        group.await_last_message()


def measure(count: int, arguments: list[str]) -> dict[str, float | str]:
    """One measurement with `count` processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command += [__file__, "--worker", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(done.returncode)  # It has said why.
    found: dict[str, float | str] = json.loads(done.stdout.strip().split("\n")[-1])
    return found


def main() -> None:
    """Measure all numbers of processes in turn and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "multi30k.yaml")
    parser.add_argument("--pairs", type=int, default=3200, help="training pairs of one pass; 0 for all")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument(
        "--processes",
        type=at_least(1),
        default=2,
        help="maximum number of processes; 1, 2, 4, … up to this are measured",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value")
    args = parser.parse_intermixed_args()
    if args.pairs < 0:
        parser.error(f"argument --pairs: {args.pairs} is less than 0")
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    if args.worker:
        one_process(args)
        return

    try:  # Here, because torchrun's processes would each end with a traceback.
        logging.getLogger("translate").setLevel(logging.INFO)  # to announce downloads
        corpora_of(config_of(args).data).open_train()
    except TranslateError as error:
        parser.error(str(error))
    counts = [2**power for power in range(args.processes.bit_length())]
    found: dict[int, list[dict[str, float | str]]] = {count: [] for count in counts}
    for _ in range(args.rounds):
        for count in counts:
            found[count].append(measure(count, sys.argv[1:]))
    rates = {count: statistics.median(float(one["rate"]) for one in each) for count, each in found.items()}
    about = found[1][0]
    print(f"{args.pairs or 'all'} pairs, {about['updates']} updates, {about['dtype']}; {os.cpu_count()} CPUs")
    print(f"{'processes':>9}{'target tokens/s':>18}{'times one process of one thread':>34}")
    for count, rate in rates.items():
        print(f"{count:>9}{rate:>18.0f}{rate / rates[1]:>34.2f}")


if __name__ == "__main__":
    main()
