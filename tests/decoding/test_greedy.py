"""Greedy search, beside the most probable tokens of a table."""

from functools import partial

import pytest
from slow_searches import assert_same, slow_greedy
from tables import Table, TableState, greedy

from translate.text.vocabulary import BOS, PAD, UNK


def test_greedy_takes_the_most_probable_token_at_each_step() -> None:
    table = Table(seed=3)
    for sentence, found in enumerate(greedy(table, list(range(20)), [8] * 20)):
        assert_same([found], [slow_greedy(partial(table.allowed, sentence), 8)])


def test_greedy_feeds_no_sentence_that_has_ended() -> None:
    sentences = list(range(30))
    state = TableState(sentences)
    found = greedy(Table(seed=1), sentences, [12] * 30, state)
    assert len({h.length for h in found}) > 3
    assert sum(state.rows_fed) == sum(h.length for h in found)


def test_any_token_that_is_not_forbidden_may_be_chosen() -> None:
    state = TableState(list(range(40)))
    found = greedy(Table(seed=1, forbidden=()), list(range(40)), [6] * 40, state)
    assert {UNK, PAD, BOS} <= {token for h in found for token in h.tokens}


@pytest.mark.parametrize("ties", [False, True])
def test_batch_mates_change_nothing(ties: bool) -> None:
    table, sentences, limits = Table(seed=11, vocabulary=12, ties=ties), list(range(64)), [1 + s % 9 for s in range(64)]
    together = greedy(table, sentences, limits)
    assert together == [greedy(table, [s], [limits[s]])[0] for s in sentences]


def test_no_sentences_no_translations() -> None:
    assert greedy(Table(seed=1), [], []) == []
