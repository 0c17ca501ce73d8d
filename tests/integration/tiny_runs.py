"""Runs that take a moment: a made-up language pair, a tiny transformer, and what two runs have to agree on."""

import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from translate.config.loading import load_config
from translate.config.schema import Config
from translate.distributed.processes import SINGLE_PROCESS, Processes
from translate.pipeline import train_together
from translate.runs.folder import RunFolder
from translate.system.interrupt import Interrupted
from translate.system.storage import read_tensors
from translate.training.checkpoint import StateStore
from translate.training.trainer import Trainer

# Word by word, a translation swaps the two syllables: "bako" is "koba".
SYLLABLES = ("ba", "de", "fi", "ko", "lu", "mo", "ne")
SETTINGS = """\
output: {folder}/run
device: cpu
processes: 1
data: {{root: {corpus}, cache: {corpus}/cache}}
model: {{d_model: 16, ffn: 32, heads: 2, encoder_layers: 1, decoder_layers: 1}}
training:
  max_epochs: 3
  batch: {{max_tokens: 200}}
  schedule: {{kind: inverse_sqrt, warmup_steps: 5}}
  optimizer: {{kind: adamw, lr: 5e-3}}
  precision: float32
  log_every: 4
  samples: 1
decoding: {{max_ratio: 1, max_extra: 2}}
"""


def sentences(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Sources of two to six words, and their translations."""
    rng = random.Random(seed)
    pairs = [[rng.sample(SYLLABLES, 2) for _ in range(rng.randint(2, 6))] for _ in range(count)]
    return [" ".join(a + b for a, b in pair) for pair in pairs], [" ".join(b + a for a, b in pair) for pair in pairs]


def write_split(folder: Path, split: str, source: list[str], target: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for language, lines in (("de", source), ("en", target)):
        (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@dataclass(frozen=True)
class TinyProject:
    """A corpus, and a folder for runs on it."""

    corpus: Path
    folder: Path

    def config(self, *overrides: str) -> Config:
        """The tiny settings with `section.key=value` replacements."""
        path = self.folder / "tiny.yaml"
        path.write_text(SETTINGS.format(corpus=self.corpus, folder=self.folder), encoding="utf-8")
        return load_config(path, overrides)


class FirstOfTwo(Processes):
    """One of two processes, of which the other does nothing."""

    count = local_count = 2


def at_call(patch: pytest.MonkeyPatch, owner: Any, name: str, number: int, act: Callable[[], None]) -> None:
    """Let `act` happen just before the call of `owner.name` with this number, counted from 1."""
    original = getattr(owner, name)
    calls = 0

    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        return original(*arguments, **keywords)

    patch.setattr(owner, name, wrapped)


def calls_of(
    patch: pytest.MonkeyPatch, owner: Any, name: str, what: Callable[..., Any] = lambda *_, **__: None
) -> list[Any]:
    """A list that grows with each call of `owner.name`, by what this makes of the arguments, before the call."""
    original = getattr(owner, name)
    found: list[Any] = []

    def noted(*arguments: Any, **keywords: Any) -> Any:
        found.append(what(*arguments, **keywords))
        return original(*arguments, **keywords)

    patch.setattr(owner, name, noted)
    return found


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def sigint() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Killed(BaseException):
    """Stands for kill -9: no code of ours handles it."""


def kill() -> None:
    raise Killed


def stop(
    act: Callable[[], None],
    moment: tuple[Any, str, int],
    tiny: TinyProject,
    *overrides: str,
    error: type[BaseException] = Interrupted,
    **how: bool,
) -> BaseException:
    """Train until `act` stops the run at a moment: just before the call of owner.name with this number.

    What is saved then does not depend on how soon the disk has written what was saved before.
    """
    config = tiny.config(*overrides)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateStore, "unwritten", lambda self: None)
        at_call(patch, *moment, act)
        with pytest.raises(error) as caught:
            train_together(config, **how)
    return caught.value


def trainer_of(config: Config, processes: Processes = SINGLE_PROCESS) -> Trainer:
    """The trainer that the pipeline builds, before its first update."""
    found: list[Trainer] = []

    def catch(self: Trainer, *_: object) -> None:
        found.append(self)
        raise StopIteration

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train", catch)
        with pytest.raises(StopIteration):
            train_together(config, processes=processes)
    return found[0]


def gradients(trainer: Trainer, update: list[Any]) -> dict[str, Tensor]:
    """The unsharded gradients of one update, whose batches are arrays of pair numbers."""
    trainer._accumulate(update, trainer.dataset.epoch(0))
    parameters = trainer.learner.model.named_parameters()
    return {name: trainer.learner.parallel.unsharded(p.grad).clone() for name, p in parameters if p.grad is not None}


def update(number: int) -> tuple[Any, str, int]:
    """The moment of the update with this number, counted from the start or from the resume."""
    return Trainer, "_update", number


def rows(run: RunFolder) -> list[dict[str, Any]]:
    """The metrics log without what depends on the clock."""
    kept = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").split("\n")[:-1]]
    for row in kept:
        del row["timing"]
    return kept


def newest_state(run: RunFolder) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and progress of the newest training state, without what depends on the clock."""
    tensors, values = read_tensors(max(run.states.glob("step-*.safetensors")))
    progress = values["progress"]
    for name in ("seconds", "recent_seconds", "log_bytes"):
        del progress[name]
    return tensors, progress


def assert_same_run(one: RunFolder, other: RunFolder) -> None:
    """The same to the bit: weights, optimizer and random state at the end, the best model, progress, and the log."""
    (tensors, progress), (other_tensors, other_progress) = newest_state(one), newest_state(other)
    assert_same_tensors(tensors, other_tensors)
    assert progress == other_progress
    assert_same_tensors(read_tensors(one.model)[0], read_tensors(other.model)[0])
    assert rows(one) == rows(other)


def assert_same_tensors(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
