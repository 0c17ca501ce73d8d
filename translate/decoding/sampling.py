"""Sampling: every token is drawn from the model's own distribution.

Translations come out as varied as the model thinks text is, while search finds the most typical one: for translating
further text to train on (Edunov et al., 2018), or for looking at what a model considers possible.

Dimension letters in names: B sentences still searched, K translations of each, C tokens that may be drawn, T tokens so
far (bos among them), V target vocabulary.
"""

import torch
from torch import Tensor

from translate.decoding.hypothesis import Hypothesis, best_first
from translate.decoding.step import State, Step
from translate.text.vocabulary import BOS, EOS, PAD


@torch.inference_mode()
def sample(
    step: Step,
    state: State,
    *,
    draws_BTK: Tensor,
    limits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
) -> list[list[Hypothesis]]:
    """K translations of each sentence of `state`: finished ones first, each kind with the most probable first.

    `draws_BTK` (float64) has a random number from 0 to below 1 for each token; a token depends on that number and the
    model alone, so a translation is the same in any batch. `limits` (int64, one for each sentence, at least 1) are the
    maximum numbers of tokens, including eos. Log-probabilities are divided by `temperature` before a token is drawn
    from the `top_k` most probable ones (None: all). The score of a hypothesis is its log-probability, regardless of
    temperature and `top_k`.
    """
    device = limits.device
    found: dict[int, list[Hypothesis]] = {}
    searched_B = torch.arange(len(limits), device=device)  # the sentence that each remaining row belongs to
    size = (len(limits), draws_BTK.shape[2])
    tokens_BKT = torch.full((*size, 1), BOS, dtype=torch.int64, device=device)
    log_prob_BK = torch.zeros(size, dtype=torch.float64, device=device)
    finished_BK = torch.zeros(size, dtype=torch.bool, device=device)
    state.reorder(torch.zeros(size, dtype=torch.int64, device=device))

    while len(searched_B):
        length = tokens_BKT.shape[2]
        log_probs_BKV = step(tokens_BKT[:, :, -1], state)
        token_BK = _draw(log_probs_BKV, draws_BTK[:, length - 1], temperature, top_k)
        own_BK = log_probs_BKV.gather(2, token_BK.unsqueeze(2)).squeeze(2)
        log_prob_BK = log_prob_BK + own_BK.masked_fill(finished_BK, 0.0)
        tokens_BKT = torch.cat([tokens_BKT, token_BK.masked_fill(finished_BK, PAD).unsqueeze(2)], dim=2)
        finished_BK = finished_BK | (token_BK == EOS)

        done_B = finished_BK.all(1) | (limits <= length)
        if not done_B.any():
            continue
        columns = (searched_B[done_B], tokens_BKT[done_B, :, 1:], log_prob_BK[done_B], finished_BK[done_B])
        for sentence, *rows in zip(*(column.tolist() for column in columns), strict=True):
            found[sentence] = _ranked(*rows)

        rows_B = (~done_B).nonzero().squeeze(1)
        state.keep(rows_B)
        tokens_BKT, log_prob_BK, finished_BK = tokens_BKT[rows_B], log_prob_BK[rows_B], finished_BK[rows_B]
        searched_B, draws_BTK, limits = searched_B[rows_B], draws_BTK[rows_B], limits[rows_B]

    return [found[sentence] for sentence in range(len(found))]


def _draw(log_probs_BKV: Tensor, draw_BK: Tensor, temperature: float, top_k: int | None) -> Tensor:
    """The token at the share `draw_BK` of the total probability, the tokens laid side by side."""
    if top_k is None:
        kept_BKC, token_BKC = log_probs_BKV, None
    else:
        kept_BKC, token_BKC = log_probs_BKV.topk(min(top_k, log_probs_BKV.shape[2]), dim=2)
    up_to_BKC = (kept_BKC.double() / temperature).softmax(2).cumsum(2)
    place_BK1 = torch.searchsorted(up_to_BKC, draw_BK.unsqueeze(2) * up_to_BKC[:, :, -1:], right=True)
    place_BK1.clamp_(max=kept_BKC.shape[2] - 1)  # if a model has diverged, all its probabilities are NaN
    return (place_BK1 if token_BKC is None else token_BKC.gather(2, place_BK1)).squeeze(2)


def _ranked(tokens_KT: list[list[int]], log_prob_K: list[float], finished_K: list[bool]) -> list[Hypothesis]:
    """The translations of one sentence."""
    hypotheses = [
        Hypothesis(tuple(tokens[: tokens.index(EOS)] if finished else tokens), log_prob, log_prob, finished)
        for tokens, log_prob, finished in zip(tokens_KT, log_prob_K, finished_K, strict=True)
    ]
    return best_first(hypotheses)
