"""Updates that are replayed do what updates operation by operation do.

What is recorded runs here as it is, on a CPU; tests/integration/test_gpu.py replays it on a GPU, where there is one.
"""

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_updates import CPU, LABELLED, SMALL, UPDATES, batch, build_translator, small_model
from torch import Tensor

from translate.config.schema import Config
from translate.data.batching import IGNORED, Batch, Shapes
from translate.distributed.parallel import ParallelModel, Single, build_parallel
from translate.distributed.processes import SINGLE_PROCESS
from translate.model.build import Model
from translate.model.positions import SinusoidalPositions
from translate.optimization.build import build_update
from translate.optimization.recorded import RecordedUpdate, Work, round_up
from translate.optimization.update import Update
from translate.text.vocabulary import EOS, PAD

SHORT, LONG = 1000, 1001  # updates of a run


def trained(kind: type[Update], training: dict[str, Any], labels: bool = False, **keywords: Any) -> Any:
    """What updates report, and the weights after them."""
    torch.manual_seed(1)
    config = Config.model_validate({"training": {"clip_norm": 0.5, **training}}).training
    model = small_model(labels)
    update = kind(build_parallel("ddp", model.train(), SINGLE_PROCESS), config, CPU, torch.float32, **keywords)
    reports = []
    for number, batches in enumerate(LABELLED if labels else UPDATES, 1):
        update.begin()
        tokens = sum(len(made.labels_N) for made in batches)
        sums = [update.accumulate(made, 1 / tokens, last=made is batches[-1]).tolist() for made in batches]
        reports.append((sums, update.clip()))
        update.step(0.01 / number)
    return reports, {name: parameter.detach() for name, parameter in model.named_parameters()}


def recorded_update(model: Model, record: Callable[[Work], Work] = lambda work: work, updates: int = LONG) -> Update:
    config = Config().training
    return RecordedUpdate(Single(model), config, CPU, torch.float32, updates=updates, record=record)


