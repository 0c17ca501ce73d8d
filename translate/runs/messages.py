"""What the log says at the start of a run: where it starts from, what is trained, and which settings do nothing."""

import logging
import math

import torch

from translate.config.schema import Config
from translate.model_file import SavedModel
from translate.runs.preparing import PreparedText
from translate.system.precision import name_of
from translate.text.codec import Codec, Codecs
from translate.training.learner import Learner
from translate.training.trainer import Trainer

log = logging.getLogger("translate")


def log_start(config: Config, start: SavedModel, text: PreparedText) -> None:
    """Log from which model training starts, and whether it knows the text."""
    same = ", which was trained on the same text" if start.about.get("train") == text.train.variant else ""
    log.info("starting from %s%s", config.training.start_from, same)


def describe_training(learner: Learner, codecs: Codecs, joint: bool) -> str:
    """What is trained, and on what."""
    parameters = sum(parameter.numel() for parameter in learner.model.parameters())
    processes, workers = learner.processes.count, learner.update.workers
    shared = "" if processes == 1 else f"{processes} processes ({learner.config.parallel}) of "
    shared += "" if workers == 1 else f"{workers} workers of "
    return (
        f"model: {parameters:,} parameters, {describe_codecs(*codecs, joint)}; training on {learner.device}, {shared}"
        f"{torch.get_num_threads() // workers} CPU thread(s), in {name_of(learner.update.dtype)}"
    )


def describe_codecs(source: Codec, target: Codec, joint: bool) -> str:
    """The sizes of the vocabularies, of a joint one, or of the vocabulary and the labels."""
    if target.holds_labels:
        return f"vocabulary of {len(source.vocabulary)} ({source.language}), {len(target.vocabulary.words)} labels"
    if joint:
        size, of_target = len(source.vocabulary), len(target.vocabulary)
        share = "" if of_target == size else f", {of_target} of them in {target.language}"
        return f"a joint vocabulary of {size}{share}"
    sides = [f"{len(codec.vocabulary)} ({codec.language})" for codec in (source, target)]
    return f"vocabularies of {' and '.join(sides)}"


def warn_of_settings(config: Config, trainer: Trainer) -> None:
    """Warn of settings that do nothing.

    A rate that stays 0 or never reaches its peak, a limit that another one cuts short, R-Drop without dropout, a mean
    of more validations than there are.
    """
    model = config.model
    if config.training.r_drop and not (model.dropout or model.attention_dropout or model.ffn_dropout):
        log.warning(
            "training.r_drop compares two passes with different dropout, but the model has none: it only takes time; "
            "raise model.dropout, or set r_drop to 0"
        )
    warm_up, total_steps = config.training.schedule.warmup_steps, trainer.total_steps
    if (max_steps := config.training.max_steps) is not None and total_steps < max_steps:
        log.warning(
            "training.max_epochs (%s) ends this run after %d updates, before training.max_steps (%d); to train as long "
            "as that, set max_epochs to null",
            config.training.max_epochs,
            total_steps,
            max_steps,
        )
    if not any(map(trainer.schedule, range(1, total_steps + 1))):
        log.warning(
            "the learning rate falls to 0 at the first update: this run learns nothing; make it longer, or raise "
            "training.schedule.final_share"
        )
    if warm_up > total_steps:
        log.warning(
            "training.schedule.warmup_steps is %d, above the number of updates, which is %d: lower it, or the learning "
            "rate never reaches its peak",
            warm_up,
            total_steps,
        )
    between = config.training.validate_every or trainer.learner.updates_per_epoch
    validations = math.ceil(total_steps / between)  # without that of `start_from`, which is not averaged
    if (last := config.training.average_last) is not None and last > validations:
        oftener = f", or set training.validate_every to {total_steps // last} or less" if total_steps >= last else ""
        log.warning(
            "training.average_last is %d, but the number of validations is %d: lower it%s", last, validations, oftener
        )
