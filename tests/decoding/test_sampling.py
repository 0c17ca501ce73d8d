"""Samples of the distributions that tables.py draws for each sentence and prefix."""

from collections import Counter
from typing import Any

import pytest
import torch
from tables import FORBIDDEN, Prefix, Table, TableState
from torch import Tensor

from translate.decoding.hypothesis import Hypothesis
from translate.decoding.sampling import sample
from translate.text.vocabulary import BOS, EOS


def samples(
    table: Table, sentences: list[int], limits: list[int], *, size: int, seed: int = 0, **settings: Any
) -> list[list[Hypothesis]]:
    numbers = torch.rand(max(sentences) + 1, 20, size, generator=torch.Generator().manual_seed(seed)).double()
    state = settings.pop("state", None) or TableState(sentences)
    return sample(table, state, draws_BTK=numbers[sentences], limits=torch.tensor(limits), **settings)


def shares(hypotheses: list[Hypothesis]) -> dict[Prefix, float]:
    """How often each translation came out, with eos where it ended."""
    counts = Counter((*h.tokens, EOS) if h.finished else h.tokens for h in hypotheses)
    return {tokens: count / len(hypotheses) for tokens, count in counts.items()}


def possible(log_probs_V: Tensor, temperature: float = 1.0, top_k: int | None = None) -> dict[int, float]:
    """The probability of each token that may be drawn, spelled out."""
    weights = {token: log_probs_V[token].item() for token in range(len(log_probs_V)) if token not in FORBIDDEN}
    kept = sorted(weights, key=lambda token: -weights[token])[:top_k]
    heaps = {token: 2.718281828459045 ** (weights[token] / temperature) for token in kept}
    return {token: heap / sum(heaps.values()) for token, heap in heaps.items()}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"temperature": 3.0, "top_k": 2}, {"top_k": 100}])
def test_translations_come_as_often_as_they_are_probable(settings: dict[str, Any]) -> None:
    table, number = Table(seed=3), 20_000
    expected: dict[Prefix, float] = {}
    for first, probability in possible(table.next_log_probs(0, (BOS,)), **settings).items():
        if first == EOS:
            expected[(EOS,)] = probability
            continue
        for second, share in possible(table.next_log_probs(0, (BOS, first)), **settings).items():
            expected[(first, second)] = probability * share
    (found,) = samples(table, [0], [2], size=number, **settings)
    assert len(found) == number
    measured = shares(found)
    assert measured.keys() <= expected.keys()
    for tokens, probability in expected.items():
        deviation = (probability * (1 - probability) / number) ** 0.5
        assert abs(measured.get(tokens, 0.0) - probability) < 4.5 * deviation, tokens


def test_samples_are_what_they_claim() -> None:
    table, sentences = Table(seed=5, vocabulary=9), list(range(30))
    limits = [1 + s % 6 for s in sentences]
    kinds = set()
    found = samples(table, sentences, limits, size=5, temperature=0.7, top_k=4)
    for sentence, hypotheses in enumerate(found):
        ranks = [(not h.finished, -h.score) for h in hypotheses]
        assert ranks == sorted(ranks)
        assert len(hypotheses) == 5
        for h in hypotheses:
            assert not {*FORBIDDEN, EOS} & set(h.tokens)
            assert h.length <= limits[sentence]
            assert h.finished or h.length == limits[sentence]
            fed = (*h.tokens, EOS) if h.finished else h.tokens
            assert h.log_probability == h.score == pytest.approx(table.log_probability(sentence, fed))
            kinds.add(h.finished)
    assert kinds == {True, False}


@pytest.mark.parametrize("size", [1, 4])
def test_batch_mates_change_no_sample(size: int) -> None:
    table, sentences = Table(seed=11, vocabulary=12), list(range(40))
    limits = [1 + s % 9 for s in sentences]
    together = samples(table, sentences, limits, size=size)
    numbers = torch.rand(40, 20, size, generator=torch.Generator().manual_seed(0)).double()
    for s in sentences:
        (alone,) = sample(table, TableState([s]), draws_BTK=numbers[[s]], limits=torch.tensor([limits[s]]))
        assert alone == together[s]


def test_sentences_that_have_ended_are_dropped() -> None:
    state = TableState(list(range(30)))
    samples(Table(seed=2), list(range(30)), [15] * 30, size=3, state=state)
    assert state.rows_fed == sorted(state.rows_fed, reverse=True)
    assert len(set(state.rows_fed)) > 3
    assert state.sentences == []


@pytest.mark.parametrize(("number", "place"), [(0.0, 0), (1.0 - 2**-53, -1)])
def test_the_ends_of_the_numbers_draw_what_is_possible(number: float, place: int) -> None:
    table = Table(seed=7, vocabulary=9, forbidden=(*FORBIDDEN, 8))
    draws_BTK = torch.full((1, 1, 1), number, dtype=torch.float64)
    (hypotheses,) = sample(table, TableState([0]), draws_BTK=draws_BTK, limits=torch.tensor([1]))
    allowed = [EOS, 4, 5, 6, 7]
    expected = allowed[place]
    assert hypotheses[0].tokens == (() if expected == EOS else (expected,))
