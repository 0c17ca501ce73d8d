"""The batch that takes most memory: which one it is, and what is told of it when it is run."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from small_updates import CPU
from torch import Tensor

from translate.config.model import TransformerConfig
from translate.config.training import BatchConfig, TrainingConfig
from translate.data.batching import Batch, BatchPlan, make_batch
from translate.data.dataset import Dataset, EncodedText, Indices
from translate.distributed.parallel import Single
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.model.build import build_model
from translate.model.plain import make_plain
from translate.optimization.recorded import RecordedUpdate
from translate.optimization.update import Update
from translate.training import rehearsal as rehearsal_module
from translate.training.learner import Learner
from translate.training.memory import TensorMemory, lasting_memory
from translate.training.micro_batches import MicroBatches
from translate.training.rehearsal import GROWTH, LargestBatch, largest_batch, rehearse, reporting_memory
from translate.training.tracking import Bar

SIZES: dict[str, Any] = {"d_model": 16, "ffn": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
SHORT = np.random.default_rng(1).integers(2, 7, (240, 2))  # lengths of pairs


class FirstOfTwo(Processes):
    """One of two processes, of which the other does nothing."""

    count = local_count = 2


@dataclass
class Prepared:
    """A learner before its first update, and what it is to learn."""

    learner: Learner
    plan: BatchPlan
    dataset: Dataset

    def largest(self) -> LargestBatch:
        return largest_batch(self.plan, 0, self.learner.model, self.learner.update.padded)

    def rehearse(self, largest: LargestBatch) -> None:
        rehearse(MicroBatches(self.learner), largest, self.dataset)


def prepared(
    lengths: np.ndarray = SHORT, vocabulary: int = 53, model: Mapping[str, Any] = SIZES, **batch: int
) -> Prepared:
    """Made-up pairs of these lengths, (pairs, 2), and settings of the model and of batches."""
    config = TrainingConfig(batch=BatchConfig(**{"max_tokens": 200, **batch}))
    rng = np.random.default_rng(1)
    source, target = (EncodedText.of([rng.integers(4, 20, length) for length in side]) for side in lengths.T)
    plan = BatchPlan(np.arange(len(lengths)), lengths[:, 0], lengths[:, 1], config.batch, 1)
    made = build_model(TransformerConfig(**{**SIZES, **model}), source_size=vocabulary, target_size=vocabulary)
    per_epoch = plan.updates_per_epoch
    learner = Learner(made, config, CPU, torch.float32, SINGLE_PROCESS, updates_per_epoch=per_epoch)
    return Prepared(learner, plan, Dataset(source, target))


def passed(made: Prepared, pairs: Indices) -> int:
    """What a batch takes."""
    for parameter in made.learner.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    with TensorMemory() as memory:
        made.learner.update.accumulate(make_batch(made.dataset, pairs), 1.0, last=True)
    return memory.peak


def tried(made: Prepared) -> tuple[LargestBatch, int, list[int]]:
    """The batch that is tried before all others, what it takes, and what each of the first batches takes."""
    largest = made.largest()
    needs = [passed(made, batch) for update in islice(made.plan.epoch(0), 60) for batch in update]
    return largest, passed(made, largest.indices), needs


# --- which one it is -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "batch"),
    [
        ({}, {}),
        ({"d_model": 64}, {"max_sentences": 20}),
        ({}, {"max_sentences": 1}),
        ({"attention_dropout": 0.1, "encoder_layers": 3}, {}),
    ],
    ids=str,
)
def test_no_batch_takes_more_than_the_one_that_is_tried(model: dict[str, Any], batch: dict[str, int]) -> None:
    _, most, needs = tried(prepared(model=model, **batch))
    assert len(needs) > 6
    assert min(needs) < 0.9 * max(needs)
    assert most > 0.97 * max(needs)


@pytest.mark.slow
@pytest.mark.parametrize("deep", ["encoder", "decoder"])
def test_the_largest_batch_where_sides_differ_in_length(deep: str) -> None:
    """The side that is longer is not always the one that takes more."""
    rng = np.random.default_rng(1)
    pairs = np.concatenate([rng.integers((3, 20), (6, 40), (50, 2)), rng.integers((20, 3), (40, 6), (50, 2))])
    made = prepared(pairs, model={f"{deep}_layers": 6}, max_tokens=500, max_sentences=10)
    largest, most, needs = tried(made)
    assert most > 0.97 * max(needs)
    assert largest.longest == 1 + pairs[largest.indices].max()
    assert (pairs[largest.indices, 0].mean() > pairs[largest.indices, 1].mean()) == (deep == "encoder")


@pytest.mark.slow
@pytest.mark.parametrize("longer", ["source", "target"])
def test_the_largest_batch_may_be_one_of_few_long_rows(longer: str) -> None:
    """Attention takes memory with the square of the length."""
    lengths = np.array([[3, 3]] * 100 + [[199, 3] if longer == "source" else [3, 199]] * 2)
    _, most, needs = tried(prepared(lengths, model={"heads": 8, "encoder_layers": 4}, max_tokens=400))
    assert most > 0.97 * max(needs)


@pytest.mark.parametrize("long", ["source", "target"])
def test_of_longer_rows_the_weights_are_not_kept(long: str) -> None:
    lengths = np.array([[240, 3]] * 2 + [[300, 3]] if long == "source" else [[3, 240]] * 2 + [[3, 300]])
    largest, most, needs = tried(prepared(lengths, model={"heads": 8}, max_sentences=1, max_tokens=400))
    assert largest.longest == 241
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


@pytest.mark.parametrize(
    ("model", "plain"),
    [({"attention_dropout": 0.1}, False), ({"d_v": 4}, False), ({"attention_dropout": 0.1}, True), ({}, True)],
    ids=str,
)
def test_the_weights_of_long_rows_are_all_kept_or_those_of_none(model: dict[str, Any], plain: bool) -> None:
    made = prepared(np.array([[240, 3]] * 2 + [[300, 3]]), model={"heads": 8, **model}, max_sentences=1, max_tokens=400)
    if plain:
        make_plain(made.learner.model, ["attention"])
        made.learner.update = Update(Single(made.learner.model), made.learner.config, CPU, torch.float32)
    largest, most, needs = tried(made)
    assert largest.longest == 301
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heads", "lengths"),
    [(8, [[100, 60], [20, 72]]), (1, [[60, 10], [10, 30]])],
    ids=["attention to the source", "layers of the decoder"],
)
def test_the_largest_batch_where_the_decoder_is_deep(heads: int, lengths: list[list[int]]) -> None:
    made = prepared(np.array(lengths * 2), model={"heads": heads, "decoder_layers": 6}, max_sentences=1)
    _, most, needs = tried(made)
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


def test_all_heads_of_a_deep_decoder_count() -> None:
    """A long target takes most, although a batch of short ones has more tokens."""
    lengths = np.array([[3, 3]] * 100 + [[3, 199]])
    largest, most, needs = tried(prepared(lengths, model={"heads": 8, "decoder_layers": 6}, max_tokens=400))
    assert largest.longest == 200
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


def test_the_scores_of_a_large_vocabulary_count() -> None:
    largest, most, needs = tried(prepared(np.array([[100, 3], [3, 60]]), vocabulary=1000, max_sentences=1))
    assert largest.longest == 61
    assert most > 0.97 * max(needs) > 1.1 * min(needs)


@pytest.mark.parametrize(("padded", "rows"), [(False, 16), (True, 9)])
def test_the_largest_batch_is_the_one_that_is_largest_when_padded(padded: bool, rows: int) -> None:
    """16 rows of 8 tokens stay as they are; 9 rows of 13 tokens, fewer in all, become 10 of 14."""
    made = prepared(np.array([[7, 7]] * 16 + [[12, 12]] * 9), max_tokens=128)
    learner = made.learner
    if padded:
        learner.update = RecordedUpdate(
            Single(learner.model), learner.config, CPU, torch.float32, updates=9, record=lambda work: work
        )
    largest, most, needs = tried(made)
    assert len(largest.indices) == rows
    assert most == max(needs) > min(needs)


# --- what is told ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("accumulate", "share"), [(1, 0.5), (2, 1.0)])
@pytest.mark.parametrize(("sharing", "times"), [("processes", ""), ("workers", "2 times ")])
def test_the_rows_told_are_those_of_a_process_and_of_a_worker(
    sharing: str, times: str, accumulate: int, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    made = prepared(accumulate=accumulate)
    if sharing == "processes":
        made.learner.processes = FirstOfTwo()
    else:
        made.learner.update.workers = 2
    made.learner.bar = Bar(total=1, done=0)
    largest = made.largest()
    made.rehearse(largest)
    rows = math.ceil(share * len(largest.indices))
    assert f" activations of {times}{rows} rows of {largest.longest} tokens " in capsys.readouterr().err


def test_a_warning_when_it_is_more_than_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda device: 2.0**20)
    made = prepared(model={"d_model": 64})
    made.learner.bar = Bar(total=1, done=0)
    made.rehearse(made.largest())
    warning, told = capsys.readouterr().err.splitlines()
    assert warning == (
        "warning: training may need more than the 1 MiB of free memory; set "
        "training.activation_checkpointing: true, or in a new run lower training.batch.max_tokens (now 200) "
        "and raise training.batch.accumulate to make up for it"
    )
    assert told.startswith("memory: about ")


def test_a_pair_that_is_a_batch_by_itself_can_only_be_dropped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda device: 2.0**20)
    for longest, told in ((220, True), (200, True), (199, False)):
        made = prepared(np.array([[3, 3]] * 20 + [[150, longest]]), model={"d_model": 64})
        made.learner.bar = Bar(total=1, done=0)
        made.rehearse(made.largest())
        advice = f"in a new run lower data.filter.max_tokens: the largest batch is one line, of {longest} tokens"
        assert (advice in capsys.readouterr().err.splitlines()[0]) == told


@contextmanager
def rehearsed(
    learner: Learner,
    pairs: int = 5,
    longest: int = 9,
    device: torch.device = CPU,
    processes: int = 1,
    workers: int = 1,
) -> Iterator[list[str]]:
    """A rehearsal that the body takes part in; what it says."""
    said: list[str] = []
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
    share: float, processes: int, workers: int, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = prepared().learner
    to_come = lasting_memory(learner.model, learner.update.optimizers, learner.config, CPU).to_come
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: share * GROWTH * to_come)
    with rehearsed(learner, processes=processes, workers=workers) as said:
        torch.zeros(1)
    assert any(line.startswith("warning: training may need more than") for line in said) == warned


def test_what_every_worker_takes_is_told_and_what_processes_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = prepared().learner
    to_come = lasting_memory(learner.model, learner.update.optimizers, learner.config, CPU, workers=3).to_come
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: 2.0 * GROWTH * (to_come + 8 * 2**20))
    with rehearsed(learner, processes=2, workers=3) as said:
        torch.zeros(2**20)  # 4 MiB, more than a third of 8
    warning, told = said
    assert "training may need more than the 14 MiB of free memory for each of 2 processes; " in warning
    assert "train with fewer than 2 processes" in warning
    assert told.endswith(", activations of 3 times 5 rows of 9 tokens 12 MiB")


def test_processes_on_gpus_share_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: 2.0**20)
    with rehearsed(prepared().learner, device=torch.device("cuda"), processes=2) as said:
        torch.zeros(200_000)  # 0.8 MB: nothing that a GPU has is taken besides.
        assert not said
        torch.zeros(2**20)
    assert said[0].startswith("warning: training may need more than the 1 MiB of free memory; set ")
    assert "processes" not in "".join(said)


def test_gradients_are_not_told_twice() -> None:
    learner = prepared(model={"d_model": 256}).learner
    with rehearsed(learner) as said:
        torch.stack([parameter.sum() for parameter in learner.model.parameters()]).sum().backward()
    assert " weights 3 MiB, gradients 3 MiB, " in said[0]
    assert said[0].endswith(", activations of 5 rows of 9 tokens 0 MiB")


# --- what it leaves --------------------------------------------------------------------------------------------------


def test_a_rehearsal_that_runs_out_of_memory_leaves_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared()
    monkeypatch.setattr(made.learner.update, "accumulate", MagicMock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        made.rehearse(LargestBatch(np.arange(1), 1))
    assert all(parameter.grad is None for parameter in made.learner.model.parameters())


@pytest.mark.parametrize("processes", [SINGLE_PROCESS, FirstOfTwo()], ids=["one", "two"])
def test_a_rehearsal_leaves_no_gradients_and_draws_no_numbers(processes: Processes) -> None:
    made = prepared()
    made.learner.processes = processes
    before = torch.get_rng_state()
    made.rehearse(made.largest())
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in made.learner.model.parameters())


def test_processes_agree_on_pieces_before_they_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared()
    made.learner.processes = FirstOfTwo()
    made.learner.model.eval()
    accumulate, tries = made.learner.update.accumulate, []

    def limited(batch: Batch, share: float, *, last: bool) -> Tensor:
        assert made.learner.model.training
        tries.append((len(batch.source_BS), last))
        if len(batch.source_BS) > 5:
            raise MemoryError
        return accumulate(batch, share, last=last)

    monkeypatch.setattr(made.learner.update, "accumulate", limited)
    made.rehearse(LargestBatch(np.arange(40), 7))
    assert tries == [(20, False), (10, False), (5, False), (5, True)]


@pytest.mark.parametrize(("processes", "passes"), [(SINGLE_PROCESS, 1), (FirstOfTwo(), 2)], ids=["one", "two"])
def test_a_rehearsal_draws_no_numbers_of_a_gpu(
    processes: Processes, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, forked = prepared(), []
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: forked.append(devices) or nullcontext())
    monkeypatch.setattr(rehearsal_module, "free_memory", lambda _: math.inf)
    made.learner.device, made.learner.processes = torch.device("cuda"), processes
    made.rehearse(made.largest())
    assert forked == [[torch.device("cuda")]] * passes


@pytest.mark.parametrize(("error", "tries"), [(MemoryError(), 4), (RuntimeError("shapes cannot be multiplied"), 1)])
def test_processes_make_pieces_of_pairs_and_only_where_memory_is_short(
    error: Exception, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = prepared()
    made.learner.processes = FirstOfTwo()
    accumulate = MagicMock(side_effect=error)
    monkeypatch.setattr(made.learner.update, "accumulate", accumulate)
    with pytest.raises(type(error)):
        made.rehearse(LargestBatch(np.arange(8), 7))
    assert accumulate.call_count == tries
