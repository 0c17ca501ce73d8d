"""What lets a model be bigger: activation checkpointing, and the largest batch tried before all others."""

import math
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from tiny_runs import FirstOfTwo, TinyProject, assert_same_run, at_call, sigterm, stop, trainer_of, update, write_split
from torch import Tensor

from translate import model_file
from translate.data.dataset import Dataset, EncodedText
from translate.distributed.parallel import Single
from translate.optimization.recorded import RecordedUpdate
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.system.storage import read_tensors
from translate.training import checkpoint
from translate.training import rehearsal as rehearsal_module
from translate.training import trainer as trainer_module
from translate.training.memory import TensorMemory, lasting_memory
from translate.training.rehearsal import LargestBatch, largest_batch, rehearse, reporting_memory
from translate.training.tracking import Bar
from translate.training.trainer import Trainer

# With dropout, which is to be the same the second time.
VARIANTS = {
    "plain": (),
    "bfloat16, all kinds of dropout": (
        "training.precision=bfloat16",
        "model.attention_dropout=0.1",
        "model.ffn_dropout=0.1",
    ),
    "R-Drop": ("training.r_drop=2.0",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_activation_checkpointing_changes_nothing_and_can_be_switched_on_later(
    name: str, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    stop(sigterm, update(9), tiny, *VARIANTS[name])
    run = train(tiny.config(*VARIANTS[name], "training.activation_checkpointing=true"), resume=True)
    assert_same_run(run, uninterrupted(*VARIANTS[name]))


@pytest.mark.slow
def test_the_rehearsal_changes_nothing(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed = uninterrupted()  # before the patch: it would be the run without one, too
    monkeypatch.setattr(trainer_module, "rehearse", lambda *_: None)
    assert_same_run(train(tiny.config()), rehearsed)


def passed(trainer: Trainer, pairs: Tensor) -> int:
    """What a batch takes."""
    for parameter in trainer.learner.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with TensorMemory() as memory:
        trainer._gradients([pairs], trainer.dataset.epoch(0))
    return memory.most


def tried(trainer: Trainer) -> tuple[LargestBatch, int, list[int]]:
    """The batch that is tried before all others, what it takes, and what each of the first batches takes."""
    largest = largest_batch(trainer.plan, 0, trainer.learner.model, trainer.learner.update.padded)
    needs = [passed(trainer, batch) for update in islice(trainer.plan.epoch(0), 60) for batch in update]
    return largest, passed(trainer, largest.indices), needs


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("model.d_model=64", "training.batch.max_sentences=20"),
        ("training.batch.max_sentences=1",),
        ("model.attention_dropout=0.1", "model.encoder_layers=3"),
    ],
    ids=str,
)
def test_no_batch_takes_more_than_the_one_that_is_tried(settings: tuple[str, ...], tiny: TinyProject) -> None:
    trainer = trainer_of(tiny.config(*settings))
    _, most, needs = tried(trainer)
    assert len(needs) > 6
    assert min(needs) < 0.9 * max(needs)
    assert most > 0.97 * max(needs)


def train_on(trainer: Trainer, lengths: np.ndarray) -> None:
    """Give it made-up pairs of these lengths, (pairs, 2), instead of its own."""
    rng = np.random.default_rng(1)
    source, target = (EncodedText.of([rng.integers(4, 20, length) for length in side]) for side in lengths.T)
    trainer.dataset = Dataset(source, target)
    places = np.arange(len(lengths))
    trainer.plan = replace(trainer.plan, indices=places, source_lengths=lengths[:, 0], target_lengths=lengths[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("deep", ["encoder", "decoder"])
def test_the_largest_batch_where_sides_differ_in_length(deep: str, tiny: TinyProject) -> None:
    """The side that is longer is not always the one that takes more."""
    trainer = trainer_of(tiny.config(f"model.{deep}_layers=6", "training.batch={max_tokens: 500, max_sentences: 10}"))
    rng = np.random.default_rng(1)
    pairs = np.concatenate([rng.integers((3, 20), (6, 40), (50, 2)), rng.integers((20, 3), (40, 6), (50, 2))])
    train_on(trainer, pairs)
    largest, most, needs = tried(trainer)
    assert most > 0.97 * max(needs)
    assert largest.longest == 1 + pairs[largest.indices].max()
    assert (pairs[largest.indices, 0].mean() > pairs[largest.indices, 1].mean()) == (deep == "encoder")


@pytest.mark.slow
@pytest.mark.parametrize("longer", ["source", "target"])
def test_the_largest_batch_may_be_one_of_few_long_rows(longer: str, tiny: TinyProject) -> None:
    """Attention takes memory with the square of the length."""
    trainer = trainer_of(tiny.config("model.heads=8", "model.encoder_layers=4", "training.batch.max_tokens=400"))
    train_on(trainer, np.array([[3, 3]] * 100 + [[199, 3] if longer == "source" else [3, 199]] * 2))
    _, most, needs = tried(trainer)
    assert most > 0.97 * max(needs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heads", "lengths"),
    [(8, [[100, 60], [20, 72]]), (1, [[60, 10], [10, 30]])],
    ids=["attention to the source", "layers of the decoder"],
)
def test_the_largest_batch_where_the_decoder_is_deep(heads: int, lengths: list[list[int]], tiny: TinyProject) -> None:
    trainer = trainer_of(
        tiny.config(f"model.heads={heads}", "model.decoder_layers=6", "training.batch.max_sentences=1")
    )
    train_on(trainer, np.array(lengths * 2))
    _, most, needs = tried(trainer)
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


def test_all_heads_of_a_deep_decoder_count(tiny: TinyProject) -> None:
    """A long target takes most, although a batch of short ones has more tokens."""
    trainer = trainer_of(tiny.config("model.heads=8", "model.decoder_layers=6", "training.batch.max_tokens=400"))
    train_on(trainer, np.array([[3, 3]] * 100 + [[3, 199]]))
    largest, most, needs = tried(trainer)
    assert largest.longest == 200
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


def test_the_scores_of_a_large_vocabulary_count(tiny: TinyProject) -> None:
    words = [f"w{number}" for number in range(1000)] * 2
    lines = [" ".join(words[start : start + 10]) for start in range(0, len(words), 10)]
    for split in ("train", "val"):
        write_split(tiny.folder / "corpus", split, lines, lines)
    trainer = trainer_of(tiny.config(f"data.root={tiny.folder}/corpus", "training.batch.max_sentences=1"))
    train_on(trainer, np.array([[100, 3], [3, 60]]))
    largest, most, needs = tried(trainer)
    assert largest.longest == 61
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


@pytest.mark.parametrize(("padded", "rows"), [(False, 16), (True, 9)])
def test_the_largest_batch_is_the_one_that_is_largest_when_padded(padded: bool, rows: int, tiny: TinyProject) -> None:
    """16 rows of 8 tokens stay as they are; 9 rows of 13 tokens, fewer in all, become 10 of 14."""
    trainer = trainer_of(tiny.config("training.batch.max_tokens=128"))
    train_on(trainer, np.array([[7, 7]] * 16 + [[12, 12]] * 9))
    if padded:
        trainer.learner.update = RecordedUpdate(
            Single(trainer.learner.model),
            trainer.config,
            trainer.learner.device,
            torch.float32,
            updates=trainer.total_steps,
            record=lambda work: work,
        )
    largest, most, needs = tried(trainer)
    assert len(largest.indices) == rows
    assert most == max(needs) > min(needs)


@pytest.mark.parametrize(("accumulate", "share"), [(1, 0.5), (2, 1.0)])
@pytest.mark.parametrize(("sharing", "times"), [("processes", ""), ("workers", "2 times ")])
def test_the_rows_told_are_those_of_a_process_and_of_a_worker(
    sharing: str, times: str, accumulate: int, share: float, tiny: TinyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = trainer_of(tiny.config(f"training.batch.accumulate={accumulate}"))
    capsys.readouterr()
    if sharing == "processes":
        trainer.learner.processes = FirstOfTwo()
    else:
        trainer.learner.update.workers = 2
    trainer.learner.bar = Bar(total=1, done=0)
    largest = largest_batch(trainer.plan, 0, trainer.learner.model, trainer.learner.update.padded)
    rehearse(trainer.micro_batches, largest, trainer.dataset.epoch(0))
    rows = math.ceil(share * len(largest.indices))
    assert f" activations of {times}{rows} rows of {largest.longest} tokens " in capsys.readouterr().err


def test_memory_is_told_at_every_start(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    stop(sigterm, update(9), tiny)
    train(tiny.config(), resume=True)
    said = [line for line in capsys.readouterr().err.split("\n") if "memory" in line]
    pattern = (
        r"memory: about \d+ MiB, in addition to Python and the text: weights \d+ MiB, gradients \d+ MiB, "
        r"optimizer \d+ MiB, write buffers \d+ MiB, activations of \d+ rows of \d+ tokens \d+ MiB"
    )
    assert len(said) == 2
    assert all(re.fullmatch(pattern, line) for line in said)


def test_a_warning_when_it_is_more_than_there_is(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda device: 2.0**20)
    train(tiny.config("training.max_steps=1", "model.d_model=64"))
    said = [line for line in capsys.readouterr().err.split("\n") if "memory" in line]
    assert said[0] == (
        "warning: training needs more than the 1 MiB of free memory; set "
        "training.activation_checkpointing: true, or in a new run lower training.batch.max_tokens (now 200) "
        "and raise training.batch.accumulate to make up for it"
    )
    assert said[1].startswith("memory: about ")


@contextmanager
def rehearsed(
    trainer: Trainer, pairs: int, longest: int, device: torch.device, processes: int, workers: int
) -> Iterator[list[str]]:
    """A rehearsal that the body takes part in; what it says."""
    said: list[str] = []
    learner = trainer.learner
    learner.device = device
    learner.processes = copy(learner.processes)
    learner.processes.local_count = processes
    learner.update.workers = workers
    learner.bar.say = said.append
    with reporting_memory(learner, pairs, longest):
        yield said


@pytest.mark.parametrize(
    ("share", "processes", "workers", "warned"),
    [(1.5, 1, 1, False), (1.5, 2, 1, True), (0.5, 1, 1, True), (1.1, 1, 2, True), (1.5, 1, 2, False)],
)
def test_what_is_free_is_shared_and_what_is_to_come_counts(
    share: float, processes: int, workers: int, warned: bool, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(tiny.config())
    optimizers, config, cpu = trainer.learner.update.optimizers, trainer.config, torch.device("cpu")
    to_come = lasting_memory(trainer.learner.model, optimizers, config, cpu).to_come
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: share * to_come)
    with rehearsed(trainer, 1, 1, cpu, processes=processes, workers=workers) as said:
        torch.zeros(1)
    assert any(line.startswith("warning: training needs more than") for line in said) == warned


def test_what_every_worker_takes_is_told_and_what_processes_can_do(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(tiny.config())
    optimizers, config, cpu = trainer.learner.update.optimizers, trainer.config, torch.device("cpu")
    to_come = lasting_memory(trainer.learner.model, optimizers, config, cpu, workers=3).to_come
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: 2.0 * (to_come + 8 * 2**20))
    with rehearsed(trainer, 5, 9, cpu, processes=2, workers=3) as said:
        torch.zeros(2**20)  # 4 MiB, more than a third of 8
    warning, told = said
    assert "training needs more than the 8 MiB of free memory for each of 2 processes; " in warning
    assert "train with fewer than 2 processes" in warning
    assert told.endswith(", activations of 3 times 5 rows of 9 tokens 12 MiB")


def test_processes_on_gpus_share_no_memory(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(tiny.config())
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: 2.0**20)
    with rehearsed(trainer, 5, 9, torch.device("cuda"), processes=2, workers=1) as said:
        torch.zeros(2**20)
    assert said[0].startswith("warning: training needs more than the 1 MiB of free memory; set ")
    assert "processes" not in "".join(said)


def test_gradients_are_not_told_twice(tiny: TinyProject) -> None:
    trainer = trainer_of(tiny.config("model.d_model=256"))
    with rehearsed(trainer, 5, 9, torch.device("cpu"), processes=1, workers=1) as said:
        torch.stack([parameter.sum() for parameter in trainer.learner.model.parameters()]).sum().backward()
    assert " weights 3 MiB, gradients 3 MiB, " in said[0]
    assert said[0].endswith(", activations of 5 rows of 9 tokens 0 MiB")


@pytest.mark.parametrize("begin", ["resumed", "started from a model"])
def test_weights_that_were_loaded_are_not_kept_beside_the_model(begin: str, tiny: TinyProject) -> None:
    overrides: tuple[str, ...] = ()
    if begin == "resumed":
        stop(sigterm, update(3), tiny)
    else:
        overrides = (f"training.start_from={train(tiny.config()).model}", f"output={tiny.folder}/tuned")
    loaded: list[weakref.ref[Tensor]] = []

    def remembering(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = read_tensors(path)
        # Optimizers work on, instead of copying, what is loaded for them.
        loaded.extend(weakref.ref(tensor) for name, tensor in tensors.items() if not name.startswith("optimizer."))
        return tensors, values

    def none_is_left() -> None:
        assert loaded
        assert all(tensor() is None for tensor in loaded)

    with pytest.MonkeyPatch.context() as patch:
        for module in (checkpoint, model_file):
            patch.setattr(module, "read_tensors", remembering)
        at_call(patch, Trainer, "_update", 1, none_is_left)
        train(tiny.config(*overrides), resume=begin == "resumed")


def test_a_rehearsal_that_runs_out_of_memory_leaves_no_gradients(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_of(tiny.config())
    monkeypatch.setattr(trainer.learner.update, "add", MagicMock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        rehearse(trainer.micro_batches, LargestBatch(np.arange(1), 1), trainer.dataset.epoch(0))
    assert all(parameter.grad is None for parameter in trainer.learner.model.parameters())
