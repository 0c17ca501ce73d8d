"""Where a run stands, and how good its model was at a validation: plain values."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from translate.training.loss import Sums


@dataclass(frozen=True)
class Validation:
    """How good the model is on validation text. `nll` in nats a token, without label smoothing."""

    nll: float
    accuracy: float
    bleu: float
    chrf: float
    warning: str | None
    samples: list[tuple[str, str, str]]  # source, translation, reference

    def figure(self, name: str) -> float:
        """The figure that picks the best model, so that more is better."""
        return {"bleu": self.bleu, "chrf": self.chrf, "loss": -self.nll}[name]


@dataclass
class Progress:
    """Where a run stands: plain values, saved with every training state."""

    step: int = 0  # updates done
    epoch: int = 0  # epochs completed
    position: int = 0  # updates done of the epoch under way
    target_tokens: int = 0
    validated_step: int = 0
    best_step: int = 0
    best_figure: float = -math.inf
    validations_since_best: int = 0
    non_finite: int = 0  # updates skipped in a row
    recent: Sums = field(default_factory=Sums)  # since the last row of the log
    log_bytes: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        # JSON has no infinity.
        values["best_figure"] = None if math.isinf(self.best_figure) else self.best_figure
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        best = -math.inf if values["best_figure"] is None else values["best_figure"]
        return cls(**{**values, "best_figure": best, "recent": Sums(**values["recent"])})


def describe(values: dict[str, Any], validation: Validation) -> str:
    """A validation as a person reads it: the figures, the samples, and a warning where there is need for one."""
    lines = [
        f"epoch {values['epoch']}, update {values['step']}: validation BLEU {validation.bleu:.2f}, "
        f"chrF {validation.chrf:.2f}, perplexity {values['perplexity']:.2f}, accuracy {validation.accuracy:.1%}"
        + (" (best so far)" if values["best"] else "")
    ]
    for source, translation, reference in validation.samples:
        lines += [f"  source      {source}", f"  translation {translation}", f"  reference   {reference}"]
    if validation.warning is not None:
        lines.append(f"  warning: {validation.warning}")
    return "\n".join(lines)