@pytest.mark.parametrize("labels", [False, True], ids=["translation", "labels"])
@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_replayed_updates_do_the_same(kind: str, r_drop: float, labels: bool) -> None:
    recorded: list[Work] = []

    def record(work: Work) -> Work:
        recorded.append(work)
        return work

    training = {"optimizer": {"kind": kind}, "r_drop": r_drop}
    reports, weights = trained(Update, training, labels)
    found_reports, found = trained(RecordedUpdate, training, labels, updates=LONG, record=record)
    torch.testing.assert_close(found_reports, reports, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, weights, rtol=1e-3, atol=1e-5)
    # Clipping, the step, and the shapes of all batches but those of the first update: (3, 5, 10) is there twice.
    assert len(recorded) == 2 + (3 if labels else 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_passes_are_in_the_arithmetic_that_was_asked_for(dtype: torch.dtype) -> None:
    model, found = small_model(), []
    model.register_forward_hook(lambda module, inputs, logits: found.append(logits.dtype))
    update = RecordedUpdate(Single(model), Config().training, CPU, dtype, updates=LONG, record=lambda work: work)
    update.begin()
    update.accumulate(UPDATES[0][0], 1.0, last=True)
    assert found == [dtype]


def test_learned_positions_are_enough_for_a_batch_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = SMALL | {"positions": "learned", "max_positions": 11}  # which `round_up` makes 12
    monkeypatch.setitem(globals(), "small_model", lambda _: build_translator(**longest))
    reports, weights = trained(Update, {})
    found_reports, found = trained(RecordedUpdate, {}, updates=LONG, record=lambda work: work)
    torch.testing.assert_close(found_reports, reports, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, weights, rtol=1e-3, atol=1e-5)


def test_no_more_shapes_are_recorded_than_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.optimization.recorded.MAX_SHAPES", 1)
    recorded: list[Work] = []
    found_reports, _ = trained(RecordedUpdate, {}, updates=LONG, record=lambda work: recorded.append(work) or work)
    reports, _ = trained(Update, {})
    torch.testing.assert_close(found_reports, reports, rtol=1e-4, atol=1e-5)
    assert len(recorded) == 2 + 1


def test_the_figures_of_a_pass_outlast_the_next_one() -> None:
    """A graph writes them into the same memory each time."""

    def record(work: Work) -> Work:
        place = torch.zeros(2)

        def again() -> Any:
            found = work()
            return place.copy_(found) if isinstance(found, Tensor) and found.shape == place.shape else found

        return again

    update = recorded_update(small_model(), record)
    for _ in range(2):
        update.begin()
        first, second = (
            update.accumulate(made, 1.0, last=made is UPDATES[3][0]) for made in (UPDATES[0][0], UPDATES[3][0])
        )
        update.step(0.01)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("number", range(6))
def test_updates_go_on_when_recording_fails(number: int, caplog: pytest.LogCaptureFixture) -> None:
    recorded: list[Work] = []

    def record(work: Work) -> Work:
        if len(recorded) == number:
            raise torch.OutOfMemoryError
        recorded.append(work)
        return work

    reports, weights = trained(Update, {})
    found_reports, found = trained(RecordedUpdate, {}, updates=LONG, record=record)
    torch.testing.assert_close(found_reports, reports, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, weights, rtol=1e-3, atol=1e-5)
    (message,) = caplog.messages
    assert message.startswith("from now on updates run without CUDA graphs")
    assert message.endswith("recording one has failed: out of memory")


def test_whatever_else_cannot_be_recorded_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def record(work: Work) -> Work:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nSearch for `cudaErrorStr")

    trained(RecordedUpdate, {}, updates=LONG, record=record)
    assert caplog.text.endswith("has failed: CUDA error: operation not permitted when stream is capturing\n")


def test_memory_of_recordings_is_freed_for_good(caplog: pytest.LogCaptureFixture) -> None:
    recorded: list[weakref.ref[Any]] = []

    def record(work: Work) -> Work:
        def again() -> Any:
            return work()

        recorded.append(weakref.ref(again))
        return again

    update = recorded_update(small_model(), record)
    freed = []
    for _ in range(3):
        freed.append(update.give_up_memory())
        update.begin()
        update.accumulate(UPDATES[0][0], 1.0, last=True)
        update.clip()
        update.step(0.01)
    freed.append(update.give_up_memory())
    assert freed == [False, False, True, False]
    assert len(recorded) == 3
    assert [again() for again in recorded] == [None] * 3
    assert caplog.text.endswith("their memory is needed\n")


def test_recordings_keep_the_gradients_that_they_add_to() -> None:
    model = small_model()
    update = recorded_update(model)
    update.begin()
    gradients = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()  # As the rehearsal before a run does.
    update.begin()
    assert all(parameter.grad is own for parameter, own in zip(model.parameters(), gradients, strict=True))


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
def test_recordings_read_each_rate_where_they_found_the_first(kind: str) -> None:
    config = Config.model_validate({"training": {"optimizer": {"kind": kind}}}).training
    update = RecordedUpdate(Single(small_model()), config, CPU, torch.float32, updates=LONG, record=lambda work: work)
    groups = [group for optimizer in update.optimizers for group in optimizer.param_groups]
    rates = [group["lr"] for group in groups]
    update.begin()
    update.accumulate(UPDATES[0][0], 1.0, last=True)
    update.step(0.25)
    assert [float(rate) for rate in rates] == [0.25] * len(groups)
    assert all(group["lr"] is rate for group, rate in zip(groups, rates, strict=True))


def test_nothing_is_recorded_between_updates() -> None:
    """Where a rehearsal passes a batch with gradients of its own, which are gone afterwards."""
    recorded: list[Work] = []
    model = small_model()
    update = recorded_update(model, lambda work: recorded.append(work) or work)
    for _ in range(2):
        update.begin()
        update.accumulate(UPDATES[0][0], 1.0, last=True)
        update.clip()
        update.step(0.01)
    before = len(recorded)
    update.accumulate(UPDATES[0][1], 1.0, last=True)
    assert len(recorded) == before == 3


def test_a_table_lives_as_long_as_the_recordings_that_read_it() -> None:
    """Also when a longer one has taken its place."""
    model = small_model()
    update = recorded_update(model)
    for _ in range(2):
        update.begin()
        update.accumulate(UPDATES[0][0], 1.0, last=True)
        update.step(0.01)
    tables = {name: weakref.ref(table) for name, table in model.named_buffers()}
    assert tables
    for module in model.modules():
        if isinstance(module, SinusoidalPositions):
            module(0, 1000)
    for name, table in model.named_buffers():
        assert tables[name]() is not table
        assert tables[name]() is not None
    assert update.give_up_memory()
    assert [reference() for reference in tables.values()] == [None] * len(tables)


@pytest.mark.parametrize("lengths", [(600, 5), (5, 700)], ids=["source", "target"])
def test_tables_of_positions_do_not_grow_while_something_is_recorded(lengths: tuple[int, int]) -> None:
    model = small_model()
    grown: list[bool] = []

    def record(work: Work) -> Work:
        tables = dict(model.named_buffers())
        result = work()
        grown.append(any(table is not tables[name] for name, table in model.named_buffers()))
        return lambda: result

    update = recorded_update(model, record)
    update.begin()  # The first update of a run is not recorded.
    update.accumulate(UPDATES[0][0], 1.0, last=True)
    update.step(0.01)
    update.begin()
    update.accumulate(batch(lengths, seed=8), 1.0, last=True)
    assert grown == [False]


@pytest.mark.parametrize(
    ("device", "way", "settings", "replayed"),
    [
        ("cuda", Single, {}, True),
        ("cuda", Single, {"plain": ["graphs"]}, False),
        ("cuda", Single, {"activation_checkpointing": True}, False),
        ("cuda", ParallelModel, {}, False),
        ("cpu", Single, {}, False),
    ],
)
def test_what_is_replayed(
    device: str, way: type[ParallelModel], settings: dict[str, Any], replayed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.optimization.recorded.CudaGraphs", lambda: None)
    config = Config.model_validate({"training": settings}).training
    update = build_update(way(small_model()), config, torch.device(device), torch.float32, updates=LONG)
    assert isinstance(update, RecordedUpdate) == replayed


def test_a_padded_batch_by_hand() -> None:
    yes, no = True, False
    small = Batch(
        torch.tensor([[7, EOS], [EOS, PAD]]),
        torch.tensor([[yes, yes], [yes, no]]),
        torch.tensor([[3, 8], [3, PAD]]),
        torch.tensor([[yes, yes], [yes, no]]),
        torch.tensor([8, EOS, 9]),
    )
    large = small.padded(3, 4, 3)
    assert large.shape == (3, 4, 3)
    assert large.source_BS.tolist() == [[7, EOS, PAD, PAD], [EOS, PAD, PAD, PAD], [PAD] * 4]
    assert large.source_mask_BS.tolist() == [[yes, yes, no, no], [yes, no, no, no], [yes, no, no, no]]
    assert large.target_BT.tolist() == [[3, 8, PAD], [3, PAD, PAD], [PAD] * 3]
    assert large.labels_N.tolist() == [8, EOS, IGNORED, 9, IGNORED, IGNORED, *[IGNORED] * 3]
    assert large.target_mask_BT.all()


def test_padding_to_its_own_shape_leaves_the_masks() -> None:
    same = UPDATES[0][0].padded(*UPDATES[0][0].shape)
    assert torch.equal(same.source_mask_BS, UPDATES[0][0].source_mask_BS)
    labels: Tensor = same.labels_N[same.labels_N != IGNORED]
    assert torch.equal(labels, UPDATES[0][0].labels_N)


@pytest.mark.parametrize(
    ("shape", "padded", "padded_alike"),
    [
        ((9, 13, 8), (10, 14, 8), (10, 14, 14)),
        ((9, 8, 13), (10, 8, 14), (10, 14, 14)),
        ((9, 14, 7), (10, 14, 7), (10, 14, 7)),  # One side is twice as long as the other.
        ((9, 2, 1), (10, 2, 1), (10, 2, 1)),  # a label
        ((256, 16, 9), (256, 16, 10), (256, 16, 16)),
        ((257, 16, 9), (320, 16, 10), (320, 16, 10)),  # more than a few tokens
        ((2, 70, 87), (2, 80, 90), (2, 90, 90)),  # There are 90 positions: 87 would become 96.
    ],
)
def test_shapes_by_hand(shape: tuple[int, ...], padded: tuple[int, ...], padded_alike: tuple[int, ...]) -> None:
    """In a long run, and in a short one."""
    rows, source, target = (np.array([size]) for size in shape)
    shapes = Shapes(rows, source, target, rows * source, rows * target)
    model = build_translator(**SMALL, positions="learned", max_positions=90)
    for updates, expected in ((LONG, padded), (SHORT, padded_alike)):
        found = recorded_update(model, updates=updates).padded(shapes)
        assert tuple(int(sizes[0]) for sizes in found[:3]) == expected


@given(st.integers(1, 10**6))
def test_rounded_sizes_are_few_and_little_larger(size: int) -> None:
    assert size <= round_up(size) <= 1.25 * size
    assert round_up(round_up(size)) == round_up(size)
    assert len({round_up(other) for other in range(64, 128)}) == 5
