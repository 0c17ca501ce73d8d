"""What a run leaves when it is over: its best model, with where it comes from, and a summary."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translate.config.schema import Config
from translate.data.batching import BatchPlan
from translate.errors import CheckpointError, TrainingError
from translate.model.build import Model
from translate.model_file import SavedModel, weights_of
from translate.runs.folder import RunFolder
from translate.runs.preparing import PreparedText
from translate.system.paths import commit
from translate.system.precision import name_of
from translate.text.codec import Codecs
from translate.training.learner import Learner
from translate.training.model_selection import Validation
from translate.training.progress import Progress, for_json
from translate.training.writer import Writer

log = logging.getLogger("translate")


@dataclass(frozen=True)
class BestModel:
    """Writes the best model of a run to `path`, with what is known `about` it; see SaveBest."""

    path: Path
    config: Config
    codecs: Codecs
    about: dict[str, Any]
    writer: Writer

    def __call__(self, kind: str, model: Model, validation: Validation, step: int) -> None:
        numbers = for_json({"nll": validation.nll, "accuracy": validation.accuracy, **validation.scores})
        about = {**self.about, "validation": {"kind": kind, "step": step, **numbers}}

        def write(weights: Mapping[str, Tensor]) -> None:
            SavedModel(self.config, *self.codecs, dict(weights), about).save(self.path)

        self.writer.submit("best model", weights_of(model), write)


def origin(text: PreparedText, plan: BatchPlan, learner: Learner, start: SavedModel | None) -> dict[str, Any]:
    """What a model file and finished.json say about where a model comes from, and what it has seen.

    Args:
        start: the model that training starts from, if any, or one that has been trained further since.
    """
    longest = int(plan.source_lengths[plan.indices].max())
    return {
        "train": text.train.variant,
        "train_parts": [part.variant for part in text.train.parts],
        "valid": text.valid.variant,
        "longest_source": max(longest, start.longest_source) if start else longest,  # in tokens
        "commit": commit(),
        "torch": torch.__version__,
        "device": str(learner.device),
        "dtype": name_of(learner.update.dtype),
    }


def finish(
    run: RunFolder,
    config: Config,
    progress: Progress,
    about: dict[str, Any],
    resumed_after: int,
    seconds: dict[str, float],
) -> None:
    """Mark a run as over, with what is known `about` it and how long it took since it was last resumed, if it was.

    The model gets the settings of the search that the run ends with.

    Raises:
        CheckpointError: its model is gone or damaged.
        TrainingError: its model is useless.
    """
    if not run.model.is_file():
        raise CheckpointError(
            f"{run.model} was removed during training; continue with the same command and --resume, which validates "
            "again and makes another"
        )
    if not math.isfinite(progress.best_nll):
        raise TrainingError(
            "the loss was infinite or NaN at every validation: the model is useless; lower training.optimizer.lr, or "
            "check that training.optimizer.eps is large enough, and start over with --overwrite"
        )
    best, metric = SavedModel.load(run.model), config.training.best
    if best.config.decoding != config.decoding:  # The run was resumed with another search since that model was written.
        replace(best, config=best.config.model_copy(update={"decoding": config.decoding})).save(run.model)
    summary = {
        **about,
        "updates": progress.step,
        "target_tokens": progress.target_tokens,
        "best_update": best.about["validation"]["step"],
        f"best_{metric}": best.about["validation"]["nll" if metric == "loss" else metric],
        "resumed_after": resumed_after,  # The times are those since then.
        **{name: round(number, 1) for name, number in seconds.items()},
    }
    run.finish(summary)  # before the user hears of it, and may press Ctrl-C
    since = f" since it was resumed after update {resumed_after}" if resumed_after else ""
    log.info(
        f"finished in %(seconds)s s{since}: %(text_seconds)s s for preparing the text, %(rehearsal_seconds)s s for the "
        "trial batch, %(update_seconds)s s for updates, %(validation_seconds)s s for validation, the rest for startup "
        "and saving",
        summary,
    )
