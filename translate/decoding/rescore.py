"""Tells how probable given translations are, rather than finding probable ones: to rerank, and to find bad pairs.

Dimension letters in names: N real target positions of a batch, V target vocabulary.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from translate.config.schema import DecodingConfig
from translate.data.batching import make_batch, split_into_batches
from translate.data.dataset import Dataset, EncodedText
from translate.decoding.ensemble import Ensemble
from translate.decoding.search import tokens_read
from translate.model.build import Model

Ids = NDArray[np.integer] | Sequence[int]


@torch.inference_mode()
def log_probabilities(
    model: Model | Ensemble, sources: Sequence[Ids], targets: Sequence[Ids], config: DecodingConfig
) -> NDArray[np.float64]:
    """The natural logarithm of the probability of each target, including its end, given its source.

    Ids are without bos and eos. A source with too many tokens is cut off, as in a search with `config`; a target with
    too many has the probability 0, because no search could find it. A source without tokens has only the empty
    translation.
    """
    device = next(model.parameters()).device
    read = [source[: tokens_read(model, config)] for source in sources]
    pairs = Dataset("given translations", EncodedText.of(read), EncodedText.of(targets))
    lengths = 1 + np.stack([pairs.source.lengths, pairs.target.lengths], axis=1)
    found = np.where(lengths.max(1, initial=0) == 1, 0.0, -np.inf)
    possible = np.flatnonzero((lengths[:, 0] > 1) & (lengths[:, 1] <= model.longest))
    order = possible[np.lexsort(lengths[possible].T)]
    for start, stop in split_into_batches(lengths[order].max(1, initial=0), config.batch_tokens, None):
        places = order[start:stop]
        batch = make_batch(pairs, places).to(device)
        logits_NV = model(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
        chosen_N = logits_NV.float().log_softmax(-1).gather(1, batch.labels_N[:, None]).squeeze(1)
        rows_N = batch.target_mask_BT.nonzero()[:, 0]
        sums = torch.zeros(len(places), dtype=torch.float64, device=device).index_add_(0, rows_N, chosen_N.double())
        found[places] = sums.cpu().numpy()
    return found
