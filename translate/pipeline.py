"""From a config to a trained model: the only file that knows every stage."""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from translate.config.loading import config_to_dict, dump_config, flat
from translate.config.schema import Config
from translate.data.batching import BatchPlan
from translate.errors import CheckpointError, ConfigError, TrainingError
from translate.evaluation.validation import LabelValidator, TranslationValidator, Validator
from translate.model.build import Model
from translate.model_file import SavedModel, weights_of
from translate.runs.folder import RunFolder, would_be_replaced
from translate.runs.preparing import PreparedText, helpers_for, plan_batches, prepare_text, training_set, with_max_ratio
from translate.runs.resuming import is_place, progress_to_resume, refuse_changed_settings
from translate.runs.starting import load_start, prepare_model
from translate.system.allocation import keep_memory
from translate.system.device import avoid_cudnn_attention, prepare_cpu, resolve_device, subnormals_are_zero
from translate.system.paths import commit
from translate.system.precision import autocast, name_of, resolve_precision
from translate.system.threads import own_threads
from translate.text.codec import Codec
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.model_selection import ModelSelection
from translate.training.processes import SINGLE_PROCESS, Processes, number_from
from translate.training.progress import Progress, Validation, for_json
from translate.training.snapshots import Snapshots
from translate.training.states import States
from translate.training.tracking import Bar, MetricsLog, NoBar, NoMetrics, log_above_the_bar
from translate.training.trainer import Trainer
from translate.training.writer import Writer

log = logging.getLogger("translate")


def train(config: Config, *, resume: bool = False, overwrite: bool = False) -> RunFolder:
    """Train in this process as `config` says; for use in Python, and alone in the folder of the run.

    The process keeps the memory that is freed, for reuse, and has other random numbers afterwards.

    Args:
        config: from `load_config`.

    Raises:
        TranslateError: something is wrong that the user can fix.
        Interrupted: a signal came; the run is saved. A loop over several runs ends, too, unless it catches this.
    """
    if config.output is None or config.data.cache is None:
        raise ConfigError("output or data.cache is not set, and only load_config has defaults for them")
    if (count := config.processes or 1) > 1:
        log.warning("processes: %d is for scripts/train.py; from Python, one process trains", count)
    # Backward passes and optimizers, too, would compute in what a caller's autocast says.
    full = autocast(torch.float32, resolve_device(config.device))
    with RunFolder.of(config).exclusive(), own_threads(torch.get_num_threads()), full:
        return train_together(config, resume=resume, overwrite=overwrite)


@subnormals_are_zero()  # Before any operation, so that all of PyTorch's threads are started inside.
def train_together(
    config: Config, *, resume: bool = False, overwrite: bool = False, processes: Processes = SINGLE_PROCESS
) -> RunFolder:
    """Train as `config` says, and leave the best model and everything else of the run in its folder.

    Several processes do this together, each with the same arguments. No other training may use the folder meanwhile.

    Raises:
        TranslateError: something is wrong that the user can fix.
        Interrupted: a signal came; the run is saved.
    """
    started = time.perf_counter()
    device = prepare_device(config, processes)
    start = load_start(config, resume=resume)
    writer = Writer()
    with processes.first_ahead():  # It makes the folder, and the cache that the others read.
        run = open_folder(config, resume=resume, overwrite=overwrite)
        store = StateStore(run.states, config.training.keep_last, writer)
        if resume:
            tensors, values = store.load_newest()
            refuse_changed_settings(values["identity"], config)
        text = prepare_text(config, start)
    if start and not resume:
        log_start(config, start, text)
    plan = plan_batches(config, text.train_set, text.train)
    asked, config = config, with_max_ratio(config, plan)
    text_seconds = time.perf_counter() - started

    identity = {"config": config_to_dict(config), **text.identity()}
    refuse_different(identity, processes)
    precision = config.training.precision
    reached = None  # the progress of a resumed run
    if resume:
        reached = progress_to_resume(run, values, identity, config.training, plan.updates_per_epoch, processes)
        if reached is None:
            return run
        precision = values["identity"]["dtype"]  # Keep the precision that was measured when the run began.
    learner = build_learner(config, text, plan, start, device, precision, processes)
    del start  # Its weights take as much memory as the model.
    about = origin(text, learner)
    selection = build_selection(config, text, learner, run, about, writer)
    states = States(learner, store, {**identity, "dtype": about["dtype"]})
    dataset = training_set(config, text, learner.model, helpers_for(device, processes.local_count))
    trainer = Trainer(learner, dataset, plan, selection=selection, states=states)
    if reached is not None:
        trainer.resume(tensors, reached)
        del tensors  # as large as the model and its optimizer, which have copied them
        log.info("resuming after update %d of %d", trainer.progress.step, trainer.total_steps)

    # Written only now, when nothing can refuse these settings any more. `asked` lacks the max_ratio estimated from this
    # text, because a config that extends the written one may be for other text.
    processes.on_first(lambda: (run.go_on if resume else run.begin)(dump_config(asked)))
    warn_of_settings(config, trainer)
    log.info("%s", describe(learner, text.codecs, config.text.joint_vocabulary))
    resumed_after = trainer.progress.step
    seconds = {"text_seconds": text_seconds, **run_trainer(trainer, run, writer)}
    seconds["seconds"] = time.perf_counter() - started
    processes.on_first(lambda: finish(run, config, trainer.progress, about, resumed_after, seconds))
    return run


