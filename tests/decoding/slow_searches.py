"""Searches of one sentence, slow and obvious, for comparison: they keep nothing and go on to the limit."""

import math
from collections.abc import Callable

import pytest
from torch import Tensor

from translate.decoding.hypothesis import Hypothesis
from translate.text.vocabulary import EOS

Tokens = tuple[int, ...]
NextLogProbs = Callable[[Tokens], Tensor]  # of the tokens that may follow these (without bos); -inf for all others


def hypothesis(tokens: Tokens, log_probability: float, alpha: float) -> Hypothesis:
    """From tokens that include eos where they end with it."""
    finished = tokens[-1] == EOS
    score = log_probability / len(tokens) ** alpha
    return Hypothesis(tokens[:-1] if finished else tokens, log_probability, score, finished)


def slow_greedy(next_log_probs: NextLogProbs, limit: int) -> Hypothesis:
    tokens: Tokens = ()
    log_probability = 0.0
    while len(tokens) < limit and tokens[-1:] != (EOS,):
        best, token = next_log_probs(tokens).max(0)
        tokens, log_probability = (*tokens, int(token)), log_probability + best.item()
    return hypothesis(tokens, log_probability, 0.0)


def slow_beam(next_log_probs: NextLogProbs, limit: int, size: int, alpha: float) -> list[Hypothesis]:
    """Beam search that never stops early; the greedy translation keeps its place, as do those that have ended."""
    greedy = slow_greedy(next_log_probs, limit)
    greedy_tokens = (*greedy.tokens, EOS) if greedy.finished else greedy.tokens
    ended: list[tuple[float, Tokens]] = []
    live: list[tuple[float, Tokens]] = [(0.0, ())]
    for length in range(1, limit + 1):
        candidates = [
            (total + log_prob, (*prefix, token))
            for total, prefix in live
            for token, log_prob in enumerate(next_log_probs(prefix).tolist())
            if log_prob > -math.inf
        ]
        candidates.sort(key=lambda candidate: (candidate[1] != greedy_tokens[:length], -candidate[0]))
        chosen = candidates[: size - len(ended)]
        ended += [candidate for candidate in chosen if candidate[1][-1] == EOS]
        live = [candidate for candidate in chosen if candidate[1][-1] != EOS]
    hypotheses = [hypothesis(tokens, total, alpha) for total, tokens in ended + live]
    return sorted(hypotheses, key=lambda h: (not h.finished, -h.score))


def assert_same(found: list[Hypothesis], expected: list[Hypothesis], rel: float = 1e-6) -> None:
    """The same translations, with log-probabilities and scores that differ by at most this share."""
    assert [(h.tokens, h.finished) for h in found] == [(h.tokens, h.finished) for h in expected]
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in expected], rel=rel)
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=rel)
