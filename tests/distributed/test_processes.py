"""The shares that processes have of an update, and that a process by itself is the simplest case of several."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from translate.distributed.processes import SINGLE_PROCESS, Part, Processes, number_from, seed_of
from translate.errors import CheckpointError


def process(rank: int, count: int) -> Processes:
    """One of several processes, which need not meet to share batches."""
    processes = Processes()
    processes.rank, processes.count = rank, count
    return processes


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 2, 4, 7, 20])
def test_parts_are_the_batch(size: int, count: int) -> None:
    batch = np.arange(100, 100 + size)
    parts = [part for rank in range(count) for part in process(rank, count).parts([batch])[0]]
    assert len(parts) == count
    counted = np.concatenate([part.indices for part in parts if part.weight])
    assert sorted(counted.tolist()) == batch.tolist()
    assert all(len(part.indices) for part in parts)
    assert {part.weight for part in parts} <= {0, 1}
    sizes = [part.weight * len(part.indices) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("count", [2, 3])
def test_every_part_of_a_batch_has_short_pairs_and_long_ones(count: int) -> None:
    for rank in range(count):
        (((pairs, _),),) = process(rank, count).parts([np.arange(60)])
        assert pairs.min() < count
        assert pairs.max() >= 60 - count


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("pieces", [1, 2, 4, 8])
@pytest.mark.parametrize("weight", [0, 1])
def test_pieces_are_the_part(weight: int, size: int, pieces: int) -> None:
    split = Part(np.arange(size), weight).split(pieces)
    assert len(split) == min(size, pieces)
    assert sorted(np.concatenate([piece.indices for piece in split]).tolist()) == list(range(size))
    assert all(piece.weight == weight for piece in split)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("number", [2, 3, 4, 6, 7])
def test_whole_batches_go_to_processes_as_far_as_they_come_out_even(number: int, count: int) -> None:
    batches = [np.arange(10 * i, 10 * i + 6) for i in range(number)]
    parts = [process(rank, count).parts(batches)[0] for rank in range(count)]
    assert {len(own) for own in parts} == {number // count + number % count}  # all make as many backward passes
    whole = [part.indices.tolist() for own in parts for part in own if len(part.indices) == 6]
    even = number // count * count
    assert sorted(whole) == [batch.tolist() for batch in batches[:even]]
    split = [pair for own in parts for part in own if len(part.indices) < 6 for pair in part.indices.tolist()]
    assert sorted(split) == np.concatenate([*batches[even:], np.arange(0)]).tolist()


def test_a_process_by_itself() -> None:
    batch = np.arange(3)
    ((part,),) = SINGLE_PROCESS.parts([batch])
    assert part.indices is batch
    assert part.weight == 1
    assert SINGLE_PROCESS.gather(1, 2.5, 2**48 - 1).tolist() == [[1, 2.5, 2**48 - 1]]  # as number_from gives them
    tensor = torch.arange(3)
    assert SINGLE_PROCESS.gather_tensors(tensor)[0] is tensor
    assert SINGLE_PROCESS.on_first(lambda: 7) == 7
    with SINGLE_PROCESS.first_ahead():
        pass
    before = torch.get_rng_state()
    SINGLE_PROCESS.seed_each_process(seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeds_differ() -> None:
    seeds = {seed_of(seed, step, rank) for seed in range(5) for step in range(5) for rank in range(5)}
    assert len(seeds) == 125
    assert seed_of(1, 2, 3) == seed_of(1, 2, 3)
    torch.manual_seed(max(seeds))  # every one of them fits


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("number", [1, 2, 3, 5])
def test_workers_of_all_processes_share_an_update(number: int, processes: int) -> None:
    batches = [np.arange(10 * i, 10 * i + 6) for i in range(number)]
    parts = []
    for rank in range(processes):
        parts += process(rank, processes).parts(batches, 2)
    assert len(parts) == 2 * processes
    assert len({len(own) for own in parts}) == 1
    pairs = np.concatenate([part.indices for own in parts for part in own])
    assert sorted(pairs.tolist()) == np.concatenate(batches).tolist()


def test_processes_can_exchange_numbers_of_text_as_floats() -> None:
    numbers = [number_from(bytes([byte])) for byte in range(256)]
    assert len(set(numbers)) == 256
    assert number_from(b"{training: {max_steps: 3}}") != number_from(b"{training: {max_steps: 4}}")  # in the end alone
    assert [int(float(number)) for number in numbers] == numbers


@pytest.mark.parametrize(
    ("numbers", "agree"), [([3], True), ([3, 3], True), ([3, 4], False), ([3, 3, 3], True), ([3, 3, 4], False)]
)
def test_one_process_that_differs_from_the_others_is_noticed(numbers: list[float], agree: bool) -> None:
    class Several(Processes):
        def gather(self, *own: float) -> NDArray[np.float64]:
            return np.array(numbers, dtype=np.float64)[:, None]

    assert Several().agree_on(3) is agree
    if agree:
        Several().expect_the_same(3, "snapshots")
    else:
        with pytest.raises(CheckpointError, match=r"^the processes find different snapshots; "):
            Several().expect_the_same(3, "snapshots")
