"""Beam search over tables, equal to slow and to exhaustive searches of them."""

import itertools
import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_searches import assert_same, slow_beam
from tables import FORBIDDEN, Prefix, Table, TableState, greedy
from torch import Tensor

from translate.decoding.beam import beam_search
from translate.decoding.hypothesis import Hypothesis
from translate.text.vocabulary import EOS


class Chain(Table):
    """A step given by a dictionary from prefix (without bos) to the probabilities of the next token."""

    def __init__(self, probabilities: dict[Prefix, dict[int, float]]) -> None:
        super().__init__(seed=0)
        self.probabilities = probabilities

    def next_log_probs(self, sentence: int, prefix: Prefix) -> Tensor:
        row = torch.full((self.vocabulary,), 1e-6)
        for token, probability in self.probabilities.get(prefix[1:], {EOS: 1.0}).items():
            row[token] = probability
        return row.log()


def beam(
    table: Table,
    sentences: list[int],
    limits: list[int],
    *,
    size: int,
    alpha: float = 0.0,
    n_best: int = 1,
    state: TableState | None = None,
) -> list[list[Hypothesis]]:
    return beam_search(
        table,
        state or TableState(sentences),
        beam_size=size,
        length_penalty=alpha,
        n_best=n_best,
        limits=torch.tensor(limits),
    )


