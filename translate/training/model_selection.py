"""Which model of a run is the best: each candidate is measured and compared, and saved if it wins.

Candidates are the model at each validation, the one that training starts from, and the mean of the last snapshots.
Where their scores come from is unknown here: validation is a function passed in.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from translate.errors import DataError
from translate.model.build import Model
from translate.optimization.loss import perplexity
from translate.system.terminal import telling_the_time
from translate.training.learner import Learner
from translate.training.snapshots import Snapshots

SHOWN = 400  # characters of each text of a sample; the metrics log has all of them


@dataclass(frozen=True)
class Validation:
    """How good the model is on validation text. `nll` is in nats per token, without label smoothing.

    `scores` are further metrics by their names in the settings, such as BLEU; `truncated` counts the answers that the
    length limit cut off; `summary` has all metrics for people to read; each of `samples` maps roles, such as source and
    reference, to texts.
    """

    nll: float
    accuracy: float
    scores: dict[str, float]
    truncated: int
    summary: str
    warning: str | None
    samples: list[dict[str, str]]

    def metric(self, name: str) -> float:
        """The metric that selects the best model; more is better."""
        return {**self.scores, "accuracy": self.accuracy, "loss": -self.nll}[name]


Validate = Callable[[Model], Validation]


class SaveBest(Protocol):
    """Saves the model as the best so far, in place of the previous one."""

    def __call__(self, kind: str, model: Model, validation: Validation, step: int) -> None: ...


class ModelSelection:
    """Measures a learner's model, and keeps the best one.

    Args:
        validate: measures the model it gets, in evaluation mode.
        snapshots: if their mean is to be measured, too.
    """

    def __init__(
        self, learner: Learner, validate: Validate, save_best: SaveBest, snapshots: Snapshots | None = None
    ) -> None:
        self.learner = learner
        self.validate_model = validate
        self.save_best = save_best
        self.snapshots = snapshots
        self.seconds = 0.0  # that measuring has taken

    def measure_start(self) -> None:
        """Measure the model that training starts from, which may remain the best one."""
        self._measure("validation", self.learner.parallel.unsharded_model())

    def validate(self) -> None:
        """Measure the model as it is now, and take a snapshot of it."""
        progress = self.learner.progress
        model = self.learner.parallel.unsharded_model()
        better = self._measure("validation", model)
        progress.validated_step = progress.step
        progress.validations_since_best = 0 if better else progress.validations_since_best + 1
        if self.snapshots is not None:
            snapshots, taken = self.snapshots, progress.snapshots
            self.learner.processes.on_first(lambda: snapshots.add(progress.step, model))
            if progress.step not in taken:  # It is there if the best model was lost and this is repeated.
                taken.append(progress.step)
            del taken[: -snapshots.keep_last]

    def measure_mean(self) -> None:
        """Measure the mean of the last snapshots, at the end of the run, and keep it if it is the best model."""
        if self.snapshots is None:
            return
        parallel, say = self.learner.parallel, self.learner.bar.say
        self.learner.processes.on_first(self.snapshots.writer.wait)  # All processes read them: they must be on disk.
        count, mean = self.snapshots.mean()
        self.learner.processes.expect_the_same(count, "snapshots")
        taken = len(self.learner.progress.snapshots)
        if count < taken:
            say(f"training.average_last: only {count} of the last {taken} snapshots are left")
        if count < 2:
            few = "there was one validation only, so " if taken == 1 else ""
            say(f"training.average_last: {few}there is nothing to average")
            return
        own = {name: weight.clone() for name, weight in parallel.weights().items()}
        try:
            parallel.load(mean)
            say(f"average of the weights at the last {count} validations:")
            self._measure("validation of the mean", parallel.unsharded_model())
        finally:
            parallel.load(own)

    def _measure(self, kind: str, model: Model) -> bool:
        """Validate a model, save it if it is the best so far, and return whether it is.

        `kind` is what the metrics log and the file of the model call this validation.
        """
        progress, best = self.learner.progress, self.learner.config.best
        started = time.perf_counter()
        model.eval()
        validation = self._validation_of(model, kind)
        assert best is not None, "load_config fills it in"
        # NaN, from a model that has diverged, counts as the worst metric; but any model is better than none.
        metric, nll = number_or_worst(validation.metric(best)), -number_or_worst(-validation.nll)
        better = progress.is_beaten_by(metric, nll, is_score=best in validation.scores)
        if better:
            progress.best_step, progress.best_metric, progress.best_nll = progress.step, metric, nll
            self.learner.processes.on_first(lambda: self.save_best(kind, model, validation, progress.step))
        values = {
            "step": progress.step,
            "epoch": self.learner.epochs_done(),
            "nll": validation.nll,
            "perplexity": perplexity(validation.nll),
            "accuracy": validation.accuracy,
            **validation.scores,
            "truncated": validation.truncated,
            "best": better,
            "warning": validation.warning,
            "samples": validation.samples,
        }
        seconds = time.perf_counter() - started
        self.seconds += seconds
        self.learner.metrics.write(kind, values, {"seconds": seconds})
        self.learner.bar.say(
            describe_validation(validation, epoch=self.learner.epochs_done(), step=progress.step, best=better)
        )
        return better

    def _validation_of(self, model: Model, kind: str) -> Validation:
        """Validate a model; if memory runs out with a single sentence, again without what only makes updates faster."""

        def validate() -> Validation:
            with telling_the_time(f"{kind} after update {self.learner.progress.step}"):
                return self.validate_model(model)

        try:
            return self.learner.processes.on_first(validate)
        except DataError:
            if not self.learner.update.give_up_memory():
                raise
        return self._validation_of(model, kind)


def number_or_worst(metric: float) -> float:
    """A metric of which more is better; NaN becomes the worst."""
    return -math.inf if math.isnan(metric) else metric


def describe_validation(validation: Validation, *, epoch: float, step: int, best: bool) -> str:
    """A validation for people to read: the metrics, the samples, and the warning, if any."""
    lines = [f"epoch {epoch:.4g}, update {step}: validation {validation.summary}" + (" (best so far)" if best else "")]
    samples = ((name, text) for sample in validation.samples for name, text in sample.items())
    lines += [f"  {name:<11} {text if len(text) <= SHOWN else f'{text[:SHOWN]}…'}" for name, text in samples]
    if validation.warning is not None:
        lines.append(f"  warning: {validation.warning}")
    return "\n".join(lines)
