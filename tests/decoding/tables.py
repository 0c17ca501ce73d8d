"""A model for searches: its log-probabilities are drawn for each sentence and prefix, and greedy search over it."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from translate.decoding.greedy import greedy_search
from translate.decoding.hypothesis import Hypothesis
from translate.text.vocabulary import BOS, PAD, UNK

FORBIDDEN = (UNK, PAD, BOS)
Prefix = tuple[int, ...]


class TableState:
    """Remembers each prefix as it was fed, so that a wrong reorder asks the table for another prefix."""

    def __init__(self, sentences: list[int]) -> None:
        self.sentences = sentences
        self.prefixes: list[list[Prefix]] = [[()] for _ in sentences]
        self.rows_fed: list[int] = []

    def reorder(self, parents_BK: Tensor) -> None:
        parents = parents_BK.tolist()
        self.prefixes = [[old[k] for k in row] for old, row in zip(self.prefixes, parents, strict=True)]

    def keep(self, sentences_B: Tensor) -> None:
        self.sentences = [self.sentences[b] for b in sentences_B.tolist()]
        self.prefixes = [self.prefixes[b] for b in sentences_B.tolist()]


class Table:
    """A step with a fixed random distribution for each sentence and prefix; rounded logits give many exact ties."""

    def __init__(
        self, seed: int, *, vocabulary: int = 6, ties: bool = False, forbidden: Sequence[int] = FORBIDDEN
    ) -> None:
        self.seed, self.vocabulary, self.ties = seed, vocabulary, ties
        self.forbidden = torch.tensor(forbidden, dtype=torch.int64)

    def next_log_probs(self, sentence: int, prefix: Prefix) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, sentence, prefix)) % 2**31)
        logits = 1.5 * torch.randn(self.vocabulary, generator=generator)
        return (logits.round() if self.ties else logits).log_softmax(-1)

    def allowed(self, sentence: int, prefix: Prefix) -> Tensor:
        """The same for a prefix without bos, and minus infinity for what is forbidden."""
        return self.next_log_probs(sentence, (BOS, *prefix)).index_fill_(0, self.forbidden, -torch.inf)

    def __call__(self, last_tokens_BK: Tensor, state: TableState, /) -> Tensor:
        fed = last_tokens_BK.tolist()
        state.rows_fed.append(len(fed))
        state.prefixes = [
            [(*prefix, token) for prefix, token in zip(old, new, strict=True)]
            for old, new in zip(state.prefixes, fed, strict=True)
        ]
        rows = zip(state.sentences, state.prefixes, strict=True)
        found = torch.stack([torch.stack([self.next_log_probs(s, p) for p in prefixes]) for s, prefixes in rows])
        return found.index_fill_(-1, self.forbidden, -torch.inf)

    def log_probability(self, sentence: int, tokens: Prefix) -> float:
        """Of `tokens` (eos last where finished) after bos, one by one."""
        prefixes = ((BOS, *tokens[:i]) for i in range(len(tokens)))
        terms = [self.next_log_probs(sentence, p)[t].item() for p, t in zip(prefixes, tokens, strict=True)]
        return math.fsum(terms)


def greedy(table: Table, sentences: list[int], limits: list[int], state: TableState | None = None) -> list[Hypothesis]:
    state = state or TableState(sentences)
    return greedy_search(table, state, limits=torch.tensor(limits))
