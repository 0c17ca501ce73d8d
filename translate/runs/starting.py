"""The model with which a run begins: fresh, or with the weights and vocabularies of another one."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from translate.config.loading import differences
from translate.config.schema import Config
from translate.data.batching import BatchPlan
from translate.data.corpus import TextPair
from translate.data.dataset import Dataset, Indices
from translate.errors import CheckpointError, DataError, TrainingError
from translate.model.build import Model
from translate.model.plain import make_plain
from translate.model_file import SavedModel, SkipInit, fresh_model, load_weights
from translate.runs.folder import RunFolder
from translate.runs.preparing import PreparedText
from translate.system.allocation import explained_lack_of_memory
from translate.system.free_memory import free_memory
from translate.system.paths import resolved
from translate.training.memory import human_size, unsharded_bytes

SMALLER = "lower model.d_model, model.ffn or the vocabulary"


def load_start(config: Config, *, resume: bool) -> SavedModel | None:
    """The model that training starts from, if any. CheckpointError if its settings do not fit those of `config`.

    A resumed run takes its weights from its state, and its vocabularies from its own best model if there is one that is
    intact: the model that it started from may be gone by then.
    """
    path = config.training.start_from
    if path is None:
        return None
    own = RunFolder.of(config)
    if resume:
        with suppress(CheckpointError):
            return SavedModel.load(own.model)
    # --overwrite would remove the model, and training would replace it.
    if resolved(path).parent == resolved(own.path):
        raise CheckpointError(f"{path} lies in the folder of this run; name another folder for the run: output=…")
    start = SavedModel.load(path)
    refuse_other_settings(path, start.config, config)
    return start


def refuse_other_settings(path: Path, of_start: Config, config: Config) -> None:
    """CheckpointError if the weights and vocabularies of a model with the settings `of_start` do not fit `config`."""
    bound = ("data.kind", "data.source", "data.target", "model.", "text.")  # on which weights and vocabularies depend
    free = ["dropout", "model.embedding_init"]
    if config.model.positions != "learned":
        free.append("model.max_positions")
    changes = [
        line
        for key, line in differences(of_start, config).items()
        if key.startswith(bound) and not any(each in key for each in free)
    ]
    if changes:
        raise CheckpointError(
            f"training cannot start from {path}, which has other settings:\n  "
            + "\n  ".join(changes)
            + "\nundo these changes, or leave training.start_from out"
        )


def prepare_model(
    config: Config,
    text: PreparedText,
    plan: BatchPlan,
    start: SavedModel | None,
    device: torch.device,
    local_count: int,
) -> Model:
    """The model with which training begins; each of the `local_count` processes of this machine makes one.

    Raises:
        DataError: a sentence is too long for the model's learned positions.
        TrainingError: there is not enough memory for its weights.
    """
    torch.manual_seed(config.seed)
    with explained_lack_of_memory(lambda: f"for the model's weights; {SMALLER}"):
        refuse_too_large(config, text, local_count)
        model = fresh_model(config, *text.codecs).to(device)
    if start:
        load_weights(model, start.weights)
    make_plain(model, config.training.plain)
    every = np.arange(len(text.valid_set))
    longest = max(_lengths(text.train_set, plan.indices).max(), _lengths(text.valid_set, every).max())
    remedy = f"; raise it to {longest}, which is enough for all lines"
    if start:  # Its table of positions cannot grow.
        remedy = ", as in training.start_from; shorten the sentence"
    or_drop = f"{remedy} (or drop the sentence with data.filter.max_tokens)"
    check_lengths(model, text.train_set, plan.indices, text.train, or_drop)
    check_lengths(model, text.valid_set, every, text.valid, f"{remedy} (validation text is never dropped)")
    return model


def refuse_too_large(config: Config, text: PreparedText, local_count: int) -> None:
    """TrainingError if memory does not hold the weights of all processes; Linux would kill one while it draws them."""
    # Memory that nothing was written to takes no room. The meta device would import PyTorch's compiler, for seconds.
    with SkipInit():
        weights = local_count * unsharded_bytes(fresh_model(config, *text.codecs).parameters())
    if weights > (free := free_memory(torch.device("cpu"))):
        each = f" of {local_count} processes" if local_count > 1 else ""
        raise TrainingError(
            f"the model's weights{each} take {human_size(weights)}, and {human_size(free)} are free; {SMALLER}"
        )


def check_lengths(model: Model, dataset: Dataset, indices: Indices, text: TextPair, remedy: str) -> None:
    """DataError, which names the longest, if any of these pairs is too long for the model's positions."""
    lengths = _lengths(dataset, indices)
    if lengths.max() > model.max_length:
        line = text.place(int(indices[lengths.argmax()]))
        where = line if text.parts else f"{text.name} {line}"
        others = len(np.unique(indices[lengths > model.max_length])) - 1  # A pair may be trained on more than once.
        more = f" (more such lines: {others})" if others else ""
        raise DataError(
            f"{where} has {lengths.max()} tokens, including the end token{more}, "
            f"but model.max_positions is {model.max_length}{remedy}"
        )


def _lengths(dataset: Dataset, indices: Indices) -> NDArray[np.int64]:
    """How many tokens the longer side of each of these pairs has, including the end token."""
    return 1 + np.maximum(dataset.source.lengths, dataset.target.lengths)[indices]
