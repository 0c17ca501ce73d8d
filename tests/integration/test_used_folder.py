"""A folder that holds a run already: what --resume accepts, what --overwrite replaces, and what neither touches."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import (
    TinyProject,
    assert_same_run,
    assert_same_tensors,
    at_call,
    newest_state,
    rows,
    sigterm,
    stop,
    update,
)

from translate.errors import CheckpointError, ConfigError, DataError
from translate.evaluation import validation as validation_module
from translate.model_file import SavedModel
from translate.pipeline import train
from translate.runs import preparing
from translate.runs.folder import RunFolder
from translate.training import learner as learner_module
from translate.training.tracking import MetricsLog

pytestmark = pytest.mark.slow

# --- what may have changed -------------------------------------------------------------------------------------------


def test_other_settings_are_refused_and_all_named(tiny: TinyProject) -> None:
    stop(sigterm, update(2), tiny)
    with pytest.raises(CheckpointError) as caught:
        train(tiny.config("training.optimizer.lr=0.002", "model.dropout=0.2", "decoding.max_extra=5"), resume=True)
    assert str(caught.value).split("\n") == [
        "cannot resume: settings or text have changed since the run began:",
        "  model.dropout: 0.1 → 0.2",
        "  training.optimizer.lr: 0.005 → 0.002",
        "  decoding.max_extra: 2 → 5",
        "undo these changes, or start a new run with output=… (if model and tokens stay the same, with the weights "
        "of this one: training.start_from=…/model.safetensors)",
    ]


def test_other_settings_are_refused_before_the_text_is_read(tiny: TinyProject) -> None:
    corpus = shutil.copytree(tiny.corpus, tiny.folder / "corpus")
    stop(sigterm, update(2), tiny, f"data.root={corpus}")
    (corpus / "train.de").unlink()
    with pytest.raises(CheckpointError, match=r"text\.tokenizer\.min_freq: 1 → 3"):
        train(tiny.config(f"data.root={corpus}", "text.tokenizer.min_freq=3"), resume=True)


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize(("split", "name"), [("train", "train"), ("val", "valid")])
def test_another_text_is_refused_before_anything_is_learned_or_encoded(
    split: str, name: str, language: str, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = shutil.copytree(tiny.corpus, tiny.folder / "corpus")
    stop(sigterm, update(2), tiny, f"data.root={corpus}")
    file = corpus / f"{split}.{language}"
    file.write_text(file.read_text(encoding="utf-8").replace(" ", "  ", 1), encoding="utf-8")
    monkeypatch.setattr(preparing, "CorpusCache", lambda _: pytest.fail("the text was prepared"))
    side = {"de": "source", "en": "target"}[language]
    with pytest.raises(CheckpointError, match=f"the {name} text has changed: {side}\n"):
        train(tiny.config(f"data.root={corpus}"), resume=True)


def test_a_run_may_move_and_search_otherwise(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    stop(sigterm, update(9), tiny)
    corpus = shutil.copytree(tiny.corpus, tiny.folder / "corpus")
    (tiny.folder / "run").rename(tiny.folder / "moved")
    moved = (f"output={tiny.folder}/moved", f"data.root={corpus}", f"data.cache={corpus}/cache2")
    files = f"data.train={{source: {corpus}/train.de, target: {corpus}/train.en}}"
    others = ("decoding.beam_size=2", "decoding.search=greedy", "training.keep_last=1", "training.checkpoint_every=2")
    run = train(tiny.config(*moved, files, *others, "threads=1"), resume=True)
    assert run.path == tiny.folder / "moved"
    assert_same_run(run, uninterrupted())


def test_a_run_may_show_fewer_samples(tiny: TinyProject, uninterrupted: Callable[..., RunFolder]) -> None:
    stop(sigterm, update(9), tiny)
    run, wanted = train(tiny.config("training.samples=0"), resume=True), uninterrupted()
    assert_same_tensors(newest_state(run)[0], newest_state(wanted)[0])
    found, rows_wanted = rows(run), rows(wanted)
    shown = [(row["step"], len(row.pop("samples"))) for row in found if row["kind"] == "validation"]
    assert shown == [(7, 1), (14, 0), (21, 0)]
    assert found == [{name: row[name] for name in row if name != "samples"} for row in rows_wanted]


# --- a folder that holds a run ---------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files but the lock, which every training takes."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_finished_run_stays_as_it_is(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    run = train(tiny.config())
    before = contents(run.path)
    assert train(tiny.config(), resume=True) == run
    assert f"{run.path} is finished: there is nothing to resume" in caplog.text
    assert "change nothing about it" not in caplog.text
    assert train(tiny.config("decoding.beam_size=9", f"data.cache={tiny.folder}/other"), resume=True) == run
    assert caplog.messages[-1] == "these settings change nothing about it:\n  decoding.beam_size: 5 → 9"
    for useless in ("training.patience=9", "training.max_steps=21"):  # They allow no update.
        assert train(tiny.config(useless), resume=True) == run
        assert caplog.messages[-1].startswith("these settings change nothing about it:\n  training.")
    assert contents(run.path) == before
    with pytest.raises(CheckpointError, match=r"training\.r_drop: 0\.0 → 1\.0"):
        train(tiny.config("training.r_drop=1.0"), resume=True)
    with pytest.raises(
        CheckpointError, match=r"the run has made 21 updates, but training\.max_epochs .* after 14; raise"
    ):
        train(tiny.config("training.max_epochs=2"), resume=True)
    assert contents(run.path) == before
    os.truncate(run.model, 100)
    with pytest.raises(CheckpointError, match=r"finished, but its model is lost: .*; train again with --overwrite"):
        train(tiny.config(), resume=True)
    run.model.unlink()
    with pytest.raises(CheckpointError, match=r"finished, but its model is lost: .*; train again with --overwrite"):
        train(tiny.config(), resume=True)


@pytest.mark.parametrize("updates", [14, 16])  # at a validation, and after one
def test_a_lost_model_is_made_again(updates: int, tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    stop(sigterm, update(updates), tiny, "training.checkpoint_every=1")
    model = tiny.folder / "run" / "model.safetensors"
    model.unlink()
    run = train(tiny.config("training.checkpoint_every=1"), resume=True)
    assert f"the run's best model is lost: {model} is missing; the next validation makes another" in caplog.text
    assert json.loads(run.finished.read_bytes())["best_update"] == SavedModel.load(model).about["validation"]["step"]


def test_a_lost_model_may_be_the_one_that_the_run_started_from(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    start = train(tiny.config("training.max_steps=1", f"output={tiny.folder}/first")).model
    stop(sigterm, update(2), tiny, f"training.start_from={start}")
    (tiny.folder / "run" / "model.safetensors").unlink()
    train(tiny.config(f"training.start_from={start}"), resume=True)
    assert "the run's best model is lost" in caplog.text


def test_a_run_that_has_no_model_yet_has_lost_none(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    stop(sigterm, update(2), tiny)
    train(tiny.config(), resume=True)
    assert "the run's best model is lost" not in caplog.text


@pytest.mark.parametrize("validated", [False, True])
def test_an_extended_run_without_its_model_is_not_over(validated: bool, tiny: TinyProject) -> None:
    """Whether it ends in the validation that makes its model again, or after that one."""

    def kill() -> None:
        raise KeyboardInterrupt

    schedule = "training.schedule.kind=constant"
    ended = train(tiny.config(schedule, "training.max_epochs=1"))
    ended.model.unlink()
    if validated:
        stop(kill, update(1), tiny, schedule, error=KeyboardInterrupt, resume=True)
    else:
        stop(sigterm, (validation_module, "smoothed_loss_", 1), tiny, schedule, resume=True)
    assert ended.model.is_file() == validated
    assert newest_state(ended)[1]["step"] == 7
    assert json.loads(train(tiny.config(schedule), resume=True).finished.read_bytes())["updates"] == 3 * 7


def test_a_model_that_is_removed_meanwhile_is_missed(tiny: TinyProject) -> None:
    def remove() -> None:
        (tiny.folder / "run" / "model.safetensors").unlink(missing_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, RunFolder, "finish", 1, lambda: pytest.fail("the run is over without a model"))
        at_call(patch, MetricsLog, "close", 1, remove)
        with pytest.raises(CheckpointError, match=r"model\.safetensors was removed during training; continue with the"):
            train(tiny.config("training.max_steps=1"))
    run = train(tiny.config("training.max_steps=1"), resume=True)
    assert run.model.is_file()
    assert run.finished.is_file()


def test_a_run_is_not_overwritten_by_accident(tiny: TinyProject) -> None:
    stop(sigterm, update(2), tiny)
    before = contents(tiny.folder / "run")
    with pytest.raises(CheckpointError) as caught:
        train(tiny.config())
    assert str(caught.value) == (
        f"{tiny.folder}/run already holds a run; --resume continues it, --overwrite replaces it, "
        "output=… uses another folder"
    )
    assert contents(tiny.folder / "run") == before


def test_overwriting_replaces_a_run_and_nothing_else(
    tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    run = train(tiny.config("seed=7", "training.max_epochs=4", "training.keep_last=9"))
    notes = run.path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    mine = run.path / "mine.json"
    mine.write_text('{"model": 1}', encoding="utf-8")
    left = run.path / ".model.safetensors.xyz"  # by kill -9 while the model was written
    left.mkdir()
    reports = [run.path / "test.json", run.path / "test.txt"]
    for report in reports:  # of the model that is about to go
        report.write_text('{"model": {}, "decoding": {}, "sentences_per_second": 1.0}', encoding="utf-8")
    stop(sigterm, update(2), tiny, overwrite=True)
    assert not run.finished.exists()
    assert not run.model.exists()
    assert [path.name for path in run.states.iterdir()] == ["step-00000002.safetensors"]
    assert notes.read_text(encoding="utf-8") == "mine"
    assert mine.exists()
    assert not left.exists()
    assert not any(report.exists() for report in reports)
    assert_same_run(train(tiny.config(), resume=True), uninterrupted())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data.root=nowhere"], "nowhere does not exist"),
        (["model.positions=learned", "model.max_positions=5"], "but model.max_positions is 5"),
    ],
)
def test_a_mistake_overwrites_nothing(overrides: list[str], message: str, tiny: TinyProject) -> None:
    run = train(tiny.config())
    before = contents(run.path)
    with pytest.raises(DataError, match=message):
        train(tiny.config(*overrides), overwrite=True)
    assert contents(run.path) == before


def test_what_this_pytorch_cannot_do_overwrites_nothing(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `training.parallel: fsdp` with some: the model is there by the time that this is found out."""
    run = train(tiny.config())
    before = contents(run.path)

    def refuse(*_: object) -> None:
        raise ConfigError("refused")

    monkeypatch.setattr(learner_module, "build_parallel", refuse)
    with pytest.raises(ConfigError, match="refused"):
        train(tiny.config(), overwrite=True)
    assert contents(run.path) == before
