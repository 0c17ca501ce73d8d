"""How probable given translations are, beside the probabilities token by token and those of a search."""

import math
from threading import current_thread
from typing import Any

import numpy as np
import pytest
import torch
from small_models import VOCABULARY, config, next_log_probs, random_model, random_sources

from translate.config.decoding import MAX_RATIO
from translate.data.batching import Batch
from translate.data.dataset import Dataset, EncodedText
from translate.decoding.search import search
from translate.decoding.teacher_forcing import log_probabilities, teacher_forced
from translate.text.vocabulary import EOS

SOURCES = [source for source in random_sources(25) if source]
TARGETS = [source[:4] for source in reversed(SOURCES)]


def test_token_by_token() -> None:
    model = random_model()
    found = log_probabilities(model, SOURCES, TARGETS, config(batch_tokens=60))
    for source, target, together in zip(SOURCES, TARGETS, found, strict=True):
        steps = [next_log_probs(model, source, tuple(target[:i]))[token] for i, token in enumerate([*target, EOS])]
        assert together == pytest.approx(sum(step.item() for step in steps), abs=1e-4)


def test_what_a_search_finds_is_as_probable_as_it_says() -> None:
    model, sources = random_model(), [[token] for token in range(4, VOCABULARY)]
    found = search(model, sources, config(search="beam", beam_size=5), n_best=5)
    pairs = [(source, best) for source, bests in zip(sources, found, strict=True) for best in bests if best.finished]
    assert len(pairs) >= 3
    again = log_probabilities(
        model, [source for source, _ in pairs], [best.tokens for _, best in pairs], config(batch_tokens=9)
    )
    assert again.tolist() == pytest.approx([best.log_probability for _, best in pairs], abs=1e-4)


def test_batches_change_nothing() -> None:
    model = random_model()
    together = log_probabilities(model, SOURCES, TARGETS, config(batch_tokens=1000))
    alone = [
        log_probabilities(model, [s], [t], config(batch_tokens=1))[0] for s, t in zip(SOURCES, TARGETS, strict=True)
    ]
    assert together.tolist() == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize("max_sentences", [None, 1, 4])
def test_two_workers_share_what_may_be_in_work(max_sentences: int | None, two_threads: None) -> None:
    model = random_model()
    pairs = Dataset(EncodedText.of([[4, 5]] * 20), EncodedText.of([[6]] * 20))

    def measure(batch: Batch, logits_NV: torch.Tensor) -> tuple[str, int]:
        return current_thread().name, len(batch.source_BS)

    limits: dict[str, Any] = {"max_tokens": 36, "max_sentences": max_sentences}
    found = teacher_forced(model, pairs, np.arange(20), measure, **limits)
    assert sorted(place for places, _ in found for place in places) == [*range(20)]
    threads, rows = zip(*(measured for _, measured in found), strict=True)
    assert max(rows) == {None: 6, 1: 1, 4: 2}[max_sentences]
    assert (set(threads) == {"MainThread"}) == (max_sentences == 1)


def test_it_can_be_stopped_before_each_batch() -> None:
    pairs = Dataset(EncodedText.of([[4, 5]] * 20), EncodedText.of([[6]] * 20))
    checks: list[None] = []
    found = teacher_forced(
        random_model(), pairs, np.arange(20), lambda *_: None, max_tokens=6, check=lambda: checks.append(None)
    )
    assert len(checks) == len(found) == 10


def test_it_runs_in_float32_whatever_the_caller_casts_to() -> None:
    alone = log_probabilities(random_model(), SOURCES, TARGETS, config())
    with torch.autocast("cpu", torch.bfloat16):
        assert log_probabilities(random_model(), SOURCES, TARGETS, config()).tolist() == alone.tolist()


def test_two_workers_find_the_same_as_one(two_threads: None) -> None:
    model = random_model()
    found = log_probabilities(model, SOURCES, TARGETS, config(batch_tokens=60))
    torch.set_num_threads(1)
    expected = log_probabilities(model, SOURCES, TARGETS, config(batch_tokens=60))
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-4)


def test_pairs_are_batched_by_their_longer_side(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = random_model(), []
    forward = model.forward

    def spy(*batch: torch.Tensor) -> torch.Tensor:
        tokens.append(batch[2].numel())
        return forward(*batch)

    monkeypatch.setattr(model, "forward", spy)
    log_probabilities(model, [[4]] * 12, [[5] * 9] * 12, config(batch_tokens=40))
    assert max(tokens) <= 40
    assert sum(tokens) == 120


def test_nothing_translates_to_nothing_else() -> None:
    model = random_model()
    found = log_probabilities(model, [[], [], [5, 6]], [[], [7], []], config(batch_tokens=100))
    assert found[0] == 0.0
    assert found[1] == -math.inf
    assert -math.inf < found[2] < 0.0
    assert log_probabilities(model, [], [], config(batch_tokens=100)).tolist() == []


def test_no_more_than_the_model_can_place() -> None:
    model = random_model(positions="learned", max_positions=5)
    cut, whole, beyond = log_probabilities(
        model, [[4, 5, 6, 7, 8], [4, 5, 6, 7], [4]], [[9], [9], [4, 5, 6, 7, 8]], config(batch_tokens=100)
    )
    assert cut == pytest.approx(whole)
    assert beyond == -math.inf


def test_the_longest_that_a_search_may_find_has_a_probability() -> None:
    model = random_model(positions="learned", max_positions=5)
    longest, longer = log_probabilities(model, [[4], [4]], [[4, 5, 6, 7], [4, 5, 6, 7, 8]], config(batch_tokens=100))
    assert -math.inf < longest < 0.0
    assert longer == -math.inf


@pytest.mark.parametrize(("settings", "most"), [({}, 19), ({"max_ratio": 1.5}, 17), ({"max_extra": 0}, 9)])
def test_a_target_longer_than_any_search_gives_is_not_scored(settings: dict[str, Any], most: int) -> None:
    """Otherwise one line of a million tokens takes gigabytes and minutes, in a single operation."""
    limits = config(**{"max_source": 4, "max_extra": 10, "batch_tokens": 100, "max_ratio": 2.0} | settings)
    longest, longer = log_probabilities(random_model(), [[4], [4]], [[5] * most, [5] * (most + 1)], limits)
    assert -math.inf < longest < 0.0
    assert longer == -math.inf


def test_a_target_has_a_probability_however_much_a_search_may_read() -> None:
    limits = config(max_source=10**18, max_ratio=MAX_RATIO, batch_tokens=100)
    assert -math.inf < log_probabilities(random_model(), [[4]], [[5] * 9], limits)[0] < 0.0


def test_no_more_of_a_source_than_a_search_reads() -> None:
    settings = config(max_source=3, batch_tokens=100)
    cut, whole, more = log_probabilities(
        random_model(), [[4, 5, 6, 7, 8], [4, 5, 6], [4, 5, 6, 7]], [[9], [9], [9]], settings
    )
    assert cut == pytest.approx(whole) == more
