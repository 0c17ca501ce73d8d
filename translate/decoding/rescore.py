"""How probable given translations are, instead of finding probable ones: for reranking, and to find bad pairs.

Dimension letters in names: N real target positions of a batch, V target vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from translate.data.batching import cut, make_batch
from translate.decoding.ensemble import Ensemble
from translate.model.build import Model

Ids = NDArray[np.integer] | Sequence[int]


class _Pairs(NamedTuple):
    source: list[NDArray[Any]]
    target: list[NDArray[Any]]
    labelled: bool = False


@torch.inference_mode()
def log_probabilities(
    model: Model | Ensemble, sources: Sequence[Ids], targets: Sequence[Ids], *, batch_tokens: int
) -> NDArray[np.float64]:
    """The natural logarithm of the probability of each target, its end counted, given its source.

    Ids are without bos and eos. A source with too many tokens for the model is cut off, as in a search; a target with
    too many has the probability 0, because no search could find it. A source without tokens has none but the empty
    translation.
    """
    device = next(model.parameters()).device
    longest = np.iinfo(np.int64).max if model.longest is None else model.longest
    pairs = _Pairs(
        [np.asarray(s, np.int64)[: longest - 1] for s in sources], [np.asarray(t, np.int64) for t in targets]
    )
    lengths = 1 + np.array([(len(s), len(t)) for s, t in zip(*pairs[:2], strict=True)], dtype=np.int64).reshape(-1, 2)
    found = np.where(lengths.max(1, initial=0) == 1, 0.0, -np.inf)
    possible = np.flatnonzero((lengths[:, 0] > 1) & (lengths[:, 1] <= longest))
    order = possible[np.lexsort(lengths[possible].T)]
    for start, stop in cut(lengths[order].max(1, initial=0), batch_tokens, None):
        places = order[start:stop]
        batch = make_batch(pairs, places).to(device)
        logits_NV = model(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
        chosen_N = logits_NV.float().log_softmax(-1).gather(1, batch.labels_N[:, None]).squeeze(1)
        rows_N = batch.target_mask_BT.nonzero()[:, 0]
        sums = torch.zeros(len(places), dtype=torch.float64, device=device).index_add_(0, rows_N, chosen_N.double())
        found[places] = sums.cpu().numpy()
    return found
