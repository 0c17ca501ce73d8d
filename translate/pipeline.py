"""From a config to a trained model: the only file that knows every stage."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import torch

from translate.config.loading import config_to_dict, dump_config
from translate.config.schema import Config
from translate.data.batching import BatchPlan
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.errors import ConfigError
from translate.evaluation.validation import LabelValidator, TranslationValidator, Validator
from translate.model_file import SavedModel
from translate.runs.folder import RunFolder, open_folder
from translate.runs.messages import describe_training, log_start, warn_of_settings
from translate.runs.preparing import PreparedText, helpers_for, plan_batches, prepare_text, training_set, with_max_ratio
from translate.runs.result import BestModel, finish, origin
from translate.runs.resuming import progress_to_resume, refuse_changed_settings, refuse_different
from translate.runs.starting import load_start, prepare_model
from translate.system.allocation import keep_memory
from translate.system.device import avoid_cudnn_attention, prepare_cpu, resolve_device, subnormals_are_zero
from translate.system.precision import autocast, name_of, resolve_precision
from translate.system.threads import own_threads
from translate.training.checkpoint import StateStore
from translate.training.learner import Learner
from translate.training.model_selection import ModelSelection
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
        ValueError: `resume` and `overwrite` are both asked for.
        TranslateError: something is wrong that the user can fix.
        Interrupted: a signal came; the run is saved. A loop over several runs ends, too, unless it catches this.
    """
    if resume and overwrite:
        raise ValueError("resume continues a run, and overwrite starts it over: choose one of them")
    if config.output is None or config.data.cache is None:
        raise ConfigError("output or data.cache is not set, and only load_config has defaults for them")
    if (count := config.processes or 1) > 1:
        log.warning("processes: %d is for scripts/train.py; from Python, one process trains", count)
    device = resolve_device(config.device)
    with RunFolder.of(config).exclusive(), own_threads(torch.get_num_threads()), _as_in_a_fresh_process(device):
        return train_together(config, resume=resume, overwrite=overwrite)


@contextmanager
def _as_in_a_fresh_process(device: torch.device) -> Iterator[None]:
    """Whatever a caller has set in PyTorch: autocast, gradients switched off, another default device or type."""
    default_device, default_dtype = torch.get_default_device(), torch.get_default_dtype()
    # Only where it changes something, because it slows every operation down.
    on_the_cpu = nullcontext() if default_device.type == "cpu" else torch.device("cpu")
    torch.set_default_dtype(torch.float32)
    try:
        # Backward passes and optimizers, too, would compute in what a caller's autocast says.
        with on_the_cpu, autocast(torch.float32, device), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(default_dtype)


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
        saved = store.load_newest() if resume else None
        if saved:
            refuse_changed_settings(saved.identity, config)
        text = prepare_text(config, start, saved)
    if start and not resume:
        log_start(config, start, text)
    plan = plan_batches(config, text)
    # Before max_ratio is estimated from this text, because a config that extends the written one may be for other text.
    written = dump_config(config)
    config = with_max_ratio(config, plan)
    text_seconds = time.perf_counter() - started

    identity = {"config": config_to_dict(config), **text.identity()}
    refuse_different(identity, start, processes)
    precision = config.training.precision
    reached = None  # the progress of a resumed run
    if saved:
        reached = progress_to_resume(run, saved, identity, config.training, plan.updates_per_epoch, processes)
        if reached is None:
            return run
        precision = saved.identity["dtype"]  # Keep the precision that was measured when the run began.
    learner = build_learner(config, text, plan, start, device, precision, processes)
    about = origin(text, plan, learner, start)
    del start  # Its weights take as much memory as the model.
    selection = build_selection(config, text, learner, run, about, writer)
    states = States(learner, store, {**identity, "dtype": name_of(learner.update.dtype)})
    dataset = training_set(config, text, plan, learner.model, helpers_for(device, processes.local_count))
    trainer = Trainer(learner, dataset, plan, selection=selection, states=states)
    if saved and reached:
        trainer.resume(saved.tensors, reached)
        del saved  # as large as the model and its optimizer, which have copied them
        log.info("resuming after update %d of %d", trainer.progress.step, trainer.total_steps)

    begin = run.go_on if resume else run.begin
    processes.on_first(lambda: begin(written))  # Only now, when nothing can refuse these settings any more.
    warn_of_settings(config, trainer)
    log.info("%s", describe_training(learner, text.codecs, config.text.joint_vocabulary))
    resumed_after = trainer.progress.step
    with learner.guard:  # After the last update, too: a signal then comes too late, in every process.
        seconds = {"text_seconds": text_seconds, **run_trainer(trainer, run, writer)}
        seconds["seconds"] = time.perf_counter() - started
        processes.on_first(lambda: finish(run, config, trainer.progress, about, resumed_after, seconds))
    return run


# --- what a run needs ------------------------------------------------------------------------------------------------


def prepare_device(config: Config, processes: Processes) -> torch.device:
    """Where this process computes, prepared for that."""
    prepare_cpu(config.threads)
    device = processes.own_device(resolve_device(config.device))
    avoid_cudnn_attention()
    return device


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


def build_selection(
    config: Config, text: PreparedText, learner: Learner, run: RunFolder, about: dict[str, Any], writer: Writer
) -> ModelSelection:
    """What measures the models of a run and writes the best, with what is known `about` it, into its folder."""
    save_best = BestModel(run.model, config, text.codecs, about, writer)
    last = config.training.average_last
    snapshots = Snapshots(run.snapshots, last, writer) if last else None
    return ModelSelection(learner, build_validator(config, text, learner.guard.check), save_best, snapshots)


def build_validator(config: Config, text: PreparedText, check: Callable[[], None]) -> Validator:
    """The validator for this kind of text; `check` raises if the run should stop."""
    kind = LabelValidator if text.valid_set.labelled else TranslationValidator
    return kind(
        text=text.valid,
        dataset=text.valid_set,
        target=text.codecs.target,
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
    metrics = MetricsLog(run.metrics, keep_bytes=progress.log_bytes) if is_first else NoMetrics()
    bar = Bar(trainer.total_steps, progress.step) if is_first else NoBar()
    with closing(metrics), closing(writer), log_above_the_bar(), closing(bar):
        trainer.train(metrics, bar)
    return {
        "rehearsal_seconds": trainer.rehearsal_seconds,
        "update_seconds": progress.seconds - seconds_before,
        "validation_seconds": trainer.selection.seconds,
    }
