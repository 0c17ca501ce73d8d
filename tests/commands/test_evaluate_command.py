"""evaluate.py: what is scored, what the report holds, and what is refused."""

import dataclasses
import errno
import gzip
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tiny_project import Call, Outcome, Project, write_lines

from translate.commands.evaluate import main, warn_of_text
from translate.commands.train import main as train
from translate.data.corpus import TextInMemory
from translate.data.lines import read_lines
from translate.evaluation import bleu, scoring
from translate.model_file import SavedModel
from translate.system import terminal
from translate.system.files import atomic_write
from translate.system.paths import project_root
from translate.text import words
from translate.translator import Translator


@pytest.fixture
def run(call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """The command with the tiny model, and a report in the folder of the test."""
    monkeypatch.setattr(bleu, "RESAMPLES", 20)  # A thousand take most of the time.
    return lambda *arguments: call(
        main, "--checkpoint", project.model, "--json", tmp_path / "report.json", "--device", "cpu", *arguments
    )


def refused(said: Outcome, message: str) -> None:
    assert said == Outcome(2, "", f"error: {message}\n")


def test_long_scoring_is_not_silent(run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*inputs: Any, **options: Any) -> Any:
        time.sleep(0.05)
        return score(*inputs, **options)

    score = scoring.score
    monkeypatch.setattr(scoring, "score", slowly)
    monkeypatch.setattr(terminal, "TELL_EVERY", 0.01)
    assert "\ntest: scoring: 0 s so far\n" in run("--split", "test").err


# --- what is scored --------------------------------------------------------------------------------------------------


def test_a_split(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    said = run("--split", "test")
    assert said.code == 0
    names = [line[:18].strip() for line in said.out.split("\n")]
    assert names == ["BLEU", "BLEU, lower-cased", "chrF", "length ratio", "sentences", "perplexity", ""]
    first, *others = said.err.split("\n")
    assert first.startswith("test: 20 pairs, sha256 ")
    assert first.endswith("; beam search, beam size 3, length penalty 1")
    assert others[-2].endswith(f" sentences/s; report: {tmp_path}/report.json")

    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert said.out.startswith(f"BLEU              {report['bleu']['value']:6.2f} ± {report['bleu']['interval']:.2f} ")
    for name, part in (("bleu", "case:mixed"), ("bleu_lowercase", "case:lc")):
        assert report[name]["interval"] > 0
        assert part in report[name]["signature"]
        assert "tok:13a" in report[name]["signature"]
    assert "|nc:6|" in report["chrf"]["signature"]
    assert report["sentences"] == 20
    assert report["tokenized_bleu"] is None
    assert report["text"] == "test"
    assert report["variant"].startswith("sha256 ")
    assert report["seconds"] > 0
    assert report["sentences_per_second"] > 0
    assert report["device"] == "cpu"
    assert isinstance(report["commit"], str | None)
    assert report["decoding"]["search"] == "beam"
    assert report["config"]["data"]["source"] == "es"
    assert report["model"]["validation"]["step"] > 0

    sources = read_lines(project.corpus / "test.es")
    translations = read_lines(tmp_path / "report.txt")
    assert translations == Translator.load(project.model, "cpu").translate(sources)
    settings = Translator.load(project.model, "cpu").n_best(sources, 1)
    assert report["truncated"] == sum(not best.finished for (best,) in settings)


def test_the_perplexity_is_that_of_validation(run: Callable[..., Outcome], tmp_path: Path) -> None:
    assert run("--split", "val", "--search", "greedy").code == 0
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["perplexity"] == pytest.approx(math.exp(report["model"]["validation"]["nll"]))


def test_the_default_is_the_test_split(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    assert run("--search", "greedy").err.startswith("test: 20 pairs, sha256 ")
    (tmp_path / "elsewhere").mkdir()
    write_lines(tmp_path / "elsewhere" / "test.es", ["el gato", "dos gatos"])
    write_lines(tmp_path / "elsewhere" / "test.it", ["il gatto", "due gatti"])
    assert run("--search", "greedy", "--data-root", tmp_path / "elsewhere").err.startswith("test: 2 pairs, sha256 ")


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_training_text(split: str, run: Callable[..., Outcome]) -> None:
    said = run("--split", split, "--search", "greedy")
    assert said.code == 0
    message = f"{split} is text that the model was trained on: its scores say nothing about unseen text\n"
    assert (message in said.err) == (split == "train")


def test_sources_as_references(run: Callable[..., Outcome], project: Project) -> None:
    text = project.corpus / "test.es"
    said = run("--source", text, "--reference", text)
    assert f"{text.name} / {text.name}: source and target are the same text: there is nothing to" in said.err


@pytest.mark.parametrize("misaligned", ["neither", "first", "second"])
def test_misaligned_references(misaligned: str, run: Callable[..., Outcome], tmp_path: Path) -> None:
    counts = [1 + 7 * n % 20 for n in range(120)]
    files = {name: [*counts[1:], 1] if name == misaligned else counts for name in ("source", "first", "second")}
    source, *both = (write_lines(tmp_path / name, ["gatto " * n for n in files[name]]) for name in files)
    said = run("--source", source, "--reference", both[0], "--reference", both[1], "--search", "greedy")
    assert said.code == 0
    assert said.err.count("source and target lengths are not correlated") == (misaligned != "neither")


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("languages", ["de-zh", "ja-en"])
def test_misaligned_lines_in_a_language_without_spaces(
    languages: str, shifted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = (
        ["猫" * n if language in ("zh", "ja") else "cat " * n for n in (1 + 7 * line % 20 for line in range(120))]
        for language in languages.split("-")
    )
    text = TextInMemory("val", source, [*target[shifted:], *target[:shifted]], "1", "2", "")
    codecs = [SimpleNamespace(language=language) for language in languages.split("-")]
    saved = SimpleNamespace(about={}, source=codecs[0], target=codecs[1])
    warn_of_text(text, [], cast(Any, SimpleNamespace(saved=saved, others=[], predicts_labels=False)))
    assert ("source and target lengths are not correlated" in caplog.text) == shifted


def test_the_search_can_be_chosen(run: Callable[..., Outcome], tmp_path: Path) -> None:
    assert "; greedy search\n" in run("--split", "val", "--search", "greedy").err
    assert (
        "; beam search, beam size 2, length penalty 0.5\n"
        in run("--split", "val", "--beam-size", "2", "--length-penalty", "0.5").err
    )
    decoding = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["decoding"]
    assert (decoding["beam_size"], decoding["length_penalty"]) == (2, 0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--temperature", "0.5"), "; sampling, temperature 0.5, seed 1\n"),
        (("--top-k", "3", "--seed", "2"), "; sampling from the 3 most probable tokens, temperature 1, seed 2\n"),
    ],
)
def test_how_is_sampled_is_said(options: tuple[str, ...], said: str, run: Callable[..., Outcome]) -> None:
    assert said in run("--split", "val", "--search", "sample", *options).err


def test_all_that_is_asked_of_the_search_is_in_the_report(run: Callable[..., Outcome], tmp_path: Path) -> None:
    asked = {"search": "beam", "beam_size": 2, "length_penalty": 0.5}
    asked |= {"batch_tokens": 41, "max_source": 30, "max_ratio": 1.5}
    options = [part for name, value in asked.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert run("--split", "test", *options).code == 0
    decoding = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["decoding"]
    assert asked.items() <= decoding.items()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files(ending: str, run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    files = []
    for name in ("test.es", "test.it"):
        content = (project.corpus / name).read_bytes()
        files.append(tmp_path / f"mine-{name}{ending}")
        files[-1].write_bytes(gzip.compress(content) if ending else content)
    said = run("--source", files[0], "--reference", files[1])
    assert said.code == 0
    assert said.err.startswith(f"mine-test.es{ending} / mine-test.it{ending}: 20 pairs, ")
    assert said.out == run("--split", "test").out


def test_the_bleu_of_tutorials_is_labelled(run: Callable[..., Outcome], tmp_path: Path) -> None:
    said = run("--split", "test", "--tokenized-bleu")
    (line,) = (line for line in said.out.split("\n") if line.startswith("tokenized BLEU"))
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert line == f"tokenized BLEU    {report['tokenized_bleu']:6.2f}         (torchtext), not comparable"


def test_models_that_translate_together_are_all_in_the_report(
    run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    assert run("--checkpoint", project.model, "--split", "val", "--search", "greedy").code == 0
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["ensemble_with"] == [report["model"]]
    assert report["checkpoints"] == [str(project.model)] * 2
    assert report["seeds"] == [1, 1]


def test_a_report_on_something_else_is_not_replaced_without_a_word(
    run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    said = run("--split", "val", "--search", "greedy")
    for arguments, another in (
        (("--split", "val", "--search", "greedy"), None),
        (("--split", "test", "--search", "greedy"), "another text"),
        (("--split", "test", "--checkpoint", project.model), "other search settings and another model"),
        (("--split", "test", "--checkpoint", project.model, "--batch-tokens", "50"), None),
    ):
        said = run(*arguments)
        assert said.code == 0
        warning = f"overwriting {tmp_path}/report.json, a report for {another}; to keep both, use --json FILE.json\n"
        assert (warning in said.err) if another else ("overwriting" not in said.err)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    del report["decoding"]["top_k"], report["further_references"]  # as before there were such
    for split, overwriting in (("test", False), ("val", True)):
        (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
        assert ("overwriting" in run("--split", split, *arguments[2:]).err) == overwriting
    (tmp_path / "report.json").write_text("[]", encoding="utf-8")
    assert "overwriting" not in run("--split", "test").err


@pytest.mark.parametrize("rest", [{}, {"variant": "", "ensemble_with": 5}])
def test_a_report_that_says_too_little_is_replaced(
    rest: dict[str, Any], run: Callable[..., Outcome], tmp_path: Path
) -> None:
    report = {"model": {}, "decoding": {}, "sentences_per_second": 1.0, **rest}
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    said = run("--split", "val", "--search", "greedy")
    assert said.code == 0
    assert "overwriting" not in said.err


def test_a_report_on_other_references_is_not_replaced_without_a_word(
    run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    other = shutil.copy(project.corpus / "test.it", tmp_path / "other.it")
    one = ("--source", project.corpus / "test.es", "--reference", project.corpus / "test.it", "--search", "greedy")
    for arguments, replaced in ((one, False), ((*one, "--reference", other), True), (one, True), (one, False)):
        said = run(*arguments)
        assert said.code == 0
        assert ("report.json, a report for another text; " in said.err) == ("overwriting" in said.err) == replaced


def test_another_folder(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    for language in ("es", "it"):
        shutil.copy(project.corpus / f"test.{language}", tmp_path / f"held-out.{language}")
    said = run("--split", "held-out", "--data-root", tmp_path)
    assert said.code == 0
    assert said.out == run("--split", "test").out


def test_translations_that_were_cut_off_are_counted(
    run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    long = [" ".join(["gato"] * 60)]
    source = write_lines(tmp_path / "in", read_lines(project.corpus / "test.es") + long)
    reference = write_lines(tmp_path / "out", read_lines(project.corpus / "test.it") + long)
    said = run("--source", source, "--reference", reference, "--search", "greedy")
    truncated = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["truncated"]
    assert truncated > 0
    assert (
        f"\n{truncated} of 21 translations truncated at the length limit; if they repeat themselves, train longer "
        "or try --search beam, otherwise raise it with --max-ratio\n"
    ) in said.err


def test_the_newest_run_is_scored_and_the_report_lies_beside_it(
    call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    run = shutil.copytree(project.model.parent, tmp_path / "checkpoints" / "newest")
    said = call(main, "--split", "test")
    assert said.err.startswith(f"model: {run}/model.safetensors\ntest: 20 pairs")
    assert json.loads((run / "test.json").read_text(encoding="utf-8"))["sentences"] == 20
    assert len(read_lines(run / "test.txt")) == 20


def test_the_report_on_a_split_in_a_folder_lies_beside_the_model_too(
    call: Call, project: Project, tmp_path: Path
) -> None:
    model = shutil.copy(project.model, tmp_path)
    shutil.copytree(project.corpus, tmp_path / "corpora/tiny")
    said = call(main, "--checkpoint", model, "--data-root", tmp_path / "corpora", "--split", "tiny/test")
    assert said.code == 0
    assert {path.name for path in tmp_path.glob("*test*")} == {"tiny-test.json", "tiny-test.txt"}


# --- without the cache, or with the cache alone ----------------------------------------------------------------------


def test_a_model_whose_cache_cannot_be(call: Call, project: Project, tmp_path: Path) -> None:
    saved = SavedModel.load(project.model)
    blocked = write_lines(tmp_path / "file", []) / "cache"
    data = saved.config.data.model_copy(update={"cache": blocked})
    moved = dataclasses.replace(saved, config=saved.config.model_copy(update={"data": data}))
    moved.save(tmp_path / "moved.safetensors")
    said = call(main, "--checkpoint", tmp_path / "moved.safetensors", "--split", "test")
    assert said.code == 0
    assert "damaged" not in said.err
    assert len(read_lines(tmp_path / "test.txt")) == 20


def test_cached_text_needs_no_tokenizer(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("spacy", "torchtext"):
        monkeypatch.setitem(sys.modules, module, None)
    words._spacy_tokenizer.cache_clear()
    assert run("--split", "test").code == 0
    other = write_lines(tmp_path / "in", ["el gato"])
    said = run("--source", other, "--reference", other)
    assert said.code == 2
    assert "error: splitting text into words needs spaCy, but the module 'spacy' is not installed" in said.err


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ("--split", "test", "--source", "a", "--reference", "b"),
        ("--split", "test", "--reference", "b"),
        ("--source", "a"),
        ("--reference", "b"),
    ],
)
def test_neither_or_both(options: tuple[str, ...], run: Callable[..., Outcome]) -> None:
    refused(run(*options), "give either --split NAME, or both --source FILE and --reference FILE")


def test_files_of_the_other_direction(run: Callable[..., Outcome], project: Project) -> None:
    source, reference = project.corpus / "test.it", project.corpus / "test.es"
    refused(
        run("--source", source, "--reference", reference),
        f"the model translates from 'es' to 'it', but the source is {source}, and the reference {reference}; swap the "
        "two files",
    )


def test_a_folder_of_splits_is_of_no_use_to_files(run: Callable[..., Outcome]) -> None:
    refused(
        run("--source", "a", "--reference", "b", "--data-root", "c"),
        "--data-root applies only to --split; leave it out with --source and --reference",
    )


@pytest.mark.parametrize("option", ["--split", "--source", "--data-root", "--json"])
def test_one_text_is_scored(option: str, run: Callable[..., Outcome]) -> None:
    said = run(option, "a", option, "b")
    assert said.code == 2
    assert f"{option} is given twice; leave one out" in said.err


def test_several_references(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    source, reference = project.corpus / "test.es", project.corpus / "test.it"
    one = run("--source", source, "--reference", reference)
    perfect = write_lines(tmp_path / "perfect", [*read_lines(tmp_path / "report.txt"), "", " "])
    both = run("--source", source, "--reference", reference, "--reference", perfect)
    assert one.code == both.code == 0
    assert both.out.count(" nrefs:2|") == 3
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["bleu"]["value"], report["chrf"]["value"]) == (pytest.approx(100), pytest.approx(100))
    said = run("--source", source, "--reference", reference, "--reference", perfect, "--tokenized-bleu")
    message = "error: --tokenized-bleu compares with one reference: give only one --reference, or leave it out\n"
    assert (said.code, said.err.endswith(message), "overwriting" in said.err) == (2, True, False)
    short = write_lines(tmp_path / "short", ["il gatto"])
    said = run("--source", source, "--reference", reference, "--reference", short)
    assert said.err.endswith(
        f"error: {short} has 1 lines, but test.es / test.it has 20; they must have the same number. They seem to "
        "diverge near line 2:\n  source: 'come verde también verde'\n  target: (no more lines)\n"
    )
    assert said.code == 2


@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        ("source", 0, "further: the reference is the same text as the source, so what is not translated scores, too\n"),
        ("blank", 2, "further has no text. It needs one sentence per line.\n"),
        ("tokenized", 0, "…: 20 of 20 references look tokenized (a space before the period, "),
    ],
)
def test_further_references_are_checked_like_the_first(
    lines: str, code: int, message: str, run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    source, reference = project.corpus / "test.es", project.corpus / "test.it"
    text = {
        "source": read_lines(source),
        "blank": [" "] * 20,
        "tokenized": ["Il gatto dorme ."] * 20,
    }
    further = write_lines(tmp_path / "further", text[lines])
    said = run("--source", source, "--reference", reference, "--reference", further)
    assert (said.code, said.err.count(message)) == (code, 1), said.err


def test_translations_have_a_line_for_each_of_the_reference_file(
    run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    names = ("test.es", "test.it")
    source, reference = (write_lines(tmp_path / name, [*read_lines(project.corpus / name), "", ""]) for name in names)
    said = run("--source", source, "--reference", reference)
    assert said.code == 0
    translations = (tmp_path / "report.txt").read_text(encoding="utf-8").split("\n")
    assert len(translations) == len(reference.read_text(encoding="utf-8").split("\n"))
    assert translations[-3:] == ["", "", ""]
    assert translations[-4]


def test_sources_are_judged_once(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "source", ["El gato duerme ."] * 20)
    reference = project.corpus / "test.it"
    further = shutil.copy(reference, tmp_path / "further")
    said = run("--source", source, "--reference", reference, "--reference", further, "--search", "greedy")
    assert said.code == 0
    assert said.err.count("20 of 20 sources look tokenized ") == 1


def test_the_same_reference_twice(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project.corpus / "test.it")
    one = ("--source", project.corpus / "test.es", "--reference", project.corpus / "test.it")
    for again in (project.corpus / "test.it", tmp_path / "link"):
        said = run(*one, "--reference", again)
        assert (said.code, said.err) == (2, f"error: --reference {again} is given twice; leave one out\n")


def test_translations_that_belong_to_no_report_are_not_replaced(call: Call, project: Project, tmp_path: Path) -> None:
    notes = write_lines(tmp_path / "results.txt", ["my notes"])
    arguments = ("--checkpoint", project.model, "--split", "test", "--json", tmp_path / "results.json")
    message = f"the translations would overwrite {notes}, which belongs to no report; name another file: --json FILE"
    refused(call(main, *arguments), message)
    assert read_lines(notes) == ["my notes"]
    notes.unlink()
    for _ in range(2):  # Those of the time before are.
        assert call(main, *arguments).code == 0


def test_links_stay_what_they_are(call: Call, project: Project, tmp_path: Path) -> None:
    targets = {"link.json": "one.json", "link.txt": "other.txt"}
    for name, target in targets.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    arguments = ("--checkpoint", project.model, "--split", "test", "--json", tmp_path / "link.json")
    assert call(main, *arguments).code == 0
    for name, target in targets.items():
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).stat().st_size > 0


def test_a_link_to_a_file_in_a_new_folder(call: Call, project: Project, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "new/folder/one.json")
    said = call(main, "--checkpoint", project.model, "--split", "test", "--json", tmp_path / "link.json")
    assert said.code == 0
    assert (tmp_path / "new/folder/one.json").stat().st_size > 0
    assert (tmp_path / "link.txt").is_file()


def test_a_report_that_is_a_link_to_itself_is_noticed_before_anything_is_translated(
    call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.translator.Translator.load", None)
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    refused(
        call(main, "--checkpoint", project.model, "--split", "test", "--json", loop),
        f"cannot write {loop}: Too many levels of symbolic links; name another file: --json FILE",
    )


def test_a_file_that_is_no_report_is_not_replaced(call: Call, project: Project, tmp_path: Path) -> None:
    own = write_lines(tmp_path / "own.json", ['{"precious": 1}'])
    said = call(main, "--checkpoint", project.model, "--split", "test", "--json", own)
    refused(said, f"{own} is not a report and would be overwritten; name another file: --json FILE")
    assert read_lines(own) == ['{"precious": 1}']


def test_links_that_lead_nowhere(run: Callable[..., Outcome], project: Project, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for source, reference in ((loop, project.corpus / "test.it"), (project.corpus / "test.es", loop)):
        said = run("--source", source, "--reference", reference)
        assert said.code == 2
        assert said.err.endswith("cannot be read: Too many levels of symbolic links.\n")


@pytest.fixture
def of_files(call: Call, untrained: Project) -> Path:
    """A model whose training and validation text are files by name."""
    files = [
        f"data.{key}={{source: {untrained.corpus}/{split}.es, target: {untrained.corpus}/{split}.it}}"
        for key, split in (("train", "train"), ("valid", "test"))
    ]
    assert call(train, "--config", untrained.config, "training.max_steps=1", *files).code == 0
    return untrained.model


def test_validation_text_in_files_is_meant_by_its_name(call: Call, of_files: Path, tmp_path: Path) -> None:
    said = call(main, "--checkpoint", of_files, "--split", "valid", "--json", tmp_path / "report.json")
    assert said.err.startswith("test.es / test.it: 20 pairs")


def test_without_a_folder_the_demo_corpus_is_not_meant(call: Call, of_files: Path, tmp_path: Path) -> None:
    model = SavedModel.load(of_files)
    data = model.config.data.model_copy(update={"root": project_root() / "data"})  # as if none had been named
    config = model.config.model_copy(update={"data": data})
    dataclasses.replace(model, config=config).save(tmp_path / "model.safetensors")
    said = call(main, "--checkpoint", tmp_path / "model.safetensors", "--split", "test")
    refused(
        said,
        "the text of this model was named file by file, so there is no folder with splits; give --data-root, or "
        "--source and --reference",
    )


def test_in_a_folder_that_is_named_splits_are_found_by_their_names(
    call: Call, of_files: Path, untrained: Project, tmp_path: Path
) -> None:
    where = "--data-root", untrained.corpus, "--json", tmp_path / "report.json"
    assert call(main, "--checkpoint", of_files, "--split", "val", *where).err.startswith("val: 20 pairs")


def test_a_report_that_cannot_be_written(
    call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        if path.suffix == ".json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        atomic_write(path, content)

    monkeypatch.setattr("translate.evaluation.scoring.atomic_write", full)
    arguments = ("--checkpoint", project.model, "--split", "test", "--json")
    refused(
        call(main, *arguments, tmp_path),
        f"cannot write a report to {tmp_path}, which is not a regular file; name another: --json FILE",
    )
    said = call(main, *arguments, tmp_path / "report.json")
    assert said.code == 2
    assert said.out.startswith("BLEU ")  # The scores are not lost.
    assert (
        f"error: cannot write {tmp_path}/report.json: No space left on device; free some space, or name another file "
        "with --json\n"
    ) in said.err
    monkeypatch.undo()
    assert call(main, *arguments, tmp_path / "report.json").code == 0  # Nothing is in the way of another attempt.


def test_a_report_does_not_replace_the_text_of_a_split(call: Call, untrained: Project, project: Project) -> None:
    text = untrained.corpus / "test.es"
    before = text.read_bytes()
    arguments = ("--checkpoint", project.model, "--data-root", untrained.corpus, "--split", "test", "--json", text)
    message = f"the report {text} needs a name that ends in .json: --json FILE"
    refused(call(main, *arguments), message)
    assert text.read_bytes() == before


def test_no_such_split_and_no_such_name(call: Call, project: Project) -> None:
    for split in ("", "../test"):
        said = call(main, "--checkpoint", project.model, "--split", split)
        assert said.code == 2
        assert f"error: No split {split!r} in {project.corpus}: " in said.err


@pytest.mark.parametrize("name", ["in.json", "out.json", "report.txt", "model.json"])
def test_a_report_replaces_nothing_that_is_read(name: str, call: Call, project: Project, tmp_path: Path) -> None:
    model = shutil.copy(project.model, tmp_path / "model.txt")
    source = write_lines(tmp_path / "in.txt", ["el gato"])
    reference = write_lines(tmp_path / "out.txt", ["il gatto"])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    report = tmp_path / name
    refused(
        call(main, "--checkpoint", model, "--source", source, "--reference", reference, "--json", report),
        f"the report {report} and its translations {report.stem}.txt would overwrite each other or an input file; "
        "name another file: --json FILE",
    )
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_translations_that_are_a_link_to_what_is_read_replace_nothing(
    run: Callable[..., Outcome], project: Project, tmp_path: Path
) -> None:
    """Though the report is an earlier one, and may be replaced."""
    source, reference = (shutil.copy(project.corpus / name, tmp_path / name) for name in ("test.es", "test.it"))
    arguments = ("--source", source, "--reference", reference, "--search", "greedy")
    assert run(*arguments).code == 0
    translations = tmp_path / "report.txt"
    translations.unlink()
    translations.symlink_to(source)
    before = source.read_bytes()
    refused(
        run(*arguments),
        f"the report {tmp_path}/report.json and its translations report.txt would overwrite each other or an input "
        "file; name another file: --json FILE",
    )
    assert source.read_bytes() == before


def test_a_working_directory_that_may_not_be_entered(
    call: Call, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.commands.evaluate.exists", lambda path: path.is_absolute() and path.exists())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refused(
        call(main, "--checkpoint", project.model, "--split", "test", "--json", "new/report.json"),
        f"cannot write a report to {Path.cwd()}; name another file: --json FILE",
    )


def test_a_folder_that_no_report_can_be_written_to_is_noticed_before_anything_is_translated(
    call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # as of another user
    monkeypatch.setattr("translate.translator.Translator.load", None)
    file = project.model.with_name("config.yaml")
    for report, at in ((tmp_path / "new/folder/report.json", tmp_path), (file / "report.json", file)):
        refused(
            call(main, "--checkpoint", project.model, "--split", "test", "--json", report),
            f"cannot write a report to {at}; name another file: --json FILE",
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [f"{'x' * 251}.json", f"{'x' * 256}/report.json"])
def test_a_report_whose_name_is_too_long_is_noticed_before_anything_is_translated(
    name: str, call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("translate.translator.Translator.load", None)
    report = tmp_path / name
    refused(
        call(main, "--checkpoint", project.model, "--split", "test", "--json", report),
        f"cannot write {report}: File name too long; name another file: --json FILE",
    )
    source = write_lines(tmp_path / ("x" * 251), ["el gato"])
    report = project.model.with_name(f"{source.name}.json")  # the default
    refused(
        call(main, "--checkpoint", project.model, "--source", source, "--reference", source),
        f"cannot write {report}: File name too long; name another file: --json FILE",
    )


@pytest.mark.parametrize("trained_on", [{"train": "this"}, {"train": "2 corpora", "train_parts": ["another", "this"]}])
def test_text_that_any_model_of_several_was_trained_on_is_named(
    trained_on: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    models: list[Any] = [SimpleNamespace(about=about) for about in ({"train": "other"}, trained_on)]
    translator = cast(Any, SimpleNamespace(saved=models[0], others=models[1:], predicts_labels=True))
    warn_of_text(TextInMemory("val", ["a"], ["b"], "1", "2", "this"), [], translator)
    assert caplog.messages == ["val is text that the model was trained on: its scores say nothing about unseen text"]
