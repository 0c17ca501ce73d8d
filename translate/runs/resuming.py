"""What must be the same in a run that is resumed, and in all its processes; and how far it has got.

Settings that do not affect its updates may change, and in some runs the number of updates.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from translate.config.decoding import VALIDATION_SETTINGS, DecodingConfig
from translate.config.loading import config_from_dict, config_to_dict, differences, flat
from translate.config.schema import Config
from translate.config.training import FixedLengthScheduleConfig, TrainingConfig
from translate.data.dataset import SIDES
from translate.distributed.processes import Processes, number_from
from translate.errors import CheckpointError, ConfigError
from translate.model_file import SavedModel
from translate.runs.folder import RunFolder
from translate.system.storage import tensors_sha256
from translate.training.checkpoint import SavedState
from translate.training.progress import Progress, total_steps

log = logging.getLogger("translate")

START = "training.start_from"
# Settings that say where files are and where to compute. Those of text are here because its content is compared.
PLACES = (
    "output",
    "device",
    "threads",
    "data.root",
    "data.train",
    "data.valid",
    "data.download",
    "data.cache",
    START,
)
# These, and others on which no update depends.
FREE_TO_CHANGE = (
    *PLACES,
    "processes",
    *(f"decoding.{name}" for name in DecodingConfig.model_fields if name not in VALIDATION_SETTINGS),
    "training.activation_checkpointing",
    "training.checkpoint_every",
    "training.keep_last",
    "training.log_every",
    "training.parallel",
    "training.samples",
)

# Settings that decide when a run ends.
PATIENCE = "training.patience"
LENGTH = ("training.max_epochs", "training.max_steps", PATIENCE)


def progress_to_resume(
    run: RunFolder,
    saved: SavedState,
    identity: dict[str, Any],
    training: TrainingConfig,
    per_epoch: int,
    processes: Processes,
) -> Progress | None:
    """How far a resumed run has got, from its newest state; None, as the log says, if it is finished.

    A finished run goes on if its settings of `training` now allow more updates, of which an epoch has `per_epoch`.

    If its best model is gone, that is forgotten, so that the next validation makes another.

    Raises:
        CheckpointError: it began with other settings or another text, it is finished and its model gone, or the
            processes have found different states.
    """
    refuse_changes(saved.identity, identity)
    try:
        progress = Progress.from_dict(saved.progress)
    except (TypeError, LookupError) as error:
        raise _of_another_version(error) from error
    processes.expect_the_same(progress.step, "training states")  # If not, each would go its own way below.
    damage = processes.on_first(run.damage_of_model) if progress.best_step >= 0 else None
    finished = processes.on_first(run.finished_after) == progress.step
    if finished and progress.updates_left(total_steps(training, per_epoch), training.patience) == 0:
        if damage:
            raise CheckpointError(f"the run is finished, but its model is lost: {damage}; train again with --overwrite")
        log.info("%s is finished: there is nothing to resume", run.path)
        if changes := changed_in_vain(saved.identity, identity):
            log.warning("these settings change nothing about it:\n  %s", "\n  ".join(changes))
        return None
    if damage:
        log.warning("the run's best model is lost: %s; the next validation makes another", damage)
        return progress.without_best()
    return progress


def refuse_changes(before: dict[str, Any], now: dict[str, Any]) -> None:
    """CheckpointError if a run would continue with settings or text other than those it began with.

    The number of updates may change if no update depends on it: those made are then the beginning of a longer run.
    """
    old, new = _configs(before, now)
    was, is_now = old.training.start_from, new.training.start_from
    changes = []
    for key, line in differences(old, new).items():
        if key in LENGTH:
            if bound := _bound_to_the_end(old, key):
                changes.append(f"{line}, but {bound}; a new run can start from its model: training.start_from")
        # Where the model lies that the run started from may change, but not whether there was one.
        elif not is_free_to_change(key) or (key == START and (was is None) != (is_now is None)):
            changes.append(line)
    for name in ("train", "valid"):
        if what := _changed_parts(_text(before[name]), _text(now[name])):
            changes.append(f"the {name} text has changed: {what}")
    if "codecs" in before and before["codecs"] != now["codecs"]:
        changes.append(
            "the vocabularies have changed: because of data.train, training.start_from or a library's version"
        )
    if changes:
        raise CheckpointError(
            "cannot resume: settings or text have changed since the run began:\n  "
            + "\n  ".join(changes)
            + "\nundo these changes, or start a new run with output=… (if model and tokens stay the same, "
            "with the weights of this one: training.start_from=…/model.safetensors)"
        )


def refuse_changed_settings(before: dict[str, Any], config: Config) -> None:
    """What `refuse_changes` says of the settings alone, before the text is read, which may take long."""
    now = config_to_dict(config)
    if config.decoding.max_ratio is None:  # It will be estimated from the text.
        now["decoding"]["max_ratio"] = before["config"].get("decoding", {}).get("max_ratio")
    refuse_changes(before, before | {"config": now})


def refuse_different(identity: Mapping[str, Any], start: SavedModel | None, processes: Processes) -> None:
    """ConfigError if the processes were given different settings, text or weights to start from.

    Where files are may differ, and so may the device and the number of threads.
    """
    config = {key: value for key, value in flat(identity["config"]).items() if not is_place(key)}
    config[START] = start and tensors_sha256(start.weights)
    given = json.dumps({**identity, "config": config}, sort_keys=True).encode()
    if not processes.agree_on(number_from(given)):
        raise ConfigError(
            "the processes of this run have different settings, text or models to start from; give all of them the "
            "same config, overrides and files"
        )


def changed_in_vain(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each setting that differs, places aside: a finished run has no use for another value."""
    return [line for key, line in differences(*_configs(before, now)).items() if not is_place(key)]


def is_free_to_change(key: str) -> bool:
    """Whether any run may be resumed with another value of this setting."""
    return _is_among(key, FREE_TO_CHANGE)


def is_place(key: str) -> bool:
    """Whether this setting says where something is, so that processes of one run may have other values."""
    return _is_among(key, PLACES)


def _is_among(key: str, keys: Sequence[str]) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def _text(identity: list[Any]) -> list[Any]:
    """The digests of both sides and, unless all of them are 1, the weights of corpora or files."""
    return identity if any(weight != 1 for weight in identity[2:]) else identity[:2]


def _changed_parts(before: list[Any], now: list[Any]) -> str:
    """Which sides of a text differ, and whether its weights do; empty if all is the same."""
    parts = [side for side, was, is_now in zip(SIDES, before, now, strict=False) if was != is_now]
    if before[2:] != now[2:]:
        parts.append("the weights of its corpora")
    return " and ".join(parts)


def _configs(before: dict[str, Any], now: dict[str, Any]) -> tuple[Config, Config]:
    try:
        began_with = config_from_dict(before["config"])
    except ConfigError as error:
        raise _of_another_version(error) from error
    return began_with, config_from_dict(now["config"])


def _of_another_version(error: Exception) -> CheckpointError:
    return CheckpointError(
        f"the run was started by another version of this project: {error}\n"
        "continue it with that version, or start a new run with output=…"
    )


def _bound_to_the_end(config: Config, key: str) -> str | None:
    """Why this setting, which decides when the run ends, may not change in a resumed run; None if it may.

    No schedule depends on patience.
    """
    schedule = config.training.schedule
    if key != PATIENCE and isinstance(schedule, FixedLengthScheduleConfig):
        return f"the {schedule.kind} schedule depends on the length of the run"
    if config.training.average_last is not None:
        return "training.average_last depends on where the run ends"
    return None
