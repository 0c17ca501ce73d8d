"""Search over a small transformer: equal to slow searches that keep nothing, whatever the batch."""

from functools import partial
from signal import SIGTERM
from threading import current_thread
from typing import Any, get_args

import numpy as np
import pytest
import torch
from slow_searches import assert_same, slow_beam, slow_greedy
from small_models import FORBIDDEN, config, next_log_probs, random_model, random_sources
from torch import Tensor

from translate.config.decoding import MAX_RATIO, DecodingConfig
from translate.decoding.batch_size import batch_tokens
from translate.decoding.hypothesis import Hypothesis
from translate.decoding.limits import MIN_RATIO, estimate_max_ratio
from translate.decoding.search import search
from translate.model.build import POSITIONS
from translate.system.interrupt import Interrupted
from translate.text.vocabulary import BOS, EOS, PAD, UNK

SEARCHES = get_args(DecodingConfig.model_fields["search"].annotation)


def limit_of(source: list[int], settings: DecodingConfig) -> int:
    """Most tokens of a translation, eos counted."""
    return int(np.ceil(settings.max_ratio * len(source))) + settings.max_extra + 1


# Batches differ by rounding, and so does decoding with and without a cache.
assert_alike = partial(assert_same, rel=1e-4)


# --- equal to slow searches ------------------------------------------------------------------------------------------

EACH_KIND_OF_POSITIONS = pytest.mark.parametrize("positions", POSITIONS)


@EACH_KIND_OF_POSITIONS
def test_greedy_equals_greedy_without_a_cache(positions: str) -> None:
    model, sources, settings = random_model(positions=positions), random_sources(20), config(search="greedy")
    kinds = set()
    for source, (found,) in zip(sources, search(model, sources, settings), strict=True):
        if source:
            assert_alike([found], [slow_greedy(partial(next_log_probs, model, source), limit_of(source, settings))])
        kinds.add(found.finished)
    assert kinds == {True, False}


