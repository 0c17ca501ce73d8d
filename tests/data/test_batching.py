"""Which pairs go together, in which order, and how a batch is laid out."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from translate.config.training import BatchConfig
from translate.data.batching import BatchPlan, make_batch, pad_rows, split_into_batches
from translate.data.dataset import Dataset, EncodedText
from translate.text.vocabulary import BOS, EOS, PAD

lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=80)


def plan_of(pairs: list[tuple[int, int]], seed: int = 3, **config: Any) -> BatchPlan:
    """A plan for pairs of these source and target lengths, whose indices are 100, 102, 104 and so on."""
    indices = 100 + 2 * np.arange(len(pairs))
    source, target = np.zeros((2, 100 + 2 * len(pairs)), dtype=np.int64)
    source[indices], target[indices] = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return BatchPlan(indices, source, target, BatchConfig.model_validate(config), seed)


def drawn(pairs: int) -> list[tuple[int, int]]:
    return [(int(s), int(t)) for s, t in np.random.default_rng(0).integers(1, 25, (pairs, 2))]


def listed(plan: BatchPlan, epoch: int = 0) -> list[list[list[int]]]:
    return [[batch.tolist() for batch in update] for update in plan.epoch(epoch)]


def batches_of(plan: BatchPlan, epoch: int = 0) -> list[list[int]]:
    return [batch for update in listed(plan, epoch) for batch in update]


# --- the plan --------------------------------------------------------------------------------------------------------


@given(
    pairs=lengths,
    max_tokens=st.integers(1, 120),
    max_sentences=st.none() | st.integers(1, 9),
    accumulate=st.integers(1, 4),
    epoch=st.integers(0, 3),
)
def test_each_pair_once_within_both_limits(
    pairs: list[tuple[int, int]], max_tokens: int, max_sentences: int | None, accumulate: int, epoch: int
) -> None:
    plan = plan_of(pairs, max_tokens=max_tokens, max_sentences=max_sentences, accumulate=accumulate)
    updates = listed(plan, epoch)
    batches = [batch for update in updates for batch in update]
    assert sorted(pair for batch in batches for pair in batch) == plan.indices.tolist()
    for batch in batches:
        assert batch
        widest = max(1 + max(pairs[(pair - 100) // 2]) for pair in batch)  # eos counted
        assert len(batch) == 1 or len(batch) * widest <= max_tokens
        assert max_sentences is None or len(batch) <= max_sentences
    assert [len(update) for update in updates[:-1]] == [accumulate] * (len(updates) - 1)
    assert all(1 <= len(update) <= accumulate for update in updates)


def test_a_pair_over_the_budget_is_alone() -> None:
    batches = batches_of(plan_of([(3, 3), (50, 2), (2, 3), (4, 60)], max_tokens=20))
    assert sorted(batches) == [[102], [104, 100], [106]]


def test_a_batch_is_filled_to_the_budget() -> None:
    # 4 words and eos: four such sentences make 20 tokens, either side.
    assert sorted(map(len, batches_of(plan_of([(4, 2)] * 9, max_tokens=20)))) == [1, 4, 4]
    assert sorted(map(len, batches_of(plan_of([(2, 4)] * 9, max_tokens=20)))) == [1, 4, 4]
    assert sorted(map(len, batches_of(plan_of([(2, 4)] * 9, max_tokens=19)))) == [3, 3, 3]
    assert sorted(map(len, batches_of(plan_of([(2, 4)] * 9, max_tokens=20, max_sentences=2)))) == [1, 2, 2, 2, 2]


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    pairs = drawn(300)
    plan, again = plan_of(pairs, max_tokens=100), plan_of(pairs, max_tokens=100)
    assert listed(plan, 5) == listed(again, 5) == listed(plan, 5)
    orders = [listed(plan, 0), listed(plan, 1), listed(plan_of(pairs, seed=4, max_tokens=100), 0)]
    assert len({str(order) for order in orders}) == 3


@given(pairs=lengths, max_tokens=st.integers(1, 120), accumulate=st.integers(1, 3))
def test_every_epoch_has_as_many_updates(pairs: list[tuple[int, int]], max_tokens: int, accumulate: int) -> None:
    plan = plan_of(pairs, max_tokens=max_tokens, accumulate=accumulate)
    assert len({len(plan.epoch(epoch)) for epoch in range(4)}) == 1


def test_an_order_is_kept_until_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sorts: list[int] = []
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: sorts.append(1) or lexsort(keys))
    plan = plan_of(drawn(50), max_tokens=100)
    first = listed(plan, 0)
    plan.shapes(0)
    assert listed(plan, 0) == first
    assert len(sorts) == 1
    plan.epoch(1)
    assert listed(plan, 0) == first
    assert len(sorts) == 3


def test_a_planned_epoch_takes_little_more_than_the_number_of_each_pair() -> None:
    lengths = np.random.default_rng(0).integers(1, 25, (2, 20_000), dtype=np.int32)
    kept = []
    for _ in range(3):  # The least counts, because what pytest-xdist's thread allocates meanwhile is counted, too.
        plan = BatchPlan(np.arange(20_000, dtype=np.int32), *lengths, BatchConfig(max_tokens=1000), 1)
        tracemalloc.start()
        try:
            epoch = plan.epoch(0)
            plan.shapes(0)
            kept.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(epoch) > 100
    assert min(kept) < 1.5 * 4 * 20_000


def test_epochs_group_other_pairs() -> None:
    """Not only is the order of the batches another one: equally long pairs meet others."""
    plan = plan_of([(5, 5)] * 60, max_tokens=60)
    groups = [{frozenset(batch) for batch in batches_of(plan, epoch)} for epoch in (0, 1)]
    assert not groups[0] & groups[1]


def widths_of(epoch: int) -> list[int]:
    """The most words of a source in each batch, in the order of the batches."""
    pairs = drawn(2000)
    batches = batches_of(plan_of(pairs, max_tokens=200), epoch)
    return [max(pairs[(pair - 100) // 2][0] for pair in batch) for batch in batches]


def test_batches_do_not_come_by_length() -> None:
    widths = widths_of(0)
    assert len(widths) > 100
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3


def test_lengths_come_in_another_order_in_each_epoch() -> None:
    one, other = widths_of(0), widths_of(1)
    assert sorted(one) == sorted(other)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.3


def test_padding_share_by_hand() -> None:
    # Sources 3 and 5 with eos, targets 7 and 3: 18 tokens in 2 rows of 5 and 2 rows of 7.
    assert plan_of([(2, 6), (4, 2)], max_tokens=14).shapes(0).padding_share() == pytest.approx(1 - 18 / 24)
    assert plan_of([(2, 6), (4, 2)], max_tokens=13).shapes(0).padding_share() == 0


def test_shapes_are_those_of_the_batches() -> None:
    pairs, rng = drawn(500), np.random.default_rng(1)
    plan = plan_of(pairs, max_tokens=150)
    source, target = (texts(rng, [pair[i] for pair in pairs]) for i in (0, 1))
    dataset = Dataset(source, target)
    epoch, shapes = plan.epoch(0), plan.shapes(0)
    batches = [make_batch(dataset, (epoch.batch(i) - 100) // 2) for i in range(len(epoch.batch_order))]
    real = [(int(batch.source_mask_BS.sum()), int(batch.target_mask_BT.sum())) for batch in batches]
    expected = [(*batch.shape, *tokens) for batch, tokens in zip(batches, real, strict=True)]
    assert list(zip(*(column.tolist() for column in shapes), strict=True)) == expected
    positions = sum(batch.source_BS.numel() + batch.target_BT.numel() for batch in batches)
    assert shapes.padding_share() == pytest.approx(1 - np.sum(real) / positions)
    assert 0 < shapes.padding_share() < 0.3
    assert all(map(np.array_equal, plan.shapes(1), shapes))


def test_an_epoch_has_no_further_updates() -> None:
    epoch = plan_of(drawn(50), max_tokens=100, accumulate=2).epoch(0)
    assert len(epoch[len(epoch) - 1]) >= 1
    for update in (-1, len(epoch)):
        with pytest.raises(IndexError, match=f"update {update} of {len(epoch)}"):
            epoch[update]


@pytest.mark.parametrize(
    ("widths", "max_tokens", "max_rows", "expected"),
    [
        ([], 10, None, []),
        ([3], 10, None, [(0, 1)]),
        ([11, 11], 10, None, [(0, 1), (1, 2)]),
        ([5, 5, 5], 10, None, [(0, 2), (2, 3)]),
        ([2, 3, 6, 1, 1], 10, None, [(0, 2), (2, 3), (3, 5)]),
        ([9, 1, 1, 1], 10, None, [(0, 1), (1, 4)]),
        ([1, 1, 1, 1], 10, 3, [(0, 3), (3, 4)]),
    ],
)
def test_cut_by_hand(widths: list[int], max_tokens: int, max_rows: int | None, expected: list[tuple[int, int]]) -> None:
    assert split_into_batches(np.array(widths, dtype=np.int64), max_tokens, max_rows) == expected


# --- a batch ---------------------------------------------------------------------------------------------------------


def encoded(rows: list[list[int]]) -> EncodedText:
    ids = np.array([token for row in rows for token in row], dtype=np.uint16)
    return EncodedText(ids, np.cumsum([0, *map(len, rows)]))


def texts(rng: np.random.Generator, sizes: list[int]) -> EncodedText:
    return encoded([rng.integers(4, 60_000, size).tolist() for size in sizes])


def test_a_batch_by_hand() -> None:
    source, target = encoded([[9, 9], [4, 5, 6], [7]]), encoded([[8], [10, 11], [12, 13, 14]])
    batch = make_batch(Dataset(source, target), np.array([2, 1]))
    yes, no = True, False
    assert batch.source_BS.tolist() == [[7, EOS, PAD, PAD], [4, 5, 6, EOS]]
    assert batch.source_mask_BS.tolist() == [[yes, yes, no, no], [yes, yes, yes, yes]]
    assert batch.target_mask_BT.tolist() == [[yes, yes, yes, yes], [yes, yes, yes, no]]
    assert batch.target_BT[batch.target_mask_BT].tolist() == [BOS, 12, 13, 14, BOS, 10, 11]
    assert batch.labels_N.tolist() == [12, 13, 14, EOS, 10, 11, EOS]
    assert {t.dtype for t in (batch.source_BS, batch.target_BT, batch.labels_N)} == {torch.int64}
    assert {t.dtype for t in (batch.source_mask_BS, batch.target_mask_BT)} == {torch.bool}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.integers(0, 99))
def test_each_label_is_what_the_decoder_reads_next(sizes: list[tuple[int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = (texts(rng, [pair[i] for pair in sizes]) for i in (0, 1))
    batch = make_batch(Dataset(source, target), range(len(sizes)))
    labels = batch.labels_N.split(batch.target_mask_BT.sum(1).tolist())
    for row, (s, t) in enumerate(sizes):
        assert batch.source_BS[row, : s + 1].tolist() == [*source[row].tolist(), EOS]
        assert batch.target_BT[row, : t + 1].tolist() == [BOS, *target[row].tolist()]
        assert labels[row].tolist() == [*target[row].tolist(), EOS]
        assert not batch.source_mask_BS[row, s + 1 :].any()
        assert (batch.source_BS[row, s + 1 :] == PAD).all()
    assert batch.source_BS.shape == (len(sizes), 1 + max(s for s, _ in sizes))
    assert batch.target_BT.shape == batch.target_mask_BT.shape == (len(sizes), 1 + max(t for _, t in sizes))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_lines_are_gathered_in_any_order(sizes: list[int], data: st.DataObject) -> None:
    text = texts(np.random.default_rng(len(sizes)), sizes)
    lines = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=9))
    ids, lengths = text.gather(np.array(lines))
    assert ids.tolist() == [token for line in lines for token in text[line].tolist()]
    assert lengths.tolist() == [sizes[line] for line in lines]
    same = EncodedText.of([text[line] for line in lines])
    assert same.ids.tolist() == ids.tolist()
    assert same.lengths.tolist() == lengths.tolist()


def test_to_moves_every_tensor() -> None:
    batch = make_batch(Dataset(encoded([[4]]), encoded([[5]])), [0])
    moved = vars(batch.to(torch.device("meta")))
    assert len(moved) == 5
    assert {tensor.device.type for tensor in moved.values()} == {"meta"}


def test_pad_rows_takes_ids_of_any_type() -> None:
    rows: list[NDArray[np.integer]] = [np.array([65_535], dtype=np.uint16), np.array([4, 5, 6], dtype=np.int32)]
    ids, mask = pad_rows(rows)
    assert ids.tolist() == [[65_535, PAD, PAD], [4, 5, 6]]
    assert mask.tolist() == [[True, False, False], [True] * 3]