# --- the folder ------------------------------------------------------------------------------------------------------


def open_folder(config: Config, *, resume: bool, overwrite: bool) -> RunFolder:
    """Create the run's folder, or check that this run may use the one that is there.

    Raises:
        CheckpointError: it holds a run that is neither to be resumed nor overwritten, or somebody's own files.
    """
    run = RunFolder.of(config)
    run.make()
    if others := run.files_of_others():
        raise would_be_replaced(others[0])
    if run.holds_a_run() and not (resume or overwrite):
        resumed = "--resume continues it, " if run.has_states() else ""
        raise CheckpointError(
            f"{run.path} already holds a run; {resumed}--overwrite replaces it, output=… uses another folder"
        )
    return run


@dataclass(frozen=True)
class BestModel:
    """Writes the best model of a run to `path`, with what is known `about` it; see SaveBest."""

    path: Path
    config: Config
    codecs: tuple[Codec, Codec]
    about: dict[str, Any]
    writer: Writer

    def __call__(self, kind: str, model: Model, validation: Validation, step: int) -> None:
        numbers = for_json({"nll": validation.nll, "accuracy": validation.accuracy, **validation.scores})
        about = {**self.about, "validation": {"kind": kind, "step": step, **numbers}}

        def write(weights: Mapping[str, Tensor]) -> None:
            SavedModel(self.config, *self.codecs, dict(weights), about).save(self.path)

        self.writer.later("best model", weights_of(model), write)


# --- what a run needs ------------------------------------------------------------------------------------------------


def prepare_device(config: Config, processes: Processes) -> torch.device:
    """Where this process computes, prepared for that."""
    prepare_cpu(config.threads)
    device = processes.own_device(resolve_device(config.device))
    avoid_cudnn_attention()
    return device


def log_start(config: Config, start: SavedModel, text: PreparedText) -> None:
    """Log from which model training starts, and whether it knows the text."""
    same = ", which was trained on the same text" if start.about.get("train") == text.train.variant else ""
    log.info("starting from %s%s", config.training.start_from, same)


def build_learner(
    config: Config,
    text: PreparedText,
    plan: BatchPlan,
    start: SavedModel | None,
    device: torch.device,
    precision: str,
    processes: Processes,
) -> Learner:
    """The model with which training begins, and all that updates it; `precision` is one of `training.precision`."""
    dtype = processes.on_first(lambda: choose_dtype(config, device, precision))
    if "memory" not in config.training.plain:
        # In bfloat16, oneDNN also allocates memory for machine code, and two workers with one heap were slower.
        keep_memory(one_heap=dtype is torch.float32)
    model = prepare_model(config, text, plan, start, device, processes.local_count)
    processes.seed_each_process(config.seed)
    return Learner(model, config.training, device, dtype, processes, updates_per_epoch=plan.updates_per_epoch)


def choose_dtype(config: Config, device: torch.device, precision: str) -> torch.dtype:
    """The dtype to train in, for this value of `training.precision`; measured on a CPU if that is `auto`."""
    batch = config.training.batch
    rows = batch.max_tokens * (2 if config.training.r_drop else 1)  # R-Drop puts every pair twice into one pass.
    return resolve_precision(precision, device, rows=rows, width=config.model.d_model)


