"""What search asks of a model: log-probabilities of the next token, and a state that follows the hypotheses.

Search knows nothing else about it: a transformer, an ensemble and a table in a test look alike.

Dimension letters in names: B sentences still searched, K hypotheses of each (1 in greedy search), V target vocabulary.
"""

from typing import Any, Protocol

from torch import Tensor


class State(Protocol):
    """What a step remembers of B sentences with K hypotheses each; at first K is 1 and every hypothesis is empty.

    What belongs to a sentence (source mask, cross-attention keys and values) need be stored only once for its K
    hypotheses; what belongs to a hypothesis (self-attention keys and values) moves with it.
    """

    def reorder(self, parents_BK: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis `parents_BK[b, k]` (int64) of that sentence.

        A parent may be continued by several hypotheses or by none. The K of `parents_BK` may differ from the K so far.
        """

    def keep(self, sentences_B: Tensor) -> None:
        """Keep these sentences (int64 indices, ascending; none when search ends) and forget the others."""


class Step(Protocol):
    """One decoding step of all hypotheses."""

    def __call__(self, last_tokens_BK: Tensor, state: Any, /) -> Tensor:
        """Append `last_tokens_BK` (int64; bos at first) to the hypotheses in `state`, which changes in place.

        Returns float32 natural log-probabilities of the next token, BKV, none above 0, and minus infinity for tokens
        that must not be chosen: a fresh tensor, which search may overwrite. Hypotheses that have ended are fed padding;
        what is returned for them is ignored.
        """
