"""The training loop: updates, validations, training states, until the run is over or is asked to stop.

It knows nothing of text, decoding, or where scores come from. What updates need when memory is short is in
micro_batches.py; what happens between them is in model_selection.py and states.py.
"""

import math
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, tee
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from translate.data.batching import BatchPlan, make_batch
from translate.data.dataset import Indices, Pairs
from translate.errors import CheckpointError, DataError, TrainingError
from translate.optimization.loss import perplexity
from translate.optimization.schedule import build_schedule
from translate.optimization.update import Pass
from translate.system.allocation import explained_lack_of_memory, is_out_of_memory, release_memory
from translate.system.interrupt import Interrupted
from translate.training.learner import Learner
from translate.training.micro_batches import MicroBatches
from translate.training.model_selection import ModelSelection
from translate.training.progress import Progress, Sums
from translate.training.rehearsal import largest_batch, rehearse
from translate.training.states import States
from translate.training.tracking import Bar, MetricsLog

NON_FINITE_UPDATES = 10  # in a row, after which training stops
RELEASE_EVERY = 50  # updates, after which free memory is returned: each time, the next updates take longer
SAVED = "The run is saved; continue with the same command and --resume"


class _DoesNotFitError(TrainingError):
    """An update does not fit into memory, however small its pieces. The model is still that of the update before."""


class TrainingSet(Protocol):
    """The pairs to train on, which may differ in each epoch."""

    def epoch(self, number: int) -> Pairs: ...

    def prefetch(self, updates: Iterable[tuple[int, Indices]]) -> Generator[Pairs, None, None]:
        """The pairs for each of these updates: its epoch, and which pairs it needs. They may be made ahead of time."""


