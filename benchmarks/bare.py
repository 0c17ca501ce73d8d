"""What the benchmarks of training share: the training text, and the real trainer reduced to its updates.

It validates nothing and saves nothing.
"""

import contextlib
import io
import sys
from pathlib import Path

import torch

from translate.config.schema import Config
from translate.config.training import TrainingConfig
from translate.data.batching import BatchPlan
from translate.data.cache import CorpusCache
from translate.data.corpora import corpora_of
from translate.data.dataset import Dataset
from translate.distributed.processes import Processes
from translate.model.build import Model
from translate.model.plain import make_plain
from translate.text.codec import Codecs
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.model_selection import ModelSelection, Validation
from translate.training.states import States
from translate.training.tracking import MetricsLog, NoBar
from translate.training.trainer import Trainer, TrainingSet
from translate.training.writer import Writer


def training_text(config: Config) -> tuple[Codecs, Dataset]:
    """The training text as ids, and the codecs that make them, both from the cache if they are there."""
    assert config.data.cache is not None, "load_config fills it in"
    text = corpora_of(config.data).open_train()
    cache = CorpusCache(config.data.cache)
    codecs = cache.codecs(config.text, (config.data.source, config.data.target), text)
    return codecs, cache.dataset(codecs, text)


def bare_trainer(
    passes: int,
    *,
    model: Model,
    dataset: TrainingSet,
    plan: BatchPlan,
    config: TrainingConfig,
    device: torch.device,
    dtype: torch.dtype,
    processes: Processes,
    folder: Path,
) -> Trainer:
    """A trainer that makes this many `passes` over the batches of `plan`, with the update settings of `config`.

    At the end of each pass it writes a row of the log; `folder` is for anything else it might write.
    """
    make_plain(model, config.plain)
    length = {"max_epochs": passes, "max_steps": None, "patience": None}
    silence = {"log_every": 10**9, "validate_every": None, "average_last": None}
    config = config.model_copy(update={**length, **silence})
    learner = Learner(model, config, device, dtype, processes, updates_per_epoch=plan.updates_per_epoch)
    selection = ModelSelection(
        learner,
        validate=lambda model: Validation(0.0, 0.0, {"bleu": 0.0, "chrf": 0.0}, 0, "", None, []),
        save_best=lambda kind, model, validation, step: None,
    )
    states = States(learner, StateStore(folder, 1, Writer()), identity={})
    return Trainer(learner, dataset, plan, selection=selection, states=states)


def train_up_to(total_steps: int, trainer: Trainer, metrics: MetricsLog) -> tuple[float, int]:
    """Train on until this many updates are done in all; returns the seconds that it took, and the target tokens."""
    progress = trainer.progress
    seconds, tokens = progress.seconds, progress.target_tokens
    trainer.total_steps = total_steps
    # The trainer would report validations that do not happen.
    with trainer.learner.guard, contextlib.redirect_stderr(io.StringIO()):
        trainer.train(metrics, NoBar())
    return progress.seconds - seconds, progress.target_tokens - tokens


if __name__ == "__main__":
    sys.exit("benchmarks/bare.py is no program: peers.py and scaling.py import it")
