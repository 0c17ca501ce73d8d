"""Labelled text with the same three commands: a classifier is trained, labels what it has not seen, and is scored."""

import json
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from own_logging import own_logging
from tiny_project import Call, Outcome, Project, write_lines

from translate.commands import evaluate, train, translate
from translate.data.lines import read_lines
from translate.errors import ConfigError
from translate.text.vocabulary import Vocabulary
from translate.translator import Translator

SETTINGS = """\
output: run
device: cpu
processes: 1
data: {kind: labelled, root: corpus, cache: cache, source: es}
model: {kind: classifier, d_model: 16, ffn: 32, heads: 2, encoder_layers: 1}
training:
  max_epochs: 6
  batch: {max_tokens: 100}
  optimizer: {kind: adamw, lr: 1e-2}
  schedule: {kind: constant}
  precision: float32
  samples: 1
"""
# What is in a room, by a word among others that say nothing of it.
SIGNS = {"la cocina": ["sopa", "plato"], "salón": ["sofá", "libro"], "garaje": ["coche", "aceite"]}
OTHERS = ["el", "grande", "hay", "un", "verde", "también"]


def labelled_lines(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        label = rng.choice(list(SIGNS))
        words = [*rng.choices(OTHERS, k=rng.randint(0, 5)), rng.choice(SIGNS[label])]
        rng.shuffle(words)
        lines.append(f"{label}\t{' '.join(words)}")
    return lines


def write_labelled_project(folder: Path) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "tiny.yaml").write_text(SETTINGS, encoding="utf-8")
    for seed, (split, count) in enumerate((("train", 300), ("val", 30), ("test", 40))):
        write_lines(folder / f"corpus/{split}.tsv", labelled_lines(count, seed))
    return Project(folder)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Trained once; no test changes it."""
    project = write_labelled_project(tmp_path_factory.mktemp("labelled"))
    with own_logging():
        assert train.main(["--config", str(project.config)]) == 0
    return project


@pytest.fixture
def untrained(tmp_path: Path) -> Project:
    return write_labelled_project(tmp_path / "project")


@pytest.fixture
def score(call: Call, labelled: Project, tmp_path: Path) -> Callable[..., Outcome]:
    """evaluate.py with the model, and a report in the folder of the test."""
    return lambda *arguments: call(
        evaluate.main, "--checkpoint", labelled.model, "--json", tmp_path / "report.json", "--device", "cpu", *arguments
    )


def test_a_label_comes_out_as_it_is(labelled: Project) -> None:
    translator = Translator.load(labelled.model, device="cpu")
    before = translator.translate(["el gato"])[0]
    target = translator.saved.target
    odd = {word: f"{word}\u2028x" for word in target.vocabulary.words}
    words = tuple(odd.values())
    translator.saved = replace(translator.saved, target=replace(target, vocabulary=Vocabulary(words)))
    assert translator.translate(["el gato"]) == [odd[before]]


def test_a_label_is_no_translation(labelled: Project) -> None:
    with pytest.raises(ConfigError, match="this model predicts labels, not translations; use n_best"):
        Translator.load(labelled.model, device="cpu").log_probabilities(["el gato"], ["salón"])


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_logged(labelled: Project) -> None:
    log = [json.loads(row) for row in read_lines(labelled.folder / "run/metrics.jsonl")]
    validations = [row for row in log if row["kind"] == "validation"]
    assert len(validations) == 6
    assert all("bleu" not in row and "chrf" not in row for row in validations)
    best = max(row["accuracy"] for row in validations)
    assert best > 0.95
    finished = json.loads((labelled.folder / "run/finished.json").read_text(encoding="utf-8"))
    assert finished["best_accuracy"] == best
    assert finished["target_tokens"] == 6 * 300  # one for each text


@pytest.mark.slow
def test_what_is_said(call: Call, untrained: Project) -> None:
    said = call(train.main, "--config", untrained.config, "training.max_epochs=1")
    assert (said.code, said.out) == (0, "")
    assert said.err.startswith("train.tsv: 300 texts, 3 labels, sha256 ")
    assert "\nval.tsv: 30 texts, 3 labels, sha256 " in said.err
    assert " parameters, vocabulary of 16 (es), 3 labels; training on cpu" in said.err
    (line,) = (line for line in said.err.split("\n") if line.startswith("epoch 1, "))
    for part in (
        ": validation perplexity ",
        ", accuracy ",
        "% of 30 texts (majority baseline ",
        "%), correct by label: ",
        "la cocina ",
    ):
        assert part in line
    assert "\n  text        " in said.err
    assert "\n  label       " in said.err
    assert "\n  reference   " in said.err


# --- labelling -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_one_label_a_line(search: str, call: Call, labelled: Project) -> None:
    texts = ["hay sopa", "", "un libro grande y verde", "coche"]
    stdin = "".join(f"{text}\n" for text in texts).encode()
    said = call(translate.main, "--checkpoint", labelled.model, "--search", search, stdin=stdin)
    assert (said.code, said.out.split("\n")) == (0, ["la cocina", "", "salón", "garaje", ""])


@pytest.mark.slow
def test_a_classifier_and_a_translator_are_no_ensemble(call: Call, labelled: Project, project: Project) -> None:
    said = call(translate.main, "--checkpoint", labelled.model, "--checkpoint", project.model, "hay sopa")
    assert said == Outcome(
        2, "", f"error: {project.model} and {labelled.model} are of two kinds: one translates, the other labels\n"
    )


def test_every_label_with_its_log_probability(call: Call, labelled: Project) -> None:
    (found,) = Translator.load(labelled.model, "cpu").n_best(["hay sopa"], 3)
    assert found[0].text == "la cocina"
    assert {label.text for label in found} == set(SIGNS)
    assert sum(math.exp(label.log_probability) for label in found) == pytest.approx(1.0, abs=1e-4)
    (drawn,) = Translator.load(labelled.model, "cpu").n_best(["hay sopa"], 9, search="sample")
    assert len(drawn) == 9  # A label may be drawn again.

    said = call(translate.main, "--checkpoint", labelled.model, "--n-best", "3", "hay sopa")
    rows = [f"1\t{label.log_probability:.4f}\t{label.text}" for label in found]
    assert (said.code, said.out.split("\n")) == (0, [*rows, ""])
    for narrow in (("--search", "greedy"), ("--beam-size", "1")):  # However many labels are asked for.
        assert call(translate.main, "--checkpoint", labelled.model, "--n-best", "3", *narrow, "hay sopa") == said


# --- scoring ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_split_is_scored_by_accuracy(score: Callable[..., Outcome], labelled: Project, tmp_path: Path) -> None:
    said = score("--split", "test")
    assert said.code == 0
    lines = [line.split("\t") for line in read_lines(labelled.corpus / "test.tsv")]
    found = read_lines(tmp_path / "report.txt")
    right = sum(label == line[0] for label, line in zip(found, lines, strict=True))
    assert right > 36
    assert said.out.startswith(
        f"accuracy           {100 * right / 40:6.2f}         {right} of 40 texts\nmajority baseline "
    )
    assert said.err.startswith("test.tsv: 40 texts, 3 labels, sha256 ")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["right"], report["texts"], report["accuracy"]) == (right, 40, right / 40)
    assert sum(count["total"] for count in report["labels"].values()) == 40
    assert report["majority_baseline"] == max(count["total"] for count in report["labels"].values()) / 40
    assert report["config"]["model"]["kind"] == "classifier"


@pytest.mark.slow
def test_other_files_and_folders_are_scored(score: Callable[..., Outcome], labelled: Project, tmp_path: Path) -> None:
    expected = score("--split", "test").out
    shutil.copy(labelled.corpus / "test.tsv", tmp_path / "mine.tsv")
    assert score("--split", "mine", "--data-root", tmp_path).out == expected
    (tmp_path / "mine").mkdir()
    shutil.copy(labelled.corpus / "test.tsv", tmp_path / "mine" / "few.tsv")
    assert score("--split", "mine/few", "--data-root", tmp_path).out == expected
    labels, texts = zip(*(line.split("\t") for line in read_lines(labelled.corpus / "test.tsv")), strict=True)
    files = write_lines(tmp_path / "texts", texts), write_lines(tmp_path / "labels", labels)
    assert score("--source", files[0], "--reference", files[1]).out == expected


@pytest.mark.slow
def test_what_cannot_be_scored(score: Callable[..., Outcome], tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.tsv", ["salón\tun libro", "jardín\tun árbol"])
    message = (
        f"{path}, line 2: the label 'jardín' does not occur in the training text, which has 'garaje', 'la cocina', "
        "'salón'. Correct it, remove the line, or train with texts of that label."
    )
    assert score("--split", "mine", "--data-root", tmp_path) == Outcome(2, "", f"error: {message}\n")
    said = score("--split", "test", "--tokenized-bleu")
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith("error: --tokenized-bleu does not apply to labels; leave it out\n")
    texts, labels = write_lines(tmp_path / "texts", ["un libro"]), write_lines(tmp_path / "labels", ["salón"])
    said = score("--source", texts, "--reference", labels, "--reference", labels)
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith("error: each text has only one label; give only one --reference\n")


# --- what is refused before anything is computed ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "line", "message"),
    [
        ("train", "el coche", "{path}, line 301 has no tab: 'el coche'. Write label, tab, text."),
        ("train", " \tel coche", "{path}, line 301 has no label. Write one, or remove the line."),
        ("val", "el coche", "{path}, line 31 has no tab: 'el coche'. Write label, tab, text."),
        (
            "val",
            "jardín\tun árbol",
            "{path}, line 31: the label 'jardín' does not occur in the training text, which has 'garaje', 'la cocina', "
            "'salón'. Correct it, remove the line, or train with texts of that label.",
        ),
    ],
)
def test_a_bad_line(split: str, line: str, message: str, call: Call, untrained: Project) -> None:
    path = untrained.corpus / f"{split}.tsv"
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    said = call(train.main, "--config", untrained.config)
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(f"error: {message.format(path=path)}\n")
    assert said.err.count("error: ") == 1


def test_a_missing_file(call: Call, untrained: Project) -> None:
    (untrained.corpus / "val.tsv").unlink()
    said = call(train.main, "--config", untrained.config)
    assert said.code == 2
    message = (
        f"No labelled split 'val' in {untrained.corpus}: looked for val.tsv, plain, .gz or .zst (or under the name "
        "valid or validation or dev). Splits there: test, train. Set data.root (--data-root) to the folder that has "
        "it. "
        "Validation selects the best model: hold out a few hundred lines of the training text for it."
    )
    assert said.err.endswith(f"error: {message}\n")


def test_the_other_kind_of_model(call: Call, untrained: Project) -> None:
    said = call(train.main, "--config", untrained.config, "model.kind=transformer", "data.valid=test")
    assert said.code == 2
    assert "data.kind: labelled is text for a classifier; set model.kind: classifier" in said.err


def test_a_long_text_is_not_to_be_cut_into_sentences(call: Call, labelled: Project) -> None:
    said = call(translate.main, "--checkpoint", labelled.model, "sopa " * 10)
    assert "line 1 has 10 tokens, but the model was trained on at most 6\n" in said.err


def test_a_text_longer_than_the_positions(call: Call, untrained: Project) -> None:
    with (untrained.corpus / "val.tsv").open("a", encoding="utf-8") as file:
        file.write(f"garaje\t{'coche ' * 40}\n")
    said = call(train.main, "--config", untrained.config, "model.positions=learned", "model.max_positions=30")
    assert said.code == 2
    assert "error: val.tsv line 31 has 41 tokens, including the end token" in said.err
