"""Training that starts from another model: with its weights and vocabularies, on other text."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TinyProject, assert_same_run, newest_state, rows, sentences, sigterm, stop, update, write_split

from translate.errors import CheckpointError, ConfigError
from translate.evaluation.validation import Validator
from translate.model_file import SavedModel
from translate.pipeline import train
from translate.runs.folder import RunFolder


@pytest.fixture
def model(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> Path:
    """Of a finished run, which a test may spoil."""
    return RunFolder(shutil.copytree(uninterrupted().path, tiny.folder / "run")).model


@pytest.fixture
def other(tiny: TinyProject, model: Path) -> tuple[str, ...]:
    """Settings of a run that trains on with other text."""
    corpus = tiny.folder / "other"
    write_split(corpus, "train", *sentences(40, seed=8))
    write_split(corpus, "val", *sentences(8, seed=9))
    return f"training.start_from={model}", f"data.root={corpus}", f"output={tiny.folder}/tuned"


def test_weights_and_vocabularies_are_those_of_the_model(
    tiny: TinyProject, model: Path, other: tuple[str, ...]
) -> None:
    still = ("training.optimizer={kind: adam, lr: 1e-12}", "training.max_steps=1", "model.dropout=0.3")
    tuned, start = SavedModel.load(train(tiny.config(*other, *still)).model), SavedModel.load(model)
    assert (tuned.source, tuned.target) == (start.source, start.target)
    for name, weight in start.weights.items():
        torch.testing.assert_close(tuned.weights[name], weight, rtol=0, atol=1e-9)


def test_text_that_the_model_was_trained_on_is_named(
    tiny: TinyProject, model: Path, other: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    said = f"starting from {model}, which was trained on the same text"
    start, _, output = other
    settings = (start, output, "training.max_steps=1")
    train(tiny.config(*settings))
    assert said in caplog.messages
    caplog.clear()
    train(tiny.config(*settings), resume=True)
    train(tiny.config(*other, "training.max_steps=1"), overwrite=True)
    assert said not in caplog.messages


def test_training_words_that_the_model_does_not_know_are_counted(
    tiny: TinyProject, other: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    train(tiny.config(*other, "training.max_steps=1"))
    assert "out of vocabulary" not in caplog.text
    source, target = sentences(40, seed=8)
    write_split(tiny.folder / "other", "train", [f"{line} Zebra" for line in source], target)
    train(tiny.config(*other, "training.max_steps=1"), overwrite=True)
    (message,) = (message for message in caplog.messages if "out of vocabulary" in message)
    assert re.fullmatch(r"train: \d+\.\d% of the source tokens are out of vocabulary", message)


def test_the_model_that_training_starts_from_may_be_the_best(tiny: TinyProject, other: tuple[str, ...]) -> None:
    harmful = ("training.optimizer={kind: adam, lr: 10}", "training.validate_every=1", "training.best=loss")
    run = train(tiny.config(*other, *harmful))
    validated = [(row["step"], row["best"]) for row in rows(run) if row["kind"] == "validation"]
    assert validated == [(step, step == 0) for step in range(7)]
    assert SavedModel.load(run.model).about["validation"]["step"] == newest_state(run)[1]["best_step"] == 0


@pytest.mark.parametrize("moment", [(Validator, "_nll_and_accuracy", 1), update(1), update(2)])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(
    moment: tuple[Any, str, int], tiny: TinyProject, other: tuple[str, ...]
) -> None:
    stop(sigterm, moment, tiny, *other)
    resumed = train(tiny.config(*other), resume=True)
    assert_same_run(resumed, train(tiny.config(*other, f"output={tiny.folder}/again")))


def test_a_run_that_was_killed_in_its_first_epoch_goes_on(tiny: TinyProject, other: tuple[str, ...]) -> None:
    def killed() -> None:
        raise KeyboardInterrupt  # Nothing is saved then.

    stop(killed, update(2), tiny, *other, error=KeyboardInterrupt)
    resumed = train(tiny.config(*other), resume=True)
    assert_same_run(resumed, train(tiny.config(*other, f"output={tiny.folder}/again")))


def test_a_run_goes_on_without_the_model_that_it_started_from(
    tiny: TinyProject, model: Path, other: tuple[str, ...]
) -> None:
    stop(sigterm, update(3), tiny, *other, "training.validate_every=1")
    model.unlink()
    resumed = train(tiny.config(*other, "training.validate_every=1"), resume=True)
    assert newest_state(resumed)[1]["step"] == 6


def test_a_run_whose_best_model_is_damaged_goes_on_with_the_vocabularies_of_the_other(
    tiny: TinyProject, model: Path, other: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    stop(sigterm, update(3), tiny, *other, "training.validate_every=1")
    best = tiny.folder / "tuned" / model.name
    best.write_bytes(best.read_bytes()[:-1])
    resumed = train(tiny.config(*other, "training.validate_every=1"), resume=True)
    assert "the run's best model is lost" in caplog.text
    assert SavedModel.load(resumed.model).source == SavedModel.load(model).source


def test_no_validation_is_made_twice_where_the_best_model_is_lost(
    tiny: TinyProject, model: Path, other: tuple[str, ...]
) -> None:
    stop(sigterm, update(3), tiny, *other, "training.validate_every=1")
    (tiny.folder / "tuned" / model.name).unlink()
    resumed = train(tiny.config(*other, "training.validate_every=1"), resume=True)
    assert [row["step"] for row in rows(resumed) if row["kind"] == "validation"] == list(range(7))


def test_other_settings_are_refused_and_nothing_is_begun(
    tiny: TinyProject, model: Path, other: tuple[str, ...]
) -> None:
    with pytest.raises(CheckpointError) as caught:
        train(tiny.config(*other, "model.ffn=16", "text.tokenizer.lowercase=true", "model.dropout=0.3"))
    assert str(caught.value) == (
        f"training cannot start from {model}, which has other settings:\n"
        "  text.tokenizer.lowercase: false → true\n"
        "  model.ffn: 32 → 16\n"
        "undo these changes, or leave training.start_from out"
    )
    assert not (tiny.folder / "tuned").exists()


def test_settings_that_no_weight_depends_on_may_differ(tiny: TinyProject, other: tuple[str, ...]) -> None:
    asked = ("model.max_positions=1024", "model.embedding_init=xavier")
    assert train(tiny.config(*other, *asked, "training.max_steps=1")).model.is_file()


def test_the_model_is_not_overwritten_by_what_starts_from_it(tiny: TinyProject, model: Path) -> None:
    before = model.read_bytes()
    link = tiny.folder / "link.safetensors"
    link.symlink_to(model)
    for path in (model, link):
        with pytest.raises(CheckpointError, match="lies in the folder of this run; name another folder"):
            train(tiny.config(f"training.start_from={path}"), overwrite=True)
        assert model.read_bytes() == before


def test_a_missing_model(tiny: TinyProject) -> None:
    with pytest.raises(CheckpointError, match=r"absent is missing; give a \.safetensors file"):
        train(tiny.config(f"training.start_from={tiny.folder}/none/absent"))


def test_labels_have_no_start(tiny: TinyProject) -> None:
    with pytest.raises(ConfigError, match=r"training\.start_from is for translation"):
        tiny.config("data.kind=labelled", "model.kind=classifier", "training.start_from=x")
