"""Several models that search together: the probability of a token is their mean.

Dimension letters in names: B sentences still searched, K hypotheses of each, S source positions, V target vocabulary.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from translate.decoding.step import State
from translate.model.build import Model


class EnsembleState:
    """The states of all models."""

    def __init__(self, states: list[State]) -> None:
        self.states = states

    def reorder(self, parents_BK: Tensor) -> None:
        for state in self.states:
            state.reorder(parents_BK)

    def keep(self, sentences_B: Tensor) -> None:
        for state in self.states:
            state.keep(sentences_B)


class Ensemble(nn.Module):
    """Models with the same vocabularies as one; to a search, it looks like any of them."""

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    @property
    def _members(self) -> list[Any]:
        return list(self.models)

    @property
    def max_length(self) -> int:
        """Maximum number of tokens that all models can place."""
        return min(model.max_length for model in self._members)

    def forward(self, *batch: Tensor) -> Tensor:
        """Teacher forcing, as in a model: log of the mean probability of each next token, a row for each position."""
        return _mean([model(*batch).log_softmax(-1) for model in self._members])

    def start(self, source_BS: Tensor, source_mask_BS: Tensor) -> EnsembleState:
        """Let every model read the sources."""
        return EnsembleState([model.start(source_BS, source_mask_BS) for model in self._members])

    def step(self, last_BK: Tensor, state: EnsembleState) -> Tensor:
        """Log of the mean probability (B, K, V) of what follows `last_BK`; advances `state`."""
        return _mean([model.step(last_BK, own) for model, own in zip(self._members, state.states, strict=True)])


def _mean(log_probs: list[Tensor]) -> Tensor:
    # Rounding may lift a probability of 1 above that, which searches do not expect.
    return (torch.stack(log_probs).logsumexp(0) - math.log(len(log_probs))).clamp_(max=0.0)