def refuse_different(identity: Mapping[str, Any], processes: Processes) -> None:
    """ConfigError if the processes were given different settings or text.

    Where files are may differ, and so may the device and the number of threads.
    """
    config = {key: value for key, value in flat(identity["config"]).items() if not is_place(key)}
    given = json.dumps({**identity, "config": config}, sort_keys=True).encode()
    if not processes.agree_on(number_from(given)):
        raise ConfigError(
            "the processes of this run have different settings or text; give all of them the same config, overrides "
            "and files"
        )


def origin(text: PreparedText, learner: Learner) -> dict[str, Any]:
    """What a model file and finished.json say about where a model comes from."""
    return {
        "train": text.train.variant,
        "train_parts": [part.variant for part in text.train.parts],
        "valid": text.valid.variant,
        "commit": commit(),
        "torch": torch.__version__,
        "device": str(learner.device),
        "dtype": name_of(learner.update.dtype),
    }


def build_selection(
    config: Config, text: PreparedText, learner: Learner, run: RunFolder, about: dict[str, Any], writer: Writer
) -> ModelSelection:
    """What measures the models of a run and writes the best, with what is known `about` it, into its folder."""
    save_best = BestModel(run.model, config, text.codecs, about, writer)
    last = config.training.average_last
    snapshots = Snapshots(run.snapshots, last, writer) if last else None
    return ModelSelection(learner, validator(config, text, learner.guard.check), save_best, snapshots)


def validator(config: Config, text: PreparedText, check: Callable[[], None]) -> Validator:
    """The validator for this kind of text; `check` raises if the run should stop."""
    kind = LabelValidator if text.valid_set.labelled else TranslationValidator
    return kind(
        text=text.valid,
        dataset=text.valid_set,
        target=text.codecs[1],
        decoding=config.decoding,
        samples=config.training.samples,
        batch=config.training.batch,
        check=check,
    )


# --- the run ---------------------------------------------------------------------------------------------------------


def run_trainer(trainer: Trainer, run: RunFolder, writer: Writer) -> dict[str, float]:
    """Train to the end; only the first process has a log and a bar. Returns the seconds that each part has taken."""
    progress, is_first = trainer.progress, trainer.learner.processes.rank == 0
    seconds_before = progress.seconds
    log_of_run = MetricsLog(run.metrics, keep_bytes=progress.log_bytes) if is_first else NoMetrics()
    bar_of_run = (Bar if is_first else NoBar)(trainer.total_steps, progress.step)
    with (
        closing(log_of_run) as metrics,
        trainer.guard,
        closing(writer),
        log_above_the_bar(),
        closing(bar_of_run) as bar,
    ):
        trainer.train(metrics, bar)
    return {
        "rehearsal_seconds": trainer.rehearsal_seconds,
        "update_seconds": progress.seconds - seconds_before,
        "validation_seconds": trainer.selection.seconds,
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
            f"{run.model} was removed during training; continue with the same command and --resume, which makes "
            "another of the last weights"
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
    since = f" since it was resumed after update {resumed_after}" if resumed_after else ""
    log.info(
        f"finished in %(seconds)s s{since}: %(text_seconds)s s for preparing the text, %(rehearsal_seconds)s s for the "
        "trial batch, %(update_seconds)s s for updates, %(validation_seconds)s s for validation, the rest for startup "
        "and saving",
        summary,
    )
    run.finish(summary)


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
            "training.schedule.warmup_steps is %d, but the run has %d updates: lower it, or the learning rate never "
            "reaches its peak",
            warm_up,
            total_steps,
        )
    between = config.training.validate_every or trainer.learner.updates_per_epoch
    validations = math.ceil(total_steps / between)  # without that of `start_from`, which is not averaged
    if (last := config.training.average_last) is not None and last > validations:
        log.warning(
            "training.average_last is %d, but the number of validations is %d: lower it, or set "
            "training.validate_every to %d or less",
            last,
            validations,
            max(1, total_steps // last),
        )


def describe(learner: Learner, codecs: tuple[Codec, Codec], joint: bool) -> str:
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
        return f"a joint vocabulary of {len(source.vocabulary)}"
    sides = [f"{len(codec.vocabulary)} ({codec.language})" for codec in (source, target)]
    return f"vocabularies of {' and '.join(sides)}"
