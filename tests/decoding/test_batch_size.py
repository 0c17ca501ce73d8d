"""Batches that fit into memory: how small they become, and for how long; the rest is in test_translator.py."""

from functools import partial

import pytest

from translate.decoding.batch_size import AdaptiveBatchSize
from translate.errors import DataError


@pytest.mark.parametrize(("lengths", "longest"), [([0, 7, 9], 100), ([20, 0], 7)])
def test_the_shortest_line_that_has_something_to_read_decides_when_to_give_up(lengths: list[int], longest: int) -> None:
    tried: list[int] = []

    def work(tokens: int) -> None:
        tried.append(tokens)
        raise MemoryError

    with pytest.raises(DataError, match="out of memory with a single sentence"):
        AdaptiveBatchSize().run(work, 64, lengths, longest)
    assert tried == [64, 32, 16, 8]


def test_what_fitted_before_a_line_that_did_not_is_remembered() -> None:
    batch_size, tried = AdaptiveBatchSize(), []

    def work(tokens: int, most: int) -> None:
        tried.append(tokens)
        if tokens > most:
            raise MemoryError

    batch_size.run(partial(work, most=32), 64, [1], 100)
    with pytest.raises(DataError, match="out of memory with a single sentence"):
        batch_size.run(partial(work, most=0), 64, [7], 100)
    batch_size.run(partial(work, most=32), 64, [1], 100)
    assert tried == [64, 32, 32, 16, 8, 32]
