"""Beam search: the K best partial translations of each sentence, extended side by side.

A hypothesis that ends keeps its place among the K and is extended no more, and the first place always belongs to the
greedy translation. Hence a beam of 1 is greedy search, a wider beam never returns a lower score than that of a finished
greedy translation (whatever the length penalty), and a beam as wide as the space is exhaustive search.

Dimension letters in names: B sentences still searched, K hypotheses of each, C candidates to continue each hypothesis,
T tokens so far (bos among them), V target vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from translate.decoding.hypothesis import Hypothesis, best_first
from translate.decoding.step import State, Step
from translate.text.vocabulary import BOS, EOS, PAD


@torch.inference_mode()
def beam_search(
    step: Step, state: State, *, beam_size: int, length_penalty: float, limits: Tensor, n_best: int
) -> list[list[Hypothesis]]:
    """The `n_best` translations of each sentence of `state`: finished ones first, each kind best first.

    `limits` (int64, one for each sentence, at least 1, on the device of the step) are the maximum numbers of tokens,
    including eos. `length_penalty` is the alpha of `length_penalized`.
    A sentence leaves the batch as soon as no live hypothesis can still beat the worst of its `n_best` finished ones.
    It gets fewer than `n_best` only if no more translations exist within its limit.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best must be between 1 and beam_size {beam_size}, not {n_best}")
    if length_penalty < 0:
        raise ValueError(f"length_penalty must be at least 0, not {length_penalty}: the search would stop too early")
    device = limits.device
    found: dict[int, list[Hypothesis]] = {}
    searched_B = torch.arange(len(limits), device=device)  # the sentence that each remaining row belongs to
    beam = _Beam.start(len(limits), beam_size, device)
    state.reorder(torch.zeros_like(beam.length_BK))

    while len(searched_B):
        log_probs_BKV = step(beam.tokens_BKT[:, :, -1], state)
        parents_BK = beam.extend(log_probs_BKV)

        done_B = beam.is_decided(limits, length_penalty, n_best) | (limits < beam.tokens_BKT.shape[2])
        if done_B.any():
            ended, ranked = searched_B[done_B].tolist(), beam.select(done_B).ranked(length_penalty)
            found |= {sentence: best[:n_best] for sentence, best in zip(ended, ranked, strict=True)}
            rows_B = (~done_B).nonzero().squeeze(1)
            state.keep(rows_B)
            searched_B, limits = searched_B[rows_B], limits[rows_B]
            beam, parents_BK = beam.select(rows_B), parents_BK[rows_B]
        state.reorder(parents_BK)

    return [found[sentence] for sentence in range(len(found))]


