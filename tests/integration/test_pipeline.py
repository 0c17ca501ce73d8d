"""What a run reads, refuses and leaves behind."""

import errno
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TinyProject, assert_same_tensors, at_call, newest_state, rows, sentences, write_split
from torch import Tensor

from translate import pipeline, preparing, resuming, runs, validation
from translate.config.keys import all_sections
from translate.config.loading import config_to_dict, load_config
from translate.data import checks, reading
from translate.data.batching import BatchPlan
from translate.data.corpus import read_split
from translate.data.dataset import CorpusCache, Dataset
from translate.decoding.rescore import teacher_forced
from translate.errors import CheckpointError, DataError, TrainingError
from translate.model.attention import MultiHeadAttention
from translate.model.build import Model
from translate.model_file import SavedModel
from translate.pipeline import train
from translate.runs import RunFolder, newest_model
from translate.storage import read_tensors
from translate.text.words import _spacy_tokenizer
from translate.training.progress import Validation
from translate.training.trainer import Trainer
from translate.training.update import Update
from translate.validation import Validator

# --- what a run leaves behind ----------------------------------------------------------------------------------------


def test_a_run_leaves_its_model_its_settings_its_log_and_its_states(tiny: TinyProject) -> None:
    config = tiny.config()
    run = train(config)
    assert run.path == tiny.folder / "run"
    assert sorted(path.relative_to(run.path).as_posix() for path in run.path.rglob("*")) == [
        "config.yaml",
        "finished.json",
        "metrics.jsonl",
        "model.safetensors",
        "states",
        "states/step-00000014.safetensors",
        "states/step-00000021.safetensors",
    ]
    assert load_config(run.config) == config
    assert SavedModel.load(run.model).config == config


def test_the_log_has_every_update_once_and_every_validation(tiny: TinyProject) -> None:
    run = train(tiny.config())
    log = rows(run)
    assert [row["step"] for row in log if row["kind"] == "train"] == [4, 7, 8, 12, 14, 16, 20, 21]
    assert [(row["step"], row["epoch"]) for row in log if row["kind"] == "validation"] == [(7, 1), (14, 2), (21, 3)]
    last = [row for row in log if row["kind"] == "train"][-1]
    assert last["target_tokens"] == 3 * sum(len(line.split()) + 1 for line in sentences(240, seed=1)[1])


def test_the_end_of_a_run_says_what_came_out(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="translate")
    began = time.perf_counter()
    run = train(tiny.config("training.best=loss"))
    finished = json.loads(run.finished.read_text(encoding="utf-8"))
    assert finished["seconds"] <= time.perf_counter() - began + 0.1
    validations = [row for row in rows(run) if row["kind"] == "validation"]
    best = min(validations, key=lambda row: row["nll"])
    assert finished["updates"] == 21
    assert finished["best_update"] == best["step"]
    assert finished["best_loss"] == best["nll"]
    lines = run.metrics.read_text(encoding="utf-8").splitlines()
    clock = [row for line in lines if (row := json.loads(line))["kind"] == "train"][-1]["timing"]["seconds"]
    assert finished["update_seconds"] == round(clock, 1)
    assert 0 <= finished["text_seconds"] <= finished["seconds"] - finished["update_seconds"] + 0.2
    assert f"finished in {finished['seconds']} s: {finished['text_seconds']} s for preparing the text, " in caplog.text
    about = SavedModel.load(run.model).about
    assert about["validation"]["nll"] == best["nll"]
    assert {name: about[name] for name in ("device", "dtype")} == {"device": "cpu", "dtype": "float32"}
    assert "sha256" in about["train"]


def test_the_best_model_may_be_the_one_with_most_tokens_right(tiny: TinyProject) -> None:
    run = train(tiny.config("training.best=accuracy"))
    best = max(row["accuracy"] for row in rows(run) if row["kind"] == "validation")
    assert json.loads(run.finished.read_text(encoding="utf-8"))["best_accuracy"] == best
    assert SavedModel.load(run.model).about["validation"]["accuracy"] == best


def test_the_same_run_twice_is_the_same(tiny: TinyProject) -> None:
    one, two = train(tiny.config(f"output={tiny.folder}/one")), train(tiny.config(f"output={tiny.folder}/two"))
    assert rows(one) == rows(two)
    assert_same_tensors(newest_state(one)[0], newest_state(two)[0])


def test_another_seed_is_another_run(tiny: TinyProject) -> None:
    one, two = (
        train(tiny.config(f"output={tiny.folder}/one")),
        train(tiny.config(f"output={tiny.folder}/two", "seed=2")),
    )
    assert rows(one) != rows(two)


