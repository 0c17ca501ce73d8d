"""How long an epoch takes here, beside a plain `torch.nn.Transformer` loop of the same size.

    python benchmarks/epoch.py --data FOLDER [--config configs/tutorial.yaml] [--pairs N] [--rounds R]

The plain loop is what a tutorial writes: float32, batches in random order, each padded to its longest sentence. Both
train on the same pairs with the same vocabularies and as many pairs a batch, in turn, in one process, on the same
threads.
"""

import argparse
import contextlib
import io
import logging
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from torch import Tensor, nn, optim

from translate.config.loading import load_config
from translate.config.schema import Config, DataConfig, ModelConfig
from translate.data.batching import BatchPlan, make_batch
from translate.data.corpus import read_split
from translate.data.dataset import CorpusCache, Dataset
from translate.device import name_of, resolve_device, resolve_precision
from translate.model_file import fresh_model
from translate.text.codec import Codec
from translate.text.vocabulary import PAD
from translate.training.checkpoint import StateStore
from translate.training.interrupt import InterruptGuard
from translate.training.progress import Validation
from translate.training.tracking import MetricsLog
from translate.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Job:
    """What both contenders train on."""

    config: Config
    dataset: Dataset
    source: Codec
    target: Codec
    pairs: np.ndarray


class PlainTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, learned positions and a projection, as tutorials put them together."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        model = job.config.model
        assert isinstance(model, ModelConfig)
        self.source = nn.Embedding(len(job.source.vocabulary), model.d_model)
        self.target = nn.Embedding(len(job.target.vocabulary), model.d_model)
        self.positions = nn.Embedding(model.max_positions, model.d_model)
        self.dropout = nn.Dropout(model.dropout)
        self.transformer = nn.Transformer(
            model.d_model,
            model.heads,
            model.encoder_layers,
            model.decoder_layers,
            model.ffn,
            model.dropout,
            batch_first=True,
        )
        self.projection = nn.Linear(model.d_model, len(job.target.vocabulary))

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        ahead_TT = nn.Transformer.generate_square_subsequent_mask(target_BT.shape[1]).isinf()
        out_BTD = self.transformer(
            self._embed(self.source, source_BS),
            self._embed(self.target, target_BT),
            tgt_mask=ahead_TT,
            src_key_padding_mask=source_BS == PAD,
            tgt_key_padding_mask=target_BT == PAD,
            memory_key_padding_mask=source_BS == PAD,
        )
        logits_BTV: Tensor = self.projection(out_BTD)
        return logits_BTV

    def _embed(self, tokens: nn.Embedding, ids_BT: Tensor) -> Tensor:
        places_T = torch.arange(ids_BT.shape[1])
        embedded: Tensor = self.dropout(tokens(ids_BT) * math.sqrt(tokens.embedding_dim) + self.positions(places_T))
        return embedded


def plain_loop(job: Job) -> Iterator[float]:
    """Seconds of one pass after the other."""
    torch.manual_seed(1)
    model = PlainTransformer(job).train()
    settings = job.config.training
    optimizer = optim.Adam(model.parameters(), lr=settings.optimizer.lr)
    loss_of = nn.CrossEntropyLoss(ignore_index=PAD)
    rows = settings.batch.max_sentences or 128
    while True:
        started = time.perf_counter()
        shuffled = np.random.default_rng(1).permutation(job.pairs)
        for start in range(0, len(shuffled), rows):
            batch = make_batch(job.dataset, shuffled[start : start + rows])
            labels_BT = torch.full_like(batch.target_BT, PAD).masked_scatter(batch.target_mask_BT, batch.labels_N)
            loss = loss_of(model(batch.source_BS, batch.target_BT).flatten(0, 1), labels_BT.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        yield time.perf_counter() - started


def this_project(job: Job, dtype: torch.dtype) -> Iterator[float]:
    """Seconds of one pass after the other, as the trainer counts them."""
    lengths = (job.dataset.source.lengths[job.pairs], job.dataset.target.lengths[job.pairs])
    settings = job.config.training
    with tempfile.TemporaryDirectory() as folder, InterruptGuard() as guard:
        trainer = Trainer(
            model=fresh_model(job.config, job.source, job.target),
            dataset=job.dataset,
            plan=BatchPlan(job.pairs, *lengths, settings.batch, seed=1),
            config=settings.model_copy(update={"max_epochs": 1, "patience": None, "log_every": 10**9}),
            device=torch.device("cpu"),
            dtype=dtype,
            validate=lambda model, check: Validation(0.0, 0.0, {"bleu": 0.0, "chrf": 0.0}, "", None, []),
            save_best=lambda model, validation, progress: None,
            states=StateStore(Path(folder), 1),
            snapshots=None,
            identity={},
        )
        metrics = MetricsLog(Path(folder) / "metrics.jsonl")
        for epoch in range(1, 10**6):
            trainer.total_steps = epoch * trainer.updates_per_epoch
            before = trainer.progress.seconds
            with contextlib.redirect_stderr(io.StringIO()):  # It would tell of validations that do not happen.
                trainer.train(metrics, guard)
            yield trainer.progress.seconds - before


def main() -> None:
    """Run both in turn and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "tutorial.yaml")
    parser.add_argument("--pairs", type=int, default=3200, help="training pairs of one pass; 0 for all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = load_config(asked.config, [f"data.root={asked.data.resolve()}", f"threads={asked.threads}"])
    assert isinstance(config.data, DataConfig)
    assert config.data.cache is not None
    text = read_split(config.data.root, "train", config.data.source, config.data.target)
    cache = CorpusCache(config.data.cache)
    source, target = codecs = cache.codecs(config.text, (config.data.source, config.data.target), text)
    dataset = cache.dataset(codecs, text)
    pairs = np.random.default_rng(1).permutation(len(dataset))[: asked.pairs or None]
    job = Job(config, dataset, source, target, pairs)
    tokens = int((dataset.target.lengths[pairs] + 1).sum())
    epoch_tokens = int((dataset.target.lengths + 1).sum())

    dtype = resolve_precision(config.training.precision, resolve_device("cpu", asked.threads))
    contenders: dict[str, Iterator[float]] = {
        "plain nn.Transformer loop": plain_loop(job),
        f"this project, {name_of(dtype)}": this_project(job, dtype),
    }
    if dtype is not torch.float32:
        contenders["this project, float32"] = this_project(job, torch.float32)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(1 + asked.rounds):
        for name, passes in contenders.items():
            elapsed = next(passes)
            if number:  # The first round warms up.
                seconds[name].append(elapsed)
    plain = next(iter(seconds.values()))
    print(f"{len(pairs)} pairs, {tokens} target tokens; {asked.threads} threads of {os.cpu_count()} CPUs")
    print(f"{'':<28}{'tokens/s':>10}{'s an epoch':>12}{'times the plain loop':>22}")
    for name, taken in seconds.items():
        rate = tokens / statistics.median(taken)
        ratio = statistics.median(before / after for before, after in zip(plain, taken, strict=True))
        print(f"{name:<28}{rate:>10.0f}{epoch_tokens / rate:>12.0f}{ratio:>22.2f}")


if __name__ == "__main__":
    main()
