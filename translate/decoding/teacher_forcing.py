"""How probable given translations are, by teacher forcing: for reranking, finding bad pairs, and validation.

Dimension letters in names: B pairs of a batch, S source and T target positions, N the real target positions of all
pairs, V target vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.data.batching import Batch, make_batch, split_into_batches
from translate.data.dataset import Dataset, EncodedText, Ids, Indices
from translate.decoding.batch_size import batch_tokens
from translate.decoding.ensemble import Ensemble
from translate.decoding.limits import max_scored_length, max_source_length
from translate.model.build import Model
from translate.system.precision import autocast
from translate.system.threads import in_threads, no_check, workers_for

R = TypeVar("R")


def log_probabilities(
    model: Model | Ensemble, sources: Sequence[Ids], targets: Sequence[Ids], config: DecodingConfig
) -> NDArray[np.float64]:
    """The natural logarithm of the probability of each target, including its end, given its source.

    Ids are without bos and eos. A source with too many tokens is truncated, as in a search with `config`; a target with
    more than `max_scored_length` has the probability 0. A source without tokens has only the empty translation.
    """
    read = [source[: max_source_length(model, config)] for source in sources]
    pairs = Dataset(EncodedText.of(read), EncodedText.of(targets))
    source, target = pairs.source.lengths, pairs.target.lengths
    found = np.where((source == 0) & (target == 0), 0.0, -np.inf)
    possible = np.flatnonzero((source > 0) & (target <= max_scored_length(model, config)))
    max_tokens = batch_tokens(model, config)
    for places, sums in teacher_forced(model, pairs, possible, _log_probability, max_tokens=max_tokens):
        found[places] = sums
    return found


def _log_probability(batch: Batch, logits_NV: Tensor) -> NDArray[np.float64]:
    """The log-probability of each target of a batch."""
    chosen_N = logits_NV.float().log_softmax(-1).gather(1, batch.labels_N[:, None]).squeeze(1)
    rows_N = batch.target_mask_BT.nonzero()[:, 0]
    sums_B = torch.zeros(len(batch.target_BT), dtype=torch.float64, device=logits_NV.device)
    return sums_B.index_add_(0, rows_N, chosen_N.double()).cpu().numpy()


def teacher_forced(
    model: Model | Ensemble,
    pairs: Dataset,
    indices: Indices,
    measure: Callable[[Batch, Tensor], R],
    *,
    max_tokens: int,
    max_sentences: int | None = None,
    check: Callable[[], None] = no_check,
) -> list[tuple[Indices, R]]:
    """What `measure` makes of each batch and its logits, (N, V), with the indices of the pairs in it.

    The pairs at `indices` are passed through the model by teacher forcing, in batches of similar lengths. All batches
    in work at a time have at most `max_tokens`, including padding, and `max_sentences`. `check` is called before each
    batch, and may raise.
    """
    device = next(model.parameters()).device
    source, target = pairs.source.lengths, pairs.target.lengths
    order = indices[np.lexsort((source[indices], target[indices]))]
    widths = 1 + np.maximum(source[order], target[order])
    workers = workers_for(device, widths, max_tokens)
    max_rows = None
    if max_sentences is not None:
        workers = min(workers, max_sentences)
        max_rows = max_sentences // workers
    bounds = split_into_batches(widths, max_tokens // workers, max_rows)

    @torch.inference_mode()
    def measured(places: Indices, check: Callable[[], None]) -> tuple[Indices, R]:
        check()
        batch = make_batch(pairs, places).to(device)
        with autocast(torch.float32, device):
            logits_NV = model(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
            return places, measure(batch, logits_NV)

    return in_threads(measured, [order[start:stop] for start, stop in bounds], workers, check)
