"""Where a run stands: plain values."""

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from translate.config.training import TrainingConfig


def total_steps(config: TrainingConfig, per_epoch: int) -> int:
    """How many updates a run makes, unless it runs out of patience before."""
    epochs = math.inf if config.max_epochs is None else config.max_epochs
    steps = math.inf if config.max_steps is None else config.max_steps
    return int(min(steps, per_epoch * epochs))


@dataclass
class Sums:
    """Sums over real target tokens, in nats (natural logarithms).

    `loss` is what is minimized, label-smoothed and with R-Drop's divergence; `nll` is the plain cross-entropy.
    """

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0

    def add(self, other: "Sums") -> None:
        self.loss += other.loss
        self.nll += other.nll
        self.tokens += other.tokens


@dataclass
class Progress:
    """Where a run stands: plain values, saved with every training state."""

    step: int = 0  # updates done
    epoch: int = 0  # the current epoch, counted from 0
    position: int = 0  # updates done of the current epoch
    target_tokens: int = 0  # in all updates so far, including those that were skipped
    validated_step: int = 0  # after which the last validation was made
    best_step: int = -1  # none yet
    best_metric: float = -math.inf
    best_nll: float = math.inf  # breaks ties, as when BLEU is 0 at first
    validations_since_best: int = 0
    snapshots: list[int] = field(default_factory=list)  # after which updates those to average were taken
    non_finite: int = 0  # updates skipped in a row
    gradient_norm: float = 0.0  # of the last update that was not skipped, before clipping
    recent: Sums = field(default_factory=Sums)  # since the last row of the log
    recent_seconds: float = 0.0  # of updates, since the last row of the log
    log_bytes: int = 0  # length of the metrics log when this was saved
    seconds: float = 0.0  # of updates alone, without validations

    def to_dict(self) -> dict[str, Any]:
        return for_json(asdict(self))

    def without_best(self) -> "Progress":
        """The same with no validation so far; one that is due at this update is made again."""
        fresh = Progress()
        names = ("validated_step", "best_step", "best_metric", "best_nll", "validations_since_best")
        return replace(self, **{name: getattr(fresh, name) for name in names})

    def updates_left(self, total: int, patience: int | None) -> int:
        """How many of `total` updates the run has still to make; negative if it has made more.

        None are left if it has run out of `patience`: so many validations in a row without a better model.
        """
        left = total - self.step
        out_of_patience = patience is not None and self.validations_since_best >= patience
        return min(left, 0) if out_of_patience else left

    def is_beaten_by(self, metric: float, nll: float, *, is_score: bool) -> bool:
        """Whether a model is better than the best so far. Between scores equal to two decimals, the loss decides."""

        def shown(number: float) -> float:
            return round(number, 2) if is_score else number

        return self.best_step < 0 or (shown(metric), -nll) > (shown(self.best_metric), -self.best_nll)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        given = {name: value for name, value in values.items() if value is not None}
        return cls(**{**given, "recent": Sums(**given["recent"])})


def for_json(values: dict[str, Any]) -> dict[str, Any]:
    """The same with None in place of infinity and NaN, which JSON does not have; not inside of other values."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
