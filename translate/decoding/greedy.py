"""Greedy search: the most probable token at each step.

Dimension letters in names: B sentences still searched, V target vocabulary, T tokens so far (bos among them).
"""

import torch
from torch import Tensor

from translate.decoding.hypothesis import Hypothesis
from translate.decoding.step import State, Step
from translate.text.vocabulary import BOS, EOS


@torch.inference_mode()
def greedy_search(step: Step, state: State, *, limits: Tensor) -> list[Hypothesis]:
    """Search all sentences of `state` at once and drop each from the batch when it ends.

    `limits` (int64, one for each sentence, at least 1, on the device of the step) are the maximum numbers of tokens,
    including eos. The score of a hypothesis is its log-probability.
    """
    device = limits.device
    found: dict[int, Hypothesis] = {}
    searched_B = torch.arange(len(limits), device=device)  # the sentence that each remaining row belongs to
    tokens_BT = torch.full((len(limits), 1), BOS, dtype=torch.int64, device=device)
    log_prob_B = torch.zeros(len(limits), dtype=torch.float64, device=device)

    while len(searched_B):
        length = tokens_BT.shape[1]
        log_probs_BV = step(tokens_BT[:, -1:], state).squeeze(1)
        best_B, token_B = log_probs_BV.max(dim=-1)
        log_prob_B = log_prob_B + best_B
        tokens_BT = torch.cat([tokens_BT, token_B[:, None]], dim=1)

        done_B = (token_B == EOS) | (limits <= length)
        if not done_B.any():
            continue
        columns = (searched_B[done_B], tokens_BT[done_B, 1:], log_prob_B[done_B])
        for sentence, tokens, log_prob in zip(*(column.tolist() for column in columns), strict=True):
            finished = tokens[-1] == EOS
            found[sentence] = Hypothesis(tuple(tokens[:-1] if finished else tokens), log_prob, log_prob, finished)

        rows_B = (~done_B).nonzero().squeeze(1)
        state.keep(rows_B)
        searched_B, limits = searched_B[rows_B], limits[rows_B]
        tokens_BT, log_prob_B = tokens_BT[rows_B], log_prob_B[rows_B]

    return [found[sentence] for sentence in range(len(found))]