class Trainer:
    """Trains a learner on the batches of a plan; `selection` and `states` are of the same learner."""

    def __init__(
        self, learner: Learner, dataset: TrainingSet, plan: BatchPlan, *, selection: ModelSelection, states: States
    ) -> None:
        self.learner = learner
        self.config = learner.config
        self.dataset = dataset
        self.plan = plan
        self.selection = selection
        self.states = states
        self.micro_batches = MicroBatches(learner)
        self.signal = 0  # the number of a signal that any of the processes has received
        self.rehearsal_seconds = 0.0
        self.total_steps = learner.total_steps
        self.schedule = build_schedule(self.config.schedule, total_steps=self.total_steps)

    @property
    def progress(self) -> Progress:
        return self.learner.progress

    def resume(self, tensors: dict[str, Tensor], progress: Progress) -> None:
        """Restore a training state: the tensors that `StateStore.load_newest` has read, and how far the run has got.

        Raises:
            CheckpointError: it has more updates than the run should have.
            TrainingError: memory runs out.
        """
        if progress.updates_left(self.total_steps, self.config.patience) < 0:
            raise CheckpointError(
                f"the run has made {progress.step} updates, but training.max_epochs or training.max_steps ends it "
                f"after {self.total_steps}; raise that limit, or restore its earlier value"
            )
        with explained_lack_of_memory(lambda: f"while the training state is loaded; {self.learner.all_remedies()}"):
            self.states.restore(tensors, progress, self.plan.seed)

    def train(self, metrics: MetricsLog, bar: Bar) -> None:
        """Train to the end of the run. Signals stop it only while the learner's `guard` is open.

        Raises:
            Interrupted: a signal came; the state is saved, or an earlier one that was still being written.
            TrainingError: the gradient stays infinite or NaN, or memory runs out. If an update of a single process does
                not fit into it, the run is saved first.
            DataError: a validation runs out of memory with a single sentence; the run is saved first.
            CheckpointError: a file cannot be written; the last state that was written stays.
        """
        self.learner.metrics, self.learner.bar = metrics, bar
        try:
            with explained_lack_of_memory(self._where_memory_ran_out):
                self._loop()
                self.states.wait()
        except Interrupted:
            self.states.save_before_stopping()
            raise
        except DataError as error:  # A validation ran out of memory; all processes have this error.
            self.states.save_before_stopping()
            raise DataError(f"{error}. {SAVED}") from error
        except _DoesNotFitError as error:
            if self.progress.step and self._saved_with_little_memory():
                raise TrainingError(f"{error}. {SAVED}") from error
            raise

    def _where_memory_ran_out(self) -> str:
        return f"at update {self.progress.step + 1}; {self.learner.all_remedies()}"

    def _saved_with_little_memory(self) -> bool:
        """Save the run, unless there is no memory even for that."""
        release_memory()
        try:
            self.states.save_before_stopping()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    def _loop(self) -> None:
        self._rehearse()
        if self.config.start_from is not None and not self.progress.step and self.progress.best_step < 0:
            self.selection.measure_start()
            self.states.save()  # The best model exists now; without a state the run could not be resumed.
        if self._validation_is_due():  # The resumed run may have stopped before or during this validation.
            self._validate()
        self._make_updates()
        if self.progress.step < self.total_steps:
            without_better = self.progress.validations_since_best
            self.learner.bar.say(
                f"early stopping (training.patience): validations without a better model: {without_better}"
            )
        self.states.save_if_due()  # Not after the mean, which a resumed run measures again.
        self.selection.measure_mean()

    def _rehearse(self) -> None:
        """Try the largest batch of the epoch: if it fits into memory, so do the others."""
        started = time.perf_counter()
        epoch = self.progress.epoch
        largest = largest_batch(self.plan, epoch, self.learner.model, self.learner.update.padded)
        rehearse(self.micro_batches, largest, self.dataset.epoch(epoch))
        self.rehearsal_seconds = time.perf_counter() - started

    def _make_updates(self) -> None:
        """All updates up to the end of the run, with what is due after each."""
        progress, start = self.progress, self.progress.step
        updates, expected = tee(self._planned())
        needed = ((epoch, self._own_pairs(batches)) for epoch, _, batches in expected)
        with closing(self.dataset.prefetch(needed)) as pairs_of_updates:
            for epoch, position, batches in updates:
                if progress.updates_left(self.total_steps, self.config.patience) <= 0:
                    return
                progress.epoch, progress.position = epoch, position
                self._update(batches, pairs_of_updates)
                if progress.step == start + 1:  # It has created the optimizers' state.
                    self.states.reserve()
                self._after_update()

    def _planned(self) -> Iterator[tuple[int, int, list[Indices]]]:
        """Epoch, place in it, and batches of each update from here to the last one that the limits allow."""
        epoch, position = self.progress.epoch, self.progress.position
        for _ in range(self.progress.step, self.total_steps):
            if position == self.learner.updates_per_epoch:
                epoch, position = epoch + 1, 0
            yield epoch, position, self.plan.epoch(epoch)[position]
            position += 1

    def _own_pairs(self, batches: list[Indices]) -> Indices:
        """The pairs that this process reads of these batches."""
        return np.concatenate([part.indices for parts in self.micro_batches.of(batches) for part in parts])

    def _after_update(self) -> None:
        self.states.check()  # Not only when the next state is due: until then, nothing more would be saved.
        if self.progress.step % self.config.log_every == 0:
            self._log()
        if self.progress.step % RELEASE_EVERY == 0:
            release_memory()
        if self.signal:
            raise Interrupted(self.signal)
        if self._validation_is_due():
            self._validate()
        elif self._state_is_due():
            self.states.save_soon()
        else:
            self.states.save_when_free()

    def _update(self, batches: list[Indices], pairs_of_updates: Iterator[Pairs]) -> None:
        """One update of the weights, from the gradients of all `batches` together."""
        started = time.perf_counter()
        progress = self.progress
        own_sums = self._accumulate_until_it_fits(batches, next(pairs_of_updates))
        sums, self.signal = self._of_all_processes(own_sums)
        norm = self.learner.update.clip()
        if math.isfinite(norm):
            self.learner.update.step(self._learning_rate(progress.step + 1))
            progress.non_finite, progress.gradient_norm = 0, norm
            progress.recent.add(sums)
        else:
            self._skip_update(norm)

        progress.step += 1
        progress.position += 1
        progress.target_tokens += sums.tokens
        seconds = time.perf_counter() - started
        progress.seconds += seconds
        progress.recent_seconds += seconds
        self.learner.bar.advance()

    def _accumulate_until_it_fits(self, batches: list[Indices], pairs: Pairs) -> Sums:
        """The same as `_accumulate`; if memory runs out, again in smaller pieces."""
        random = torch.get_rng_state()
        try:
            return self.micro_batches.until_it_fits(lambda: self._accumulate(batches, pairs), batches)
        except Interrupted:
            torch.set_rng_state(random)  # When the run is resumed, it begins with this update.
            raise
        except (RuntimeError, MemoryError) as error:
            # Several processes cannot save together if one of them has no memory: the others wait for its gradient.
            if not (is_out_of_memory(error) and self.learner.processes.count == 1):
                raise
            torch.set_rng_state(random)
            raise _DoesNotFitError(f"out of memory {self._where_memory_ran_out()}") from error

    def _accumulate(self, batches: list[Indices], pairs: Pairs) -> Sums:
        """Accumulate the gradients of the batches, divided by the number of target tokens in all of them.

        Returns the sums over this process's parts of the batches.
        """
        self.learner.update.begin()  # from zero, without what an earlier attempt has added up
        self.learner.model.train()
        passes = [
            [Pass(make_batch(pairs, indices), weight) for indices, weight in parts]
            for parts in self.micro_batches.of(batches)
        ]
        own_tokens = sum(weight * len(batch.labels_N) for batch, weight in chain.from_iterable(passes))
        # DDP and FSDP average gradients over processes: divide by the mean number of tokens, not by the total.
        tokens = float(self.learner.processes.gather(own_tokens).mean())
        loss, nll = self.learner.update.accumulate_all(passes, tokens).tolist()
        return Sums(loss, nll, own_tokens)

    def _of_all_processes(self, own: Sums) -> tuple[Sums, int]:
        """The sums over all processes, and the number of a signal that any of them has received, or 0."""
        gathered = self.learner.processes.gather(own.loss, own.nll, own.tokens, self.learner.guard.received or 0)
        loss, nll, tokens = gathered[:, :3].sum(0).tolist()
        return Sums(loss, nll, int(tokens)), int(gathered[:, 3].max())

    def _skip_update(self, norm: float) -> None:
        progress = self.progress
        progress.non_finite += 1
        self.learner.bar.say(f"update {progress.step + 1} skipped: its gradient norm is {norm}")
        if progress.non_finite == NON_FINITE_UPDATES:
            remedies = ["lower training.optimizer.lr", "raise training.schedule.warmup_steps"]
            if not self.config.clip_norm:
                remedies.append("set training.clip_norm")
            if self.learner.update.dtype is not torch.float32:
                remedies.append("use training.precision=float32")
            raise TrainingError(
                f"the gradient was infinite or NaN in {NON_FINITE_UPDATES} updates in a row; "
                f"{', '.join(remedies[:-1])}, or {remedies[-1]}, in a new run"
            )

    def _validate(self) -> None:
        self._log()
        self.selection.validate()
        self.states.save_soon()

    def _log(self) -> None:
        """Write a row of the metrics log: loss and speed since the last row."""
        progress, recent = self.progress, self.progress.recent
        if not recent.tokens:
            return
        values = {
            "step": progress.step,
            "epoch": self.learner.epochs_done(),
            "loss": recent.loss / recent.tokens,
            "nll": recent.nll / recent.tokens,
            "perplexity": perplexity(recent.nll / recent.tokens),
            "gradient_norm": progress.gradient_norm,
            "learning_rate": self._learning_rate(progress.step),
            "target_tokens": progress.target_tokens,
        }
        speed = recent.tokens / max(progress.recent_seconds, 1e-9)
        self.learner.metrics.write("train", values, {"seconds": progress.seconds, "target_tokens_per_second": speed})
        self.learner.bar.show(
            loss=f"{values['loss']:.3f}",
            perplexity=f"{values['perplexity']:.2f}",
            lr=f"{values['learning_rate']:.1e}",
            tokens_per_s=f"{speed:,.0f}",
        )
        progress.recent, progress.recent_seconds = Sums(), 0.0

    def _learning_rate(self, update: int) -> float:
        """That of an update, counted from 1."""
        return self.config.optimizer.lr * self.schedule(update)

    def _validation_is_due(self) -> bool:
        progress, every = self.progress, self.config.validate_every
        due = progress.position == self.learner.updates_per_epoch if every is None else progress.step % every == 0
        return progress.step != progress.validated_step and (due or progress.step == self.total_steps)

    def _state_is_due(self) -> bool:
        every = self.config.checkpoint_every
        return every is not None and self.progress.step % every == 0
