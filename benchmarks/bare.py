"""The real trainer reduced to its updates, which benchmarks time: it validates nothing and saves nothing."""

import sys
from pathlib import Path

import torch

from translate.config.training import TrainingConfig
from translate.data.batching import BatchPlan
from translate.distributed.processes import Processes
from translate.model.build import Model
from translate.model.plain import make_plain
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.model_selection import ModelSelection, Validation
from translate.training.states import States
from translate.training.trainer import Trainer, TrainingSet
from translate.training.writer import Writer


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


if __name__ == "__main__":
    sys.exit("benchmarks/bare.py is no program: peers.py and scaling.py import it")
