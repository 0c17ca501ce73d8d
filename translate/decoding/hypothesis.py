"""What a search returns, and the score it ranks by."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Hypothesis:
    """A translation as ids, without bos and eos.

    `log_probability` is a natural logarithm and includes eos; `score` is what the search ranked by. If `finished` is
    False, the limit cut the hypothesis off before eos.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool

    @property
    def length(self) -> int:
        """Number of tokens as the length penalty counts them: including eos."""
        return len(self.tokens) + self.finished


def best_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Finished ones first, each kind by its score; among equals, the earlier one."""
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))


def length_penalized(log_probability: Tensor, length: Tensor, alpha: float) -> Tensor:
    """score = log_probability / length^alpha (after Wu et al., 2016, section 7), where length counts eos.

    Log-probabilities are negative, so a larger alpha favours longer hypotheses; alpha 1 is the mean per token, and
    alpha 0 ranks by log-probability alone.
    """
    return log_probability / length.double() ** alpha
