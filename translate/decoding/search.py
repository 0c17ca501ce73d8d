"""All translations of many sources: sorted into batches of similar length, searched, and put back in order.

Dimension letters in names: B sentences of a batch, S source positions, K translations of each, T tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.batching import pad_rows, split_into_batches
from translate.data.dataset import Ids
from translate.decoding.batch_size import batch_tokens
from translate.decoding.beam import beam_search
from translate.decoding.ensemble import Ensemble
from translate.decoding.greedy import greedy_search
from translate.decoding.hypothesis import Hypothesis
from translate.decoding.limits import max_source_length, max_target_lengths
from translate.decoding.sampling import sample
from translate.model.build import Model
from translate.system.precision import autocast
from translate.system.threads import in_threads, no_check, workers_for
from translate.text.vocabulary import BOS, EOS, PAD, UNK

# What a translation never contains. Instead of unk, the model's next best word takes its place.
FORBIDDEN = (UNK, PAD, BOS)
USUAL_BEAM = 5  # hypotheses of a sentence for which decoding.batch_tokens is meant; also for fewer


def search(
    model: Model | Ensemble,
    sources: Sequence[Ids],
    config: DecodingConfig,
    *,
    n_best: int = 1,
    first_number: int = 0,
    check: Callable[[], None] = no_check,
) -> list[list[Hypothesis]]:
    """The `n_best` translations of each source (ids without bos and eos), best first.

    `first_number` is the number of the first source, counted from 0, among all lines of a text that is translated in
    portions: what is sampled for a line depends on its number.

    A source without tokens has one empty translation; of one with too many, only `max_source_length` are read. Search
    runs in float32, so that a translation does not depend on its batch (unless two are equally probable but for
    rounding). `check` is called before each step, and may raise.
    """
    sources = [source[: max_source_length(model, config)] for source in sources]
    lengths = np.array([len(source) for source in sources], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    # The memory of a batch grows with the hypotheses of each sentence: with many, it has fewer sentences.
    hypotheses = {"greedy": 1, "beam": config.beam_size, "sample": n_best}[config.search]
    device = next(model.parameters()).device
    max_tokens = max(1, batch_tokens(model, config) * USUAL_BEAM // max(USUAL_BEAM, hypotheses))
    workers = workers_for(device, 1 + lengths, max_tokens)
    # On a CPU, workers share the memory that a batch may take, and each searches a smaller one.
    bounds = split_into_batches(1 + lengths[order], max_tokens // workers, None)
    batches = [order[start:stop] for start, stop in bounds]

    def search_places(places: NDArray[np.integer], check: Callable[[], None]) -> list[list[Hypothesis]]:
        numbers = first_number + places
        with autocast(torch.float32, device):
            return _search_batch(model, [sources[place] for place in places], numbers, config, n_best, check)

    found = [[Hypothesis((), 0.0, 0.0, finished=True)] for _ in sources]
    for places, results in zip(batches, in_threads(search_places, batches, workers, check), strict=True):
        for place, result in zip(places.tolist(), results, strict=True):
            found[place] = result
    return found


@torch.inference_mode()
def _search_batch(
    model: Model | Ensemble,
    sources: Sequence[Ids],
    numbers: NDArray[np.integer],
    config: DecodingConfig,
    n_best: int,
    check: Callable[[], None],
) -> list[list[Hypothesis]]:
    """The same for sources that are not empty, with their `numbers`, in one batch."""
    device = next(model.parameters()).device
    source_BS, mask_BS = pad_rows([np.append(source, EOS) for source in sources])
    state = model.start(source_BS.to(device), mask_BS.to(device))
    limits = torch.from_numpy(max_target_lengths(model, config, mask_BS.sum(1).numpy() - 1)).to(device)
    forbidden = torch.tensor(FORBIDDEN, device=device)

    def step(last_BK: Tensor, state: Any) -> Tensor:
        check()
        return model.step(last_BK, state).index_fill_(-1, forbidden, -torch.inf)

    match config.search:
        case "greedy":
            return [[best] for best in greedy_search(step, state, limits=limits)]
        case "beam":
            return beam_search(
                step,
                state,
                beam_size=config.beam_size,
                length_penalty=config.length_penalty,
                limits=limits,
                n_best=n_best,
            )
        case "sample":
            return sample(
                step,
                state,
                draws_BTK=_draws(config.seed, numbers, limits.tolist(), n_best).to(device),
                temperature=config.temperature,
                top_k=config.top_k,
                limits=limits,
            )


def _draws(seed: int, numbers: NDArray[np.integer], limits: list[int], count: int) -> Tensor:
    """Random numbers from 0 to below 1 for K = `count` samples of each source, (B, T, K): the same in any batch.

    Further samples of a source change none of those before them.
    """
    draws_BTK = np.zeros((len(numbers), max(limits), count))
    for draws_TK, number, limit in zip(draws_BTK, numbers.tolist(), limits, strict=True):
        draws_TK[:limit] = np.random.default_rng([seed, number]).random((count, limit)).T
    return torch.from_numpy(draws_BTK)