@pytest.mark.slow
@EACH_KIND_OF_POSITIONS
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_beam_equals_a_beam_without_a_cache(positions: str, alpha: float) -> None:
    model, sources = random_model(positions=positions), random_sources(8, longest=5)
    settings = config(beam_size=4, length_penalty=alpha)
    for source, found in zip(sources, search(model, sources, settings, n_best=4), strict=True):
        if source:
            next_of = partial(next_log_probs, model, source)
            assert_alike(found, slow_beam(next_of, limit_of(source, settings), 4, alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_a_beam_of_one_is_greedy_search(alpha: float) -> None:
    model, sources = random_model(seed=2), random_sources(40)
    beam = search(model, sources, config(beam_size=1, length_penalty=alpha))
    assert [h.tokens for (h,) in beam] == [h.tokens for (h,) in search(model, sources, config(search="greedy"))]


# --- batches and order -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{"search": "greedy"}, {"beam_size": 4}, {"search": "sample"}], ids=["greedy", "beam", "sample"]
)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_batch_changes_nothing(settings: dict[str, Any], seed: int) -> None:
    model, sources = random_model(seed), random_sources(128)
    n_best = settings.get("beam_size", 1)
    alone = [search(model, [s], config(**settings), n_best=n_best, first_number=i)[0] for i, s in enumerate(sources)]
    assert len({hypotheses[0].tokens for hypotheses in alone}) > 64
    assert {hypotheses[0].finished for hypotheses in alone} == {True, False}
    for tokens in (100, 10_000):
        together = search(model, sources, config(batch_tokens=tokens, **settings), n_best=n_best)
        for some, others in zip(together, alone, strict=True):
            assert_alike(some, others)


@pytest.mark.parametrize("search_by", SEARCHES)
def test_it_runs_in_float32_whatever_the_caller_casts_to(search_by: str) -> None:
    model, sources = random_model(), random_sources(40)
    alone = search(model, sources, config(search=search_by))
    with torch.autocast("cpu", torch.bfloat16):
        assert search(model, sources, config(search=search_by)) == alone


@pytest.mark.parametrize("search_by", SEARCHES)
def test_two_workers_find_the_same_as_one(search_by: str, two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sources = random_model(), random_sources(40)
    searchers: set[str] = set()
    start = model.start
    monkeypatch.setattr(model, "start", lambda *batch: searchers.add(current_thread().name) or start(*batch))
    settings = config(search=search_by, batch_tokens=60)
    found = search(model, sources, settings, first_number=7)
    assert searchers <= {"MainThread", "worker_0"}
    torch.set_num_threads(1)
    for some, others in zip(found, search(model, sources, settings, first_number=7), strict=True):
        assert_alike(some, others)


def test_a_batch_size_for_one_sentence_is_not_shared(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sources = random_model(), [[4, 5, 6, 7]] * 3
    threads: set[int] = set()  # that a searcher's operations use: PyTorch's two, or one for each of two workers
    start = model.start
    monkeypatch.setattr(model, "start", lambda *batch: threads.add(torch.get_num_threads()) or start(*batch))
    search(model, sources, config(batch_tokens=9))
    assert threads == {2}
    threads.clear()
    search(model, sources, config(batch_tokens=10))  # enough for two of them, each with eos
    assert threads == {1}


@pytest.mark.parametrize(
    ("settings", "n_best", "rows"),
    [
        ({"search": "greedy"}, 1, 20),
        ({"search": "beam", "beam_size": 5}, 1, 20),
        ({"search": "beam", "beam_size": 2}, 1, 20),
        ({"search": "beam", "beam_size": 20}, 1, 5),
        ({"search": "sample"}, 5, 20),
        ({"search": "sample"}, 50, 2),
        ({"search": "sample"}, 1000, 1),
    ],
)
def test_with_many_hypotheses_a_batch_has_fewer_sentences(
    settings: dict[str, Any], n_best: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise memory would grow with their number."""
    found: list[int] = []
    model = random_model()
    start = model.start

    def note(source_BS: Tensor, mask_BS: Tensor) -> Any:
        found.append(len(source_BS))
        return start(source_BS, mask_BS)

    monkeypatch.setattr(model, "start", note)
    search(model, [[4, 5, 6]] * 21, config(**settings, max_extra=0, batch_tokens=80), n_best=n_best)
    assert max(found) == rows


def test_batches_suit_the_device_unless_their_size_is_set() -> None:
    models = [random_model().to(device) for device in ("cpu", "meta")]  # The latter counts as a GPU: it is no CPU.
    assert [batch_tokens(model, config()) for model in models] == [4096, 16384]
    assert [batch_tokens(model, config(batch_tokens=70)) for model in models] == [70, 70]


def test_what_ends_one_worker_ends_the_search(two_threads: None) -> None:
    def check() -> None:
        raise Interrupted(SIGTERM)

    with pytest.raises(Interrupted):
        search(random_model(), random_sources(40), config(batch_tokens=60), check=check)


def test_samples_hang_on_the_seed_and_the_place_of_the_line() -> None:
    model, sources = random_model(), [[4, 5, 6]] * 40
    samples = search(model, sources, config(search="sample"), n_best=2)
    assert len({h.tokens for hypotheses in samples for h in hypotheses}) > 30
    assert search(model, sources[7:], config(search="sample"), n_best=2, first_number=7) == samples[7:]
    assert search(model, sources, config(search="sample", seed=2), n_best=2) != samples


def test_another_seed_is_not_the_same_one_a_line_later() -> None:
    model, sources = random_model(), [[4, 5, 6]] * 30
    one, other = (search(model, sources, config(search="sample", seed=seed)) for seed in (1, 2))
    assert sum(a == b for a, b in zip(one[1:], other[:-1], strict=True)) < 10


def test_more_samples_are_further_ones() -> None:
    model, sources = random_model(), [source for source in random_sources(30) if source]
    one, three = (search(model, sources, config(search="sample"), n_best=n) for n in (1, 3))
    assert all(few[0].tokens in [h.tokens for h in more] for few, more in zip(one, three, strict=True))


def test_a_sample_of_one_token_is_greedy_search() -> None:
    model, sources = random_model(seed=2), random_sources(40)
    greedy = [h.tokens for (h,) in search(model, sources, config(search="greedy"))]
    assert [h.tokens for (h,) in search(model, sources, config(search="sample", top_k=1))] == greedy


@pytest.mark.parametrize("n_best", [1, 2, 5])
def test_n_best_come_best_first(n_best: int) -> None:
    model, sources = random_model(seed=3), random_sources(30)
    everything = search(model, sources, config(beam_size=5), n_best=5)
    found = search(model, sources, config(beam_size=5), n_best=n_best)
    for source, hypotheses, more in zip(sources, found, everything, strict=True):
        assert len(hypotheses) == (n_best if source else 1)
        ranks = [(not h.finished, -h.score) for h in hypotheses]
        assert ranks == sorted(ranks)
        assert hypotheses[0].tokens == more[0].tokens
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)


def test_no_more_of_a_source_is_read_than_the_settings_say() -> None:
    model = random_model()
    long = list(range(4, 4 + 9))
    assert search(model, [long], config(max_source=5)) == search(model, [long[:5]], config())
    assert search(model, [long], config(max_source=9)) == search(model, [long], config())


def test_check_comes_before_each_step_and_may_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def stop_at_the_third() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            raise KeyboardInterrupt

    sources = [[4, 5, 6]] * 4
    model = random_model()
    steps: list[int] = []
    step = model.step

    def spy(last_BK: Tensor, state: Any) -> Tensor:
        steps.append(len(last_BK))
        assert len(calls) == len(steps)
        return step(last_BK, state)

    monkeypatch.setattr(model, "step", spy)
    search(model, sources, config(batch_tokens=8), check=lambda: calls.append(0))
    assert len(calls) == len(steps) > 2
    assert steps[0] == 2  # 3 tokens and eos: two sentences fit
    calls.clear()
    steps.clear()
    with pytest.raises(KeyboardInterrupt):
        search(model, sources, config(batch_tokens=8), check=stop_at_the_third)
    assert len(steps) == 2


# --- what comes out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search_by", SEARCHES)
def test_no_source_no_tokens(search_by: str) -> None:
    empty = Hypothesis((), 0.0, 0.0, finished=True)
    found = search(random_model(), [[], [4, 5], np.array([], dtype=np.uint16)], config(search=search_by))
    assert (found[0], found[2]) == ([empty], [empty])
    assert len(found[1]) == 1
    assert search(random_model(), [], config(search=search_by)) == []
    assert search(random_model(), [[], []], config(search=search_by)) == [[empty], [empty]]


@pytest.mark.parametrize(
    "settings", [{"search": "greedy"}, {"beam_size": 6}, {"search": "sample"}], ids=["greedy", "beam", "sample"]
)
def test_specials_never_come_out(settings: dict[str, Any]) -> None:
    model, sources = random_model(seed=4), random_sources(40)
    with torch.no_grad():
        model.projection.bias[FORBIDDEN] += 100  # What the model would rather say than anything else.
    found = search(model, sources, config(**settings), n_best=settings.get("beam_size", 1))
    tokens = {token for hypotheses in found for h in hypotheses for token in h.tokens}
    assert len(tokens) > 4
    assert not tokens & {UNK, PAD, BOS, EOS}


@pytest.mark.parametrize("search_by", SEARCHES)
@pytest.mark.parametrize(
    ("max_ratio", "max_extra", "words"),
    [(1.0, 0, [1, 3, 25]), (0.01, 0, [1, 1, 1]), (1.5, 2, [4, 7, 40]), (2.2, 10, [13, 17, 65])],
)
def test_limits(search_by: str, max_ratio: float, max_extra: int, words: list[int]) -> None:
    model = random_model(seed=5)
    with torch.no_grad():
        model.projection.bias[EOS] -= 1000  # A model that never ends by itself.
    settings = config(search=search_by, beam_size=2, max_ratio=max_ratio, max_extra=max_extra)
    found = search(model, [[4], [4, 5, 6], [4, 5, 6, 7, 8] * 5], settings)
    assert [(len(h.tokens), h.finished) for (h,) in found] == [(length + 1, False) for length in words]


@pytest.mark.parametrize("search_by", SEARCHES)
def test_learned_positions_cut_what_does_not_fit(search_by: str) -> None:
    model = random_model(positions="learned", max_positions=8)
    settings = config(search=search_by, max_ratio=3.0, max_extra=50, beam_size=3)
    source = random_sources(1)[0] + [4] * 40
    with torch.no_grad():
        model.projection.bias[EOS] -= 1000
    ((found,),) = search(model, [source], settings)
    assert len(found.tokens) == 8
    assert_alike([found], search(model, [source[:7]], settings)[0])


@pytest.mark.parametrize("search_by", SEARCHES)
def test_a_limit_without_an_end_is_that_of_the_model(search_by: str) -> None:
    model = random_model(positions="learned", max_positions=6)
    near, far = (search(model, [[4, 5]], config(search=search_by, max_ratio=ratio)) for ratio in (6.0, MAX_RATIO))
    assert near == far


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_sources_of_any_integer_type(dtype: type[np.integer[Any]]) -> None:
    model, sources = random_model(), random_sources(10)
    assert search(model, [np.array(s, dtype=dtype) for s in sources], config()) == search(model, sources, config())


@pytest.mark.parametrize("search_by", SEARCHES)
def test_search_leaves_the_model_fit_for_training(search_by: str) -> None:
    model = random_model(max_positions=4)
    search(model, random_sources(5), config(search=search_by))
    ids, mask = torch.tensor([[4] * 30]), torch.ones(1, 30, dtype=torch.bool)
    model(ids, mask, ids, mask).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_training_text_says_how_long_translations_may_be() -> None:
    sources, targets = np.array([10] * 200), np.array([12] * 200)
    assert estimate_max_ratio(sources, targets, 10) == MIN_RATIO
    assert estimate_max_ratio(sources, targets * 4, 10) == pytest.approx(1.5 * 3.8)
    assert estimate_max_ratio(np.ones(200), targets * 4, 10) == pytest.approx(1.5 * 38)  # whole sentences as one token
    assert estimate_max_ratio(np.ones(200), targets * 1000, 10) == MAX_RATIO
    targets[7] = 1000  # one odd pair
    assert estimate_max_ratio(sources, targets, 10) == MIN_RATIO


def test_an_empty_source_and_a_number_that_is_not_round_make_a_ratio() -> None:
    assert estimate_max_ratio(np.array([0, 7]), np.array([14, 14]), 0) == 20.8
    assert estimate_max_ratio(np.array([7]), np.array([23]), 0) == 4.9


def test_one_pair_in_a_hundred_may_be_longer_than_translations_get() -> None:
    sources, targets = np.full(1000, 10), np.full(1000, 10)
    targets[:20] = 60  # Two in a hundred count,
    assert estimate_max_ratio(sources, targets, 0) == 9.0
    targets[5:] = 10  # and one in two hundred does not.
    assert estimate_max_ratio(sources, targets, 0) == MIN_RATIO


@pytest.mark.parametrize("search_by", SEARCHES)
def test_a_model_that_has_blown_up_gives_a_line_for_each(search_by: str) -> None:
    model = random_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    found = search(model, [[4, 5], [], [6]], config(search=search_by))
    assert [len(hypotheses) > 0 for hypotheses in found] == [True, True, True]