def all_finished(table: Table, sentence: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Every finished translation of at most `limit` tokens, best first."""
    words = range(4, table.vocabulary)
    hypotheses = []
    for length in range(limit):
        for tokens in itertools.product(words, repeat=length):
            log_probability = table.log_probability(sentence, (*tokens, EOS))
            hypotheses.append(Hypothesis(tokens, log_probability, log_probability / (length + 1) ** alpha, True))
    return sorted(hypotheses, key=lambda h: -h.score)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_beam_of_one_is_greedy_search(seed: int, alpha: float, ties: bool) -> None:
    table, sentences, limits = Table(seed, vocabulary=9, ties=ties), list(range(30)), [1 + s % 10 for s in range(30)]
    expected = greedy(table, sentences, limits)
    found = [best for (best,) in beam(table, sentences, limits, size=1, alpha=alpha)]
    assert [(h.tokens, h.log_probability, h.finished) for h in found] == [
        (h.tokens, h.log_probability, h.finished) for h in expected
    ]


@pytest.mark.parametrize("n_best", [1, 4, 15])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 1.7])
def test_beam_as_wide_as_the_space_is_exhaustive_search(alpha: float, n_best: int) -> None:
    table, sentences = Table(seed=7), list(range(8))  # with two words there are 15 translations of up to 3 words
    for sentence, found in enumerate(beam(table, sentences, [4] * 8, size=31, alpha=alpha, n_best=n_best)):
        assert_same(found, all_finished(table, sentence, 4, alpha)[:n_best])


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 7),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    limit=st.integers(1, 9),
    data=st.data(),
)
def test_stopping_early_changes_nothing(seed: int, size: int, alpha: float, limit: int, data: st.DataObject) -> None:
    n_best = data.draw(st.integers(1, size))
    table = Table(seed, vocabulary=8)
    (found,) = beam(table, [0], [limit], size=size, alpha=alpha, n_best=n_best)
    assert_same(found, slow_beam(partial(table.allowed, 0), limit, size, alpha)[:n_best])


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 6), alpha=st.sampled_from([0.0, 1.0]), ties=st.booleans())
def test_beam_is_never_worse_than_a_finished_greedy_translation(seed: int, size: int, alpha: float, ties: bool) -> None:
    table, sentences = Table(seed, vocabulary=10, ties=ties), list(range(6))
    both = zip(greedy(table, sentences, [9] * 6), beam(table, sentences, [9] * 6, size=size, alpha=alpha), strict=True)
    for one, (best,) in both:
        if one.finished:
            assert best.finished
            assert best.score >= one.log_probability / one.length**alpha


def test_search_goes_on_while_a_live_hypothesis_can_win() -> None:
    table = Chain({(): {EOS: 0.5, 4: 0.3, 5: 0.2}, (4,): {EOS: 0.9, 4: 0.1}})
    ((best,),) = beam(table, [0], [10], size=2, alpha=1.0)
    assert best.tokens == (4,)  # log(0.27) / 2 > log(0.5)
    assert best.score == pytest.approx(math.log(0.27) / 2)
    ((best,),) = beam(table, [0], [10], size=2, alpha=0.0)
    assert best.tokens == ()


def test_what_has_ended_keeps_its_place_beside_what_is_more_probable_for_now() -> None:
    rest = {EOS: 0.2, 4: 0.4, 5: 0.4}
    table = Chain({(): {EOS: 0.2, 4: 0.8}, (4,): {4: 0.56, 5: 0.44}, (4, 4): rest, (4, 5): rest})
    ((best,),) = beam(table, [0], [10], size=2)
    assert best.tokens == ()  # (4, 4) and (4, 5) have more than 0.2, but no translation that begins with them has.


@pytest.mark.parametrize(("limit", "steps"), [(21, 1), (22, 2)])
def test_search_stops_when_no_live_hypothesis_can_win(limit: int, steps: int) -> None:
    # log(0.1) / 21.9 = log(0.9): a live hypothesis of probability 0.1 could only win with 22 tokens or more.
    table, state = Chain({(): {EOS: 0.9, 4: 0.1}, (4,): {4: 0.5, EOS: 0.5}}), TableState([0])
    beam(table, [0], [limit], size=2, alpha=1.0, state=state)
    assert len(state.rows_fed) == steps


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_batch_mates_change_nothing(size: int, ties: bool) -> None:
    table, sentences, limits = Table(seed=11, vocabulary=12, ties=ties), list(range(64)), [1 + s % 9 for s in range(64)]
    together = beam(table, sentences, limits, size=size, alpha=1.0, n_best=size)
    alone = [beam(table, [s], [limits[s]], size=size, alpha=1.0, n_best=size)[0] for s in sentences]
    assert together == alone


def test_beam_drops_sentences_that_have_ended() -> None:
    sentences = list(range(30))
    state = TableState(sentences)
    beam(Table(seed=2), sentences, [15] * 30, size=3, state=state)
    assert state.rows_fed == sorted(state.rows_fed, reverse=True)
    assert len(set(state.rows_fed)) > 3
    assert state.sentences == []


@pytest.mark.parametrize("size", [1, 5])
def test_hypotheses_are_what_they_claim(size: int) -> None:
    table, sentences = Table(seed=5, vocabulary=9), list(range(30))
    limits = [1 + s % 6 for s in sentences]
    kinds = set()
    for sentence, hypotheses in enumerate(beam(table, sentences, limits, size=size, alpha=0.7, n_best=size)):
        assert [h.finished for h in hypotheses] == sorted((h.finished for h in hypotheses), reverse=True)
        assert len({h.tokens for h in hypotheses if h.finished}) == sum(h.finished for h in hypotheses)
        for hypothesis in hypotheses:
            assert not {*FORBIDDEN, EOS} & set(hypothesis.tokens)
            assert hypothesis.length <= limits[sentence]
            assert hypothesis.finished or hypothesis.length == limits[sentence]
            fed = (*hypothesis.tokens, EOS) if hypothesis.finished else hypothesis.tokens
            assert hypothesis.log_probability == pytest.approx(table.log_probability(sentence, fed))
            assert hypothesis.score == pytest.approx(hypothesis.log_probability / hypothesis.length**0.7)
            kinds.add(hypothesis.finished)
    assert kinds == {True, False}


def test_a_small_vocabulary_gives_all_there_is() -> None:
    (found,) = beam(Table(seed=1, vocabulary=5), [0], [3], size=20, n_best=20)
    assert sorted(h.tokens for h in found if h.finished) == [(), (4,), (4, 4)]
    assert [h.finished for h in found] == [True, True, True, False]
    assert found[-1].tokens == (4, 4, 4)


def test_no_sentences_no_translations() -> None:
    assert beam(Table(seed=1), [], [], size=4) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_best": 4}, "n_best must be between 1 and beam_size 3, not 4"),
        ({"n_best": 0}, "n_best must be between 1 and beam_size 3, not 0"),
        ({"alpha": -0.5}, "length_penalty must be at least 0, not -0.5: the search would stop too early"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        beam(Table(seed=1), [0], [4], size=3, **settings)
