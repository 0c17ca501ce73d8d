"""What a search returns."""

from collections.abc import Iterable
from dataclasses import dataclass


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