@pytest.mark.parametrize(("every", "validations"), [("null", [7, 10]), ("4", [4, 8, 10])])
def test_a_run_ends_in_the_middle_of_an_epoch_at_max_steps(
    every: str, validations: list[int], tiny: TinyProject
) -> None:
    run = train(tiny.config("training.max_steps=10", f"training.validate_every={every}"))
    assert newest_state(run)[1]["step"] == 10
    assert [row["step"] for row in rows(run) if row["kind"] == "validation"] == validations


def test_the_rate_follows_the_schedule_over_the_whole_run(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    step = Update.step

    def spy(self: Update, rate: float) -> None:
        rates.append(rate)
        step(self, rate)

    monkeypatch.setattr(Update, "step", spy)
    run = train(tiny.config("training.schedule={kind: linear, warmup_steps: 0}", "training.log_every=1"))
    assert rates == pytest.approx([0.005 * (1 - number / 21) for number in range(1, 22)])
    assert [row["learning_rate"] for row in rows(run) if row["kind"] == "train"] == rates


def test_each_epoch_reads_its_own_pairs(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(Dataset, "epoch", lambda self, number: asked.append(number) or self)
    train(tiny.config())
    assert asked[-21:] == [*[0] * 7, *[1] * 7, *[2] * 7]


def test_validation_is_without_dropout_and_training_with_it(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[bool] = []
    validate, add = Validator.__call__, Update.add

    def spy_validate(self: Validator, model: Model, *rest: Any) -> Any:
        modes.append(model.training)
        return validate(self, model, *rest)

    def spy_add(self: Update, *arguments: Any, **keywords: Any) -> Any:
        modes.append(self.parallel.model.training)
        return add(self, *arguments, **keywords)

    monkeypatch.setattr(Validator, "__call__", spy_validate)
    monkeypatch.setattr(Update, "add", spy_add)
    train(tiny.config("training.max_steps=2", "training.validate_every=1"))
    assert modes[-4:] == [True, False, True, False]


@pytest.mark.parametrize(("r_drop", "rows_at_once"), [(0.0, 200), (1.0, 400)])
def test_the_arithmetic_is_measured_for_the_rows_of_a_pass(
    r_drop: float, rows_at_once: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pipeline, "resolve_precision", lambda *_, rows, width: asked.append(rows) or torch.float32)
    train(tiny.config(f"training.r_drop={r_drop}", "training.max_steps=1"))
    assert asked == [rows_at_once]


@pytest.mark.parametrize(
    ("plain", "precision", "heaps"),
    [("[]", "float32", [True]), ("[]", "bfloat16", [False]), ("[memory]", "float32", [])],
)
def test_memory_is_kept_unless_the_settings_forbid_it_and_in_float32_in_one_heap(
    plain: str, precision: str, heaps: list[bool], tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    monkeypatch.setattr(pipeline, "keep_memory", lambda *, one_heap: kept.append(one_heap))
    train(tiny.config("training.max_steps=1", f"training.plain={plain}", f"training.precision={precision}"))
    assert kept == heaps


@pytest.mark.parametrize(("plain", "explicit"), [("[]", {True}), ("[attention]", {False})])
def test_training_uses_the_model_without_what_the_settings_switch_off(
    plain: str, explicit: set[bool], tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: set[bool] = set()
    add = Update.add

    def spy(self: Update, *arguments: Any, **keywords: Any) -> Any:
        modules = self.parallel.model.modules()
        found.update(module.explicit for module in modules if isinstance(module, MultiHeadAttention))
        return add(self, *arguments, **keywords)

    monkeypatch.setattr(Update, "add", spy)
    train(tiny.config("training.max_steps=1", f"training.plain={plain}"))
    assert found == explicit


# --- the newest model ------------------------------------------------------------------------------------------------


def finished_run(project: Path, name: str, time: int) -> RunFolder:
    run = RunFolder(project / "checkpoints" / name)
    run.make()
    run.model.touch()
    run.finish({})
    os.utime(run.finished, (time, time))
    return run


def test_the_newest_model_is_of_the_run_that_finished_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "project_root", lambda: tmp_path)
    with pytest.raises(CheckpointError) as caught:
        newest_model()
    assert str(caught.value) == (
        f"no finished run under {tmp_path / 'checkpoints'}; train one with: "
        "python scripts/train.py --config configs/demo.yaml, or name a model file with --checkpoint FILE"
    )
    finished_run(tmp_path, "older", time=100)
    newest = finished_run(tmp_path, "newest", time=300)
    finished_run(tmp_path, "without a model", time=400).model.unlink()
    finished_run(tmp_path, "under way", time=500).finished.unlink()
    finished_run(tmp_path, "zzz", time=200)
    assert newest_model() == newest.model


# --- text ------------------------------------------------------------------------------------------------------------


def test_what_is_too_large_for_a_test_set_is_not_encoded_ahead(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tiny.folder / "corpus"
    for split, count in {"train": 20, "val": 5, "test": 5, "crawl": 50}.items():
        write_split(corpus, split, *sentences(count, seed=count))
    monkeypatch.setattr(reading, "MOST_OF_A_TEST_SET", 1000)
    config = tiny.config(f"data.root={corpus}", f"data.cache={tiny.folder}/cache", "training.max_steps=1")
    encoded: list[str] = []
    dataset = CorpusCache.dataset

    def spy(self: CorpusCache, codecs: Any, text: Any) -> Any:
        encoded.append(text.name)
        return dataset(self, codecs, text)

    monkeypatch.setattr(CorpusCache, "dataset", spy)
    train(config)
    assert sorted(encoded) == ["test", "train", "val"]


def test_files_of_the_training_text_are_not_encoded_once_more_as_splits(tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    for split in ("part1", "part2", "part3", "val", "test"):
        write_split(corpus, split, *sentences(10, seed=len(split) + ord(split[-1])))
    files = f"data.train={{source: {corpus}/part*.de, target: {corpus}/part*.en}}"
    train(tiny.config(f"data.root={corpus}", files, f"data.cache={tiny.folder}/cache", "training.max_steps=1"))
    assert len(list((tiny.folder / "cache").glob("text-*.json"))) == 3  # the parts together, val and test


def test_a_missing_validation_file_is_noticed_before_training_text_is_read(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "read_training_text", pytest.fail)
    for name in ("absent.de", "absent*.de"):
        with pytest.raises(DataError, match="absent"):
            train(tiny.config(f"data.valid={{source: {name}, target: {tiny.corpus}/val.en}}"))


def test_other_splits_wait_for_a_library_that_is_missing(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tiny.folder / "corpus"
    for split in ("train", "val"):
        write_split(corpus, split, *sentences(10, seed=1))
    settings = f"data.root={corpus}", f"data.cache={tiny.folder}/cache", "training.max_steps=1"
    train(tiny.config(*settings))
    write_split(corpus, "test", *sentences(10, seed=2))  # which is not in the cache
    _spacy_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert train(tiny.config(*settings), overwrite=True).model.is_file()


def test_bleu_without_case_is_called_so(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = sentences(20, seed=1)
    corpus = tiny.folder / "corpus"
    for split in ("train", "val"):
        write_split(corpus, split, source, [line.capitalize() for line in target])
    for lowercase, name in (False, "BLEU"), (True, "BLEU (lower-cased)"):
        settings = f"text.tokenizer.lowercase={lowercase}".lower()
        train(tiny.config(f"data.root={corpus}", "training.max_steps=1", settings), overwrite=True)
        assert re.search(rf"validation {re.escape(name)} \d", capsys.readouterr().err)


@pytest.mark.parametrize(("copied", "warned"), [(0, False), (1, True), (20, True)])
def test_validation_pairs_that_are_trained_on_are_counted(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture, copied: int, warned: bool
) -> None:
    source, target = sentences(120, seed=1)
    assert len(set(zip(source, target, strict=True))) == 120
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", source[:100], target[:100])
    # Twice the same pair is one; the same source with another translation is none.
    held_out = source[100:], target[100:]
    copies = (source[:copied] * 2, target[:copied] * 2)
    write_split(corpus, "val", [*copies[0], *held_out[0], source[99]], [*copies[1], *held_out[1], target[0]])
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    assert (f"val: {copied} of {copied + 21} different pairs are also in the training text" in caplog.text) == warned


@pytest.mark.parametrize(("copies", "warned"), [(0, False), (1, True), (30, True)])
def test_pairs_with_one_text_on_both_sides_are_counted(
    tiny: TinyProject, caplog: pytest.LogCaptureFixture, copies: int, warned: bool
) -> None:
    source, target = sentences(100, seed=1)
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", source, [*source[:copies], *target[copies:]])
    write_split(corpus, "val", *sentences(8, seed=2))
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    assert (f"train: {copies} of 100 pairs have the same text on both sides" in caplog.text) == warned


@pytest.mark.parametrize("shifted", ["train", "val"])
def test_misaligned_lines_are_warned_of(
    shifted: str, tiny: TinyProject, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "STRETCH", 20)
    monkeypatch.setattr(checks, "FEWEST", 20)
    corpus, words = tiny.folder / "corpus", [4, 9] * 20
    for split in ("train", "val"):
        target = [*words[1:], 4] if split == shifted else words
        write_split(corpus, split, ["bako " * count for count in words], ["koba " * count for count in target])
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    warned = [message.split(",")[0] for message in caplog.messages if "misaligned" in message]
    assert warned == [f"{shifted}: around line 1"]


@pytest.mark.parametrize("kind", ["bpe, vocab_size: 60, truecase: true", "word"])
@pytest.mark.parametrize("joint", ["true", "false"])
def test_both_sides_may_be_of_one_language(kind: str, joint: str, tiny: TinyProject) -> None:
    files = {
        split: f"{{source: {tiny.corpus}/{split}.de, target: {tiny.corpus}/{split}.en}}" for split in ("train", "val")
    }
    run = train(
        tiny.config(
            *("data.source=en", f"data.train={files['train']}", f"data.valid={files['val']}", "training.max_steps=1"),
            *(f"text.tokenizer={{kind: {kind}}}", f"text.joint_vocabulary={joint}"),
        )
    )
    saved = SavedModel.load(run.model)
    assert saved.source.language == saved.target.language == "en"
    assert saved.source.composes
    assert not saved.target.composes
    assert (saved.source.vocabulary == saved.target.vocabulary) == (joint == "true")
    with pytest.raises(DataError, match=r"Source and target language are both 'en', so both files of 'val' would"):
        read_split(tiny.corpus, "val", "en", "en")


def test_translations_may_be_as_long_as_training_text_says(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    source, target = sentences(100, seed=1)
    corpus = tiny.folder / "corpus"
    odd = ["a"] * 10, ["a " * 150] * 10  # Not trained on, and so of no account.
    write_split(corpus, "train", source + odd[0], [f"{line} " * 9 for line in target] + odd[1])
    write_split(corpus, "val", source[:5], target[:5])
    asked = (f"data.root={corpus}", "data.filter.max_ratio=20", "training.max_steps=1", "decoding.max_extra=2")
    run = train(tiny.config(*asked, "decoding.max_ratio=null"))
    learned = SavedModel.load(run.model).config.decoding.max_ratio
    assert learned is not None
    assert 12 < learned < 13.5  # 9 times as many words, half as many again, less what max_extra gives
    assert f"decoding.max_ratio set to {learned:g}: training pairs have many target tokens" in caplog.text
    assert load_config(run.config).decoding.max_ratio is None  # left open to a config that extends it, for other text
    assert train(tiny.config(*asked, "decoding.max_ratio=null"), resume=True) == run
    run = train(tiny.config(*asked, "decoding.max_ratio=1.5"), overwrite=True)
    assert SavedModel.load(run.model).config.decoding.max_ratio == 1.5


def test_pairs_that_exceed_a_batch_are_counted(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    corpus = tiny.folder / "corpus"
    lines = ["a b c"] * 5 + ["a b c d e f g"] * 2
    for split in ("train", "val"):
        write_split(corpus, split, lines, lines)
    train(tiny.config(f"data.root={corpus}", "training.batch.max_tokens=7", "training.max_steps=1"))
    assert (
        "train: pairs longer than training.batch.max_tokens (7), each in a batch of its own: 2; "
        "data.filter.max_tokens drops them"
    ) in caplog.messages
    caplog.clear()
    train(tiny.config(f"data.root={corpus}", "training.batch.max_tokens=8", "training.max_steps=1"), overwrite=True)
    assert "in a batch of its own" not in caplog.text


def test_unknown_validation_text_is_told_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    source, target = sentences(100, seed=1)
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", source, target)
    write_split(corpus, "val", ["x y", *source[:9]], target[:10])
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"))
    assert re.search(
        r"val: \d+\.\d% of the source tokens and 0\.0% of the target tokens are out of vocabulary", caplog.text
    )
    caplog.clear()
    write_split(corpus, "val", ["x y", "z"], target[:2])
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"), overwrite=True)
    told = [record.levelname for record in caplog.records if "100.0% of the source tokens" in record.getMessage()]
    assert told == ["WARNING"]


def test_a_warm_up_without_an_end_is_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    for steps, warned in (5, False), (4, True):
        train(tiny.config(f"training.max_steps={steps}"), overwrite=True)
        warning = f"training.schedule.warmup_steps is 5, but the run has {steps} updates: lower it, or the "
        assert (warning in caplog.text) == warned


@pytest.mark.parametrize(
    ("kind", "steps", "warned"), [("cosine", 1, True), ("cosine", 2, False), ("constant", 1, False)]
)
def test_a_run_that_learns_nothing_is_warned_of(
    kind: str, steps: int, warned: bool, tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = f"training.schedule={{kind: {kind}, warmup_steps: 0}}"
    train(tiny.config(f"training.max_steps={steps}", schedule))
    assert ("the learning rate falls to 0 at the first update: this run learns nothing; " in caplog.text) == warned


def test_validation_text_without_spaces_is_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    corpus, warning = tiny.folder / "corpus", "most references have no spaces, but BLEU splits words at spaces"
    for apart in (" ", ""):
        for seed, split in enumerate(("train", "val")):
            source, target = sentences(20, seed)
            write_split(corpus, split, source, [(line + " . " + line).replace(" ", apart) for line in target])
        train(tiny.config("training.max_steps=1", f"data.root={corpus}"), overwrite=True)
        assert (warning in caplog.text) == (apart == "")


def test_text_that_is_given_twice_is_warned_of(tiny: TinyProject, caplog: pytest.LogCaptureFixture) -> None:
    train(tiny.config("training.max_steps=1"))
    assert "same text" not in caplog.text
    assert "validation text is the training text" not in caplog.text
    train(tiny.config("training.max_steps=1", "data.valid=train"), overwrite=True)
    assert "the validation text is the training text: its scores say nothing about unseen text" in caplog.text
    source, _ = sentences(20, seed=1)
    corpus = tiny.folder / "corpus"
    for split in ("train", "val"):
        write_split(corpus, split, source, source)
    train(tiny.config(f"data.root={corpus}", "training.max_steps=1"), overwrite=True)
    assert "train: source and target are the same text" in caplog.text


def test_validation_text_is_never_filtered(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    corpus = tiny.folder / "corpus"
    write_split(
        corpus, "train", ["bako fide"] * 8 + ["@@", "", "bako " * 30], ["koba defi"] * 8 + ["@@", "koba", "koba"]
    )
    write_split(corpus, "val", ["bako", "@@", "", "bako " * 30], ["koba", "@@", "koba", ""])
    trained: list[list[int]] = []
    measured: list[list[int]] = []
    translated: list[int] = []
    epoch, validate = BatchPlan.epoch, Validator.__call__

    def spy_epoch(self: BatchPlan, number: int) -> Any:
        trained.append(sorted(self.pairs.tolist()))
        return epoch(self, number)

    def spy_forced(model: Any, pairs: Any, indices: Any, *arguments: Any, **options: Any) -> Any:
        measured.append(indices.tolist())
        return teacher_forced(model, pairs, indices, *arguments, **options)

    def spy_validate(self: Validator, *arguments: Any) -> Any:
        translated.append(len(self.sources))
        return validate(self, *arguments)

    monkeypatch.setattr(BatchPlan, "epoch", spy_epoch)
    monkeypatch.setattr(Validator, "__call__", spy_validate)
    monkeypatch.setattr(validation, "teacher_forced", spy_forced)
    train(tiny.config(f"data.root={corpus}", "data.filter.max_tokens=20", "training.max_epochs=1"))
    assert {tuple(pairs) for pairs in trained} == {tuple(range(8))}
    assert measured == [[*range(4)]]
    assert all(pairs in ([*range(8)], [*range(4)]) for pairs in trained)
    assert translated == [4]
    assert (
        "train: dropped 1 pair: no letter or digit on one side (data.filter.untranslated), first line 9"
        in caplog.messages
    )


@pytest.fixture
def mixed(tiny: TinyProject) -> tuple[str, str]:
    """Settings for a folder of corpora: a split, files of three other ones, and one of these splits again."""
    corpus = tiny.folder / "mixed"
    write_split(corpus, "a", *sentences(30, seed=1))
    write_split(corpus, "val", *sentences(4, seed=9))
    for number in range(3):
        write_split(corpus, f"crawl-{number}", *sentences(20, seed=2 + number))
    files = f"source: {corpus}/crawl-*.de, target: {corpus}/crawl-*.en"
    return f"data.root={corpus}", f"data.train=[a, {{{files}, weight: 3}}, {{split: crawl-1}}]"


def test_corpora_are_mixed_by_weight(
    tiny: TinyProject, mixed: tuple[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "translate")
    trained: list[int] = []

    def spy(self: Trainer, batches: list[Any]) -> None:
        trained.extend(int(pair) for batch in batches for pair in batch)
        original(self, batches)

    original = Trainer._update
    monkeypatch.setattr(Trainer, "_update", spy)
    train(tiny.config(*mixed, "training.max_epochs=1"))
    assert sorted(trained) == [*range(30), *sorted([*range(30, 90)] * 3), *range(90, 110)]
    said = "\n".join(caplog.messages)
    assert "a: 30 pairs, " in said
    assert "crawl-*.de / crawl-*.en: 60 pairs, 3 pairs of files, " in said
    assert ", 3 times an epoch" in said
    assert "a + crawl-*.de / crawl-*.en + crawl-1: 110 pairs, 3 corpora, " in said


def test_where_bleu_is_the_same_the_loss_decides(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with short or unspaced targets, whose BLEU is 0 for long."""
    monkeypatch.setattr("translate.validation.corpus_bleu", lambda *_: 0.0)
    finished = json.loads(train(tiny.config("training.patience=1")).finished.read_text(encoding="utf-8"))
    assert (finished["updates"], finished["best_update"], finished["best_bleu"]) == (21, 21, 0.0)


def test_a_corpus_without_a_say_in_the_vocabulary(tiny: TinyProject, mixed: tuple[str, str]) -> None:
    root, _ = mixed

    def trained_on(name: str, train_on: str) -> SavedModel:
        asked = f"data.train={train_on}", f"output={tiny.folder}/{name}", "training.max_steps=1"
        return SavedModel.load(train(tiny.config(root, *asked)).model)

    alone = trained_on("alone", "a")
    silent = trained_on("silent", "[a, {split: crawl-1, vocabulary: false}]")
    assert (silent.source, silent.target) == (alone.source, alone.target)
    assert trained_on("all", "[a, crawl-1]").source != alone.source


def test_another_vocabulary_is_another_run(tiny: TinyProject, mixed: tuple[str, str]) -> None:
    root, _ = mixed
    settings = (root, "training.max_steps=2")
    train(tiny.config(*settings, "data.train=[a, crawl-1]"))
    train(tiny.config(*settings, "data.train=[a, crawl-1]"), resume=True)
    with pytest.raises(
        CheckpointError,
        match=r"\n  the vocabularies have changed: because of data.train, training.start_from or a library's version",
    ):
        train(tiny.config(*settings, "data.train=[a, {split: crawl-1, vocabulary: false}]"), resume=True)


def test_other_weights_are_another_run(tiny: TinyProject, mixed: tuple[str, str]) -> None:
    settings = (*mixed, "training.max_steps=2")
    train(tiny.config(*settings))
    train(tiny.config(*settings), resume=True)
    lighter = [setting.replace("weight: 3", "weight: 2") for setting in settings]
    with pytest.raises(CheckpointError, match="the train text has changed"):
        train(tiny.config(*lighter), resume=True)


def test_all_other_settings_are_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those that are written out here, whatever the schema may get."""
    keys = {f"{path}.{name}".lstrip(".") for path, section in all_sections() for name in section.model_fields}

    def free_in(training: dict[str, Any]) -> set[str]:
        identity = {"config": {"training": training}, "train": [], "valid": [], "codecs": []}
        free = set()
        for key in (key for key in keys if not key.startswith(("data.train", "data.valid"))):  # compared by their text
            monkeypatch.setattr(resuming, "differences", lambda *_, key=key: {key: f"{key}: 1 → 2"})
            with suppress(CheckpointError):
                resuming.refuse_changes(identity, identity)
                free.add(key)
        return free

    places = {"output", "data.root", "data.cache", "data.download", "training.start_from"}
    work = {"device", "processes", "threads", "training.parallel", "training.activation_checkpointing"}
    shown = {"training.samples", "training.checkpoint_every", "training.keep_last", "training.log_every"}
    sampling = ("temperature", "top_k", "seed")
    search = {f"decoding.{key}" for key in ("search", "beam_size", "length_penalty", "batch_tokens", *sampling)}
    length = {f"training.{key}" for key in ("max_epochs", "max_steps", "patience")}
    always = places | work | shown | search
    assert free_in({}) == free_in({"schedule": {"kind": "constant"}}) == always | length
    for kind in ("cosine", "linear"):
        assert free_in({"schedule": {"kind": kind}}) == always | {"training.patience"}
    assert free_in({"average_last": 2}) == always


def test_a_state_of_another_version_is_told_to_be_one(tiny: TinyProject) -> None:
    config = config_to_dict(tiny.config())
    same = {"train": [], "valid": [], "codecs": []}
    before = {**same, "config": {**config, "training": {**config["training"], "gone": 1}}}
    with pytest.raises(CheckpointError) as caught:
        resuming.refuse_changes(before, {**same, "config": config})
    assert str(caught.value).startswith(
        "the run was started by another version of this project: 1 problem in the stored config:\n"
        "  stored config: training.gone: unknown key"
    )


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize(
    ("split", "remedy"), [("train", "data.filter.max_tokens"), ("val", "validation text is never dropped")]
)
def test_sentences_longer_than_the_positions(split: str, remedy: str, positions: str, tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", *sentences(40, seed=1))
    write_split(corpus, "val", *sentences(4, seed=2))
    for language in ("de", "en"):
        with (corpus / f"{split}.{language}").open("a", encoding="utf-8") as file:
            file.write("bako fide\n" + "bako " * 30 + "\n")
    overrides = (f"data.root={corpus}", f"model.positions={positions}", "model.max_positions=30")
    config = tiny.config(*overrides, "training.max_epochs=2")
    if positions == "sinusoidal":
        assert newest_state(train(config))[1]["step"] > 2  # Their table grows, also while validating.
        return
    line = {"train": 42, "val": 6}[split]
    with pytest.raises(DataError) as caught:
        train(config)
    assert str(caught.value).startswith(
        f"{split} line {line} has 31 tokens, including the end token, but model.max_positions is 30; raise it"
    )
    assert remedy in str(caught.value)


def test_what_is_filtered_needs_no_position(tiny: TinyProject) -> None:
    corpus = tiny.folder / "corpus"
    write_split(corpus, "train", ["bako fide"] * 8 + ["bako " * 40], ["koba defi"] * 8 + ["koba"])
    write_split(corpus, "val", ["bako"], ["koba"])
    learned = ("model.positions=learned", "model.max_positions=30", "data.filter.max_tokens=20")
    run = train(tiny.config(f"data.root={corpus}", *learned, "training.max_epochs=1"))
    assert newest_state(run)[1]["step"] == 1


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were asked for, each filled with a made-up corpus instead of Multi30k."""
    asked: list[Path] = []

    def download(root: Path) -> None:
        asked.append(root)
        write_split(root, "train", *sentences(20, seed=1))
        write_split(root, "val", *sentences(4, seed=2))

    monkeypatch.setattr(reading, "download_multi30k", download)
    return asked


@pytest.mark.parametrize("begun", [False, True])
def test_a_missing_folder_is_downloaded_once(begun: bool, tiny: TinyProject, downloads: list[Path]) -> None:
    root = tiny.folder / "missing"
    if begun:  # by a download that was interrupted
        root.mkdir()
    config = tiny.config(f"data.root={root}", "data.download=true", "training.max_epochs=1")
    train(config)
    train(config, overwrite=True)
    assert downloads == [root]


def test_nothing_is_downloaded_unasked(tiny: TinyProject, downloads: list[Path]) -> None:
    with pytest.raises(DataError, match=r"The folder .*missing does not exist"):
        train(tiny.config(f"data.root={tiny.folder}/missing"))
    (tiny.folder / "other").mkdir()
    (tiny.folder / "other" / "notes.txt").touch()
    with pytest.raises(DataError, match=r"No split 'train' in .*other"):
        train(tiny.config(f"data.root={tiny.folder}/other", "data.download=true"))
    files = "data.{0}={{source: {1}/{0}.de, target: {1}/{0}.en}}"
    write_split(tiny.folder / "mine", "train", *sentences(20, seed=1))
    write_split(tiny.folder / "mine", "valid", *sentences(4, seed=2))
    named = [files.format(text, tiny.folder / "mine") for text in ("train", "valid")]
    train(tiny.config(f"data.root={tiny.folder}/missing", "data.download=true", "training.max_steps=1", *named))
    assert downloads == []


def test_files_with_the_names_of_a_download_are_the_users_unless_one_is_asked_for(
    tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train.de.gz", "train.en.gz"):
        (tiny.folder / "mine").mkdir(exist_ok=True)
        (tiny.folder / "mine" / name).touch()
    monkeypatch.setattr(preparing, "read_training_text", pytest.fail)
    with pytest.raises(DataError, match="hold out a few hundred lines"):
        train(tiny.config(f"data.root={tiny.folder}/mine"))


# --- a folder that cannot be written ---------------------------------------------------------------------------------


UNWRITABLE = r"cannot write .*run.*; choose another folder: output=…"


@pytest.mark.parametrize("obstacle", ["run", "run/states"])
def test_a_file_where_a_folder_should_be(obstacle: str, tiny: TinyProject) -> None:
    file = tiny.folder / obstacle
    file.parent.mkdir(exist_ok=True)
    file.write_text("in the way", encoding="utf-8")
    with pytest.raises(CheckpointError, match=UNWRITABLE):
        train(tiny.config())


@pytest.mark.parametrize("obstacle", ["config.yaml", "metrics.jsonl", "finished.json"])
def test_a_folder_where_a_file_should_be(obstacle: str, tiny: TinyProject) -> None:
    (tiny.folder / "run" / obstacle).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=UNWRITABLE):
        train(tiny.config("training.max_epochs=1"))


@pytest.mark.parametrize(("name", "write"), [("config.yaml", "begin"), ("finished.json", "finish")])
def test_a_full_disk(name: str, write: str, tiny: TinyProject) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        at_call(patch, RunFolder, write, 1, lambda: patch.setattr("translate.files.os.fsync", full))
        with pytest.raises(CheckpointError, match=r"cannot write to .*run: No space left on device"):
            train(tiny.config())
    assert not (tiny.folder / "run" / name).exists()


def weights_after(run: RunFolder, step: int) -> dict[str, Tensor]:
    state = read_tensors(run.states / f"step-{step:08d}.safetensors")[0]
    return {name.removeprefix("model."): tensor for name, tensor in state.items() if name.startswith("model.")}


def test_a_model_file_holds_the_weights_of_its_step(tiny: TinyProject) -> None:
    run = train(tiny.config("training.best=loss", "training.keep_last=9"))
    step = SavedModel.load(run.model).about["validation"]["step"]
    assert_same_tensors(read_tensors(run.model)[0], weights_after(run, step))


def let_validations_find(monkeypatch: pytest.MonkeyPatch, *found: Validation) -> Iterator[Validation]:
    """These, one after the other; what comes back are those that are left."""
    left = iter(found)
    monkeypatch.setattr(Validator, "__call__", lambda *_: next(left))
    return left


def with_loss(nll: float) -> Validation:
    return Validation(nll, 0.0, {}, 0, "", None, [])


def test_a_mean_that_is_worse_is_not_kept(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = let_validations_find(monkeypatch, *map(with_loss, [2.0, 1.0, 3.0, 1.5]))  # three epochs and the mean
    run = train(tiny.config("training.average_last=2", "training.best=loss", "training.keep_last=9"))
    assert list(losses) == []
    assert_same_tensors(read_tensors(run.model)[0], weights_after(run, 14))


@pytest.mark.parametrize(
    ("losses", "best"), [([math.nan, 2.0, 3.0], 14), ([math.nan, math.nan, 3.0], 21), ([2.0, math.nan, 1.0], 21)]
)
def test_any_number_is_better_than_none(
    losses: list[float], best: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_validations_find(monkeypatch, *map(with_loss, losses))
    run = train(tiny.config("training.best=loss"))
    assert json.loads(run.finished.read_text(encoding="utf-8"))["best_update"] == best
    assert SavedModel.load(run.model).about["validation"]["step"] == best


@pytest.mark.parametrize(("last", "useless"), [(math.nan, True), (2.0, False)])
def test_a_run_without_a_finite_loss_fails(
    last: float, useless: bool, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_validations_find(monkeypatch, *map(with_loss, [math.nan, math.nan, last]))
    said = "the loss was infinite or NaN at every validation: the model is useless"
    with pytest.raises(TrainingError, match=said) if useless else nullcontext():
        train(tiny.config("training.best=loss"))
    assert RunFolder(tiny.folder / "run").finished.exists() != useless


def test_patience_counts_validations_in_a_row(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    let_validations_find(monkeypatch, *map(with_loss, [3.0, 4.0, 2.0, 4.0, 1.0, 4.0]))
    run = train(tiny.config("training.best=loss", "training.patience=2", "training.max_epochs=6"))
    assert json.loads(run.finished.read_bytes())["updates"] == 6 * 7


@pytest.mark.parametrize(
    ("best", "figures", "step"),
    [
        ("bleu", (34.611, 34.614), 7),  # shown as equal: the loss decides
        ("bleu", (34.611, 34.621), 14),
        ("accuracy", (0.7312, 0.7349), 14),
        ("loss", (-2.001, -2.0), 14),
    ],
)
def test_scores_are_compared_as_they_are_shown_and_other_figures_as_they_are(
    best: str, figures: tuple[float, float], step: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for figure, nll in zip(figures, (1.0, 2.0), strict=True):
        accuracy = figure if best == "accuracy" else 0.5
        found.append(Validation(-figure if best == "loss" else nll, accuracy, {"bleu": figure}, 0, "", None, []))
    let_validations_find(monkeypatch, *found)
    run = train(tiny.config(f"training.best={best}", "training.max_epochs=2"))
    assert SavedModel.load(run.model).about["validation"]["step"] == step


def test_where_patience_ends_a_run_the_mean_is_measured_too(tiny: TinyProject) -> None:
    run = train(tiny.config("training.optimizer.lr=1e-15", "training.patience=2", "training.average_last=2"))
    assert [row["kind"] for row in rows(run)][-1] == "validation of the mean"
    assert newest_state(run)[1]["step"] == 21


def test_one_validation_has_no_mean(tiny: TinyProject) -> None:
    run = train(tiny.config("training.average_last=2", "training.max_epochs=1"))
    assert [row["kind"] for row in rows(run)] == ["train", "train", "validation"]
