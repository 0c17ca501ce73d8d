"""What lets a model be bigger: activation checkpointing, and the largest batch tried before all others."""

import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import TinyProject, assert_same_run, at_call, sigterm, stop, update
from torch import Tensor

from translate import model_file
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.system.storage import read_tensors
from translate.training import checkpoint
from translate.training import trainer as trainer_module
from translate.training.trainer import Trainer

# With dropout, which is to be the same the second time.
VARIANTS = {
    "plain": (),
    "bfloat16, all kinds of dropout": (
        "training.precision=bfloat16",
        "model.attention_dropout=0.1",
        "model.ffn_dropout=0.1",
    ),
    "R-Drop": ("training.r_drop=2.0",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_activation_checkpointing_changes_nothing_and_can_be_switched_on_later(
    name: str, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    stop(sigterm, update(9), tiny, *VARIANTS[name])
    run = train(tiny.config(*VARIANTS[name], "training.activation_checkpointing=true"), resume=True)
    assert_same_run(run, uninterrupted(*VARIANTS[name]))


@pytest.mark.slow
def test_the_rehearsal_changes_nothing(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    rehearsed = uninterrupted()  # before the patch: it would be the run without one, too
    monkeypatch.setattr(trainer_module, "rehearse", lambda *_: None)
    assert_same_run(train(tiny.config()), rehearsed)


def test_memory_is_told_at_every_start(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    stop(sigterm, update(9), tiny)
    train(tiny.config(), resume=True)
    said = [line for line in capsys.readouterr().err.split("\n") if "memory" in line]
    pattern = (
        r"memory: about \d+ MiB, in addition to Python and the text: weights \d+ MiB, gradients \d+ MiB, "
        r"optimizer \d+ MiB, write buffers \d+ MiB, activations of \d+ rows of \d+ tokens \d+ MiB"
    )
    assert len(said) == 2
    assert all(re.fullmatch(pattern, line) for line in said)


@pytest.mark.parametrize("begin", ["resumed", "started from a model"])
def test_weights_that_were_loaded_are_not_kept_beside_the_model(begin: str, tiny: TinyProject) -> None:
    overrides: tuple[str, ...] = ()
    if begin == "resumed":
        stop(sigterm, update(3), tiny)
    else:
        overrides = (f"training.start_from={train(tiny.config()).model}", f"output={tiny.folder}/tuned")
    loaded: list[weakref.ref[Tensor]] = []

    def remembering(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = read_tensors(path)
        # Optimizers work on, instead of copying, what is loaded for them.
        loaded.extend(weakref.ref(tensor) for name, tensor in tensors.items() if not name.startswith("optimizer."))
        return tensors, values

    def none_is_left() -> None:
        assert loaded
        assert all(tensor() is None for tensor in loaded)

    with pytest.MonkeyPatch.context() as patch:
        for module in (checkpoint, model_file):
            patch.setattr(module, "read_tensors", remembering)
        at_call(patch, Trainer, "_update", 1, none_is_left)
        train(tiny.config(*overrides), resume=begin == "resumed")