@dataclass
class _Beam:
    """The hypotheses of all sentences. One with log-probability -inf fills a place for which none was possible."""

    tokens_BKT: Tensor  # bos first; padding follows the eos of finished ones
    log_prob_BK: Tensor
    length_BK: Tensor  # eos counted, bos not
    finished_BK: Tensor

    @classmethod
    def start(cls, sentences: int, size: int, device: torch.device) -> "_Beam":
        """One empty hypothesis for each sentence, in the first place."""
        log_prob_BK = torch.full((sentences, size), -torch.inf, dtype=torch.float64, device=device)
        log_prob_BK[:, 0] = 0.0
        return cls(
            tokens_BKT=torch.full((sentences, size, 1), BOS, dtype=torch.int64, device=device),
            log_prob_BK=log_prob_BK,
            length_BK=torch.zeros((sentences, size), dtype=torch.int64, device=device),
            finished_BK=torch.zeros((sentences, size), dtype=torch.bool, device=device),
        )

    def select(self, rows_B: Tensor) -> "_Beam":
        """Only these sentences, given by index or by mask."""
        return _Beam(
            self.tokens_BKT[rows_B], self.log_prob_BK[rows_B], self.length_BK[rows_B], self.finished_BK[rows_B]
        )

    def extend(self, log_probs_BKV: Tensor) -> Tensor:
        """Replace the hypotheses with their K best continuations; returns the parents of these, BK."""
        total_BKC, token_BKC = self._continuations(log_probs_BKV)
        chosen_BK = self._chosen(total_BKC)
        parents_BK = chosen_BK // total_BKC.shape[2]
        token_BK = token_BKC.flatten(1).gather(1, chosen_BK)
        was_finished_BK = self.finished_BK.gather(1, parents_BK)
        parents_BKT = parents_BK[:, :, None].expand(-1, -1, self.tokens_BKT.shape[2])
        self.tokens_BKT = torch.cat([self.tokens_BKT.gather(1, parents_BKT), token_BK[:, :, None]], dim=2)
        self.log_prob_BK = total_BKC.flatten(1).gather(1, chosen_BK)
        self.length_BK = self.length_BK.gather(1, parents_BK) + ~was_finished_BK
        self.finished_BK = (was_finished_BK | (token_BK == EOS)) & self.log_prob_BK.isfinite()
        return parents_BK

    def _continuations(self, log_probs_BKV: Tensor) -> tuple[Tensor, Tensor]:
        """The C likeliest of each hypothesis: log-probabilities of the whole, and last tokens, BKC.

        C is K, or the size of a smaller vocabulary: the K best of a sentence are among the K best of each hypothesis.
        """
        # Among equals, max takes the first, as greedy search does, but topk takes any: tell it which one to put first.
        greedy_B, token_B = log_probs_BKV[:, 0].max(dim=1)
        log_probs_BKV[:, 0].scatter_(1, token_B[:, None], torch.inf)
        candidates = min(log_probs_BKV.shape[1:])
        best_BKC, token_BKC = log_probs_BKV.topk(candidates, dim=2)
        best_BKC[:, 0, 0] = greedy_B
        # A finished hypothesis has just one: itself, with padding.
        best_BKC = best_BKC.masked_fill(self.finished_BK[:, :, None], -torch.inf)
        best_BKC[:, :, 0].masked_fill_(self.finished_BK, 0.0)
        token_BKC = token_BKC.masked_fill(self.finished_BK[:, :, None], PAD)
        return self.log_prob_BK[:, :, None] + best_BKC, token_BKC

    def _chosen(self, total_BKC: Tensor) -> Tensor:
        """Which K continuations of each sentence go on, BK, as their places in one row of K · C.

        Finished ones stay, and the greedy continuation of the greedy translation; then come the likeliest.
        """
        sort_key_BKC = total_BKC.clone()
        sort_key_BKC[:, :, 0].masked_fill_(self.finished_BK, torch.inf)
        sort_key_BKC[:, 0, 0] = torch.inf  # The first place is that of the greedy translation.
        # A stable sort breaks ties by place, so that the first place stays the first.
        return sort_key_BKC.flatten(1).sort(dim=1, descending=True, stable=True).indices[:, : total_BKC.shape[1]]

    def is_decided(self, limits: Tensor, length_penalty: float, n_best: int) -> Tensor:
        """For each sentence, whether no live hypothesis can still beat the worst of the `n_best` finished ones.

        A log-probability can only fall, so at best a live hypothesis keeps its own up to the longest length.
        """
        score_BK = length_penalized(self.log_prob_BK, self.length_BK, length_penalty)
        worst_B = score_BK.masked_fill(~self.finished_BK, -torch.inf).topk(n_best, dim=1).values[:, -1]
        live_B = self.log_prob_BK.masked_fill(self.finished_BK, -torch.inf).amax(dim=1)
        return worst_B >= length_penalized(live_B, limits, length_penalty)

    def ranked(self, length_penalty: float) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first."""
        scores_BK = length_penalized(self.log_prob_BK, self.length_BK, length_penalty)
        columns = (self.tokens_BKT[:, :, 1:], self.log_prob_BK, scores_BK, self.length_BK, self.finished_BK)
        sentences = []
        for rows in zip(*(column.tolist() for column in columns), strict=True):
            hypotheses = [
                Hypothesis(tuple(tokens[: length - finished]), log_probability, score, finished)
                for tokens, log_probability, score, length, finished in zip(*rows, strict=True)
                if log_probability != -torch.inf  # NaN, as from a diverged model, stays.
            ]
            sentences.append(best_first(hypotheses))
        return sentences


def length_penalized(log_probability: Tensor, length: Tensor, alpha: float) -> Tensor:
    """score = log_probability / length^alpha (after Wu et al., 2016, section 7), where length counts eos.

    Log-probabilities are negative, so a larger alpha favours longer hypotheses; alpha 1 is the mean per token, and
    alpha 0 ranks by log-probability alone.
    """
    return log_probability / length.double() ** alpha
