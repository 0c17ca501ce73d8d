"""Models that search together, beside the mean of their probabilities taken by hand."""

import pytest
import torch
from small_models import VOCABULARY, config, next_log_probs, random_model, random_sources

from translate.decoding.ensemble import Ensemble
from translate.decoding.search import search
from translate.decoding.teacher_forcing import log_probabilities
from translate.model.positions import NO_LIMIT
from translate.text.vocabulary import BOS, EOS


def test_the_mean_probability() -> None:
    models = [random_model(seed) for seed in (0, 1, 2)]
    source = [5, 6, 7]
    ids_1S = torch.tensor([[*source, EOS]])
    ensemble = Ensemble(models)
    state = ensemble.start(ids_1S, torch.ones_like(ids_1S).bool())
    prefix: tuple[int, ...] = ()
    for token in (BOS, 8, 4):
        prefix = prefix if token == BOS else (*prefix, token)
        found_V = ensemble.step(torch.tensor([[token]]), state)[0, 0]
        expected_V = torch.stack([next_log_probs(model, source, prefix).exp() for model in models]).mean(0)
        real = list(range(EOS, VOCABULARY))
        torch.testing.assert_close(found_V.exp()[real], expected_V[real])
        torch.testing.assert_close(found_V.exp().sum().item(), 1.0)


@pytest.mark.parametrize("settings", [{"search": "greedy"}, {"search": "beam", "beam_size": 3}])
def test_twice_the_same_model_is_that_model(settings: dict[str, object]) -> None:
    model, sources = random_model(), random_sources(20)
    alone, twice = (search(one, sources, config(**settings)) for one in (model, Ensemble([model, model])))
    assert [[h.tokens for h in found] for found in alone] == [[h.tokens for h in found] for found in twice]


@pytest.mark.parametrize("count", range(1, 9))
def test_no_probability_is_above_one(count: int) -> None:
    model = random_model()
    torch.nn.init.constant_(model.projection.bias[EOS], 100.0)
    (found,) = search(Ensemble([model] * count), [[5, 6]], config(search="greedy"))[0]
    assert found.tokens == ()
    assert -1e-6 < found.log_probability <= 0


def test_batch_mates_change_nothing() -> None:
    ensemble, sources = Ensemble([random_model(0), random_model(1)]), random_sources(12)
    settings = config(search="beam", beam_size=3)
    together = search(ensemble, sources, settings)
    alone = [search(ensemble, [source], settings)[0] for source in sources]
    assert [[h.tokens for h in found] for found in together] == [[h.tokens for h in found] for found in alone]
    assert together != search(random_model(0), sources, settings)


def test_the_shortest_positions_count() -> None:
    short, long = (random_model(positions="learned", max_positions=places) for places in (5, 9))
    assert Ensemble([long, short]).max_length == 5
    assert Ensemble([random_model(), long]).max_length == 9
    assert Ensemble([random_model()]).max_length == NO_LIMIT


def test_teacher_forcing_is_step_by_step() -> None:
    ensemble = Ensemble([random_model(seed) for seed in (0, 1)])
    sources, targets = [[5, 6, 7], [8]], [[8, 4], [5, 9, 9]]
    together = log_probabilities(ensemble, sources, targets, config(batch_tokens=1000))
    for source, target, found in zip(sources, targets, together, strict=True):
        ids_1S = torch.tensor([[*source, EOS]])
        state = ensemble.start(ids_1S, torch.ones_like(ids_1S).bool())
        steps = [ensemble.step(torch.tensor([[token]]), state)[0, 0] for token in (BOS, *target)]
        expected = sum(step[token].item() for step, token in zip(steps, (*target, EOS), strict=True))
        assert found == pytest.approx(expected, abs=1e-4)
