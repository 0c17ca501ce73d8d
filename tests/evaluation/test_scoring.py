"""What a saved model's translations are compared with, and how the report on them is written."""

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from saved_models import SPACING, save_model

from translate.data.corpus import TextInMemory
from translate.errors import DataError
from translate.evaluation.bleu import EvaluationReport, evaluate, tokenized_bleu
from translate.evaluation.scoring import ScoredText, score
from translate.model_file import SavedModel
from translate.system.paths import resolved
from translate.text.codec import Codec
from translate.text.words import WordTokenizer
from translate.translator import Translation, Translator

ReportOf = Callable[..., EvaluationReport]


@pytest.fixture
def report_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportOf:
    """The report on a model that cuts its target with this tokenizer and gives this one translation."""
    saved = SavedModel.load(save_model(tmp_path / "model.safetensors"))

    def report_of(
        tokenizer: WordTokenizer, translation: str, reference: str, *others: str, tokenized: bool = False
    ) -> EvaluationReport:
        translator = Translator(dataclasses.replace(saved, target=Codec(tokenizer, saved.target.vocabulary)))
        found = Translation(translation, log_probability=-1.0, score=-1.0, length=3, finished=True)
        monkeypatch.setattr(translator, "n_best_of_ids", lambda *_: [[found]])
        monkeypatch.setattr(Codec, "encode", lambda *_: [[4]])  # spaCy cannot tokenize all of these languages.
        text = TextInMemory("test", ["Hund"], [reference], source_sha256="", target_sha256="", variant="")
        references = {other: [other] for other in others}
        report = score(translator, text, translator.config.decoding, references=references, tokenized=tokenized).report
        assert isinstance(report, EvaluationReport)
        return report

    return report_of


def test_the_perplexity_is_that_of_all_references_that_have_a_probability(tmp_path: Path) -> None:
    translator = Translator.load(save_model(tmp_path / "model.safetensors"), "cpu")
    long = " ".join(["dog"] * 2000)  # longer than any translation may be
    sources, targets = ["Hund", "Ein Hund", "", "Hund"], ["a dog", "the dog", "cat", long]
    settings = translator.settings(max_ratio=1.0)
    assert np.isneginf(translator.log_probabilities(sources, targets, settings)).tolist() == [False, False, True, True]

    two = translator.log_probabilities(["Hund", "Ein Hund"], ["a dog", "the dog"])
    tokens = sum(len(ids) + 1 for ids in translator.saved.target.encode(["a dog", "the dog"]))
    text = TextInMemory("test", sources, targets, source_sha256="", target_sha256="", variant="")
    found = score(translator, text, settings)
    assert found.details["perplexity"] == pytest.approx(math.exp(-sum(two) / tokens))
    shown = f"perplexity        {found.details['perplexity']:6.2f}         of the references"
    assert found.format() == f"{found.report.format()}\n{shown}"

    nothing = TextInMemory("test", [""], ["cat"], source_sha256="", target_sha256="", variant="")
    found = score(translator, nothing, settings)
    assert found.details["perplexity"] is None
    assert found.format() == found.report.format()


def test_a_lower_casing_model_is_compared_with_references_as_they_are_written(report_of: ReportOf) -> None:
    report = report_of(WordTokenizer("en", lowercase=True), "a dog sees the cat.", "A dog sees the Cat.")
    assert report.bleu.value < report.bleu_lowercase.value == pytest.approx(100)


def test_bleu_cuts_words_or_characters_as_the_target_language_asks(report_of: ReportOf) -> None:
    report = report_of(WordTokenizer("zh"), "两只狗在玩耍。", "两只狗在草地上玩耍。")
    assert "|tok:zh|" in report.bleu.signature


def test_tokenized_bleu_is_counted_in_tokens_of_the_model(report_of: ReportOf) -> None:
    english = WordTokenizer("en", spacing=SPACING)
    pair = ("The dog sees a cat.", "A dog sees a cat.")
    report = report_of(english, *pair, tokenized=True)
    translation, reference = english.tokenize(pair)
    assert reference == ["A", "dog", "sees", "a", "cat", "."]
    assert report.tokenized_bleu == tokenized_bleu([translation], [reference]) > 0


@pytest.mark.parametrize(
    ("translation", "reference", "warned"),
    [
        ("Ein sch\u00f6ner Hund.", "Ein scho\u0308ner Hund.", True),
        ("Ein scho\u0308ner Hund.", "Ein sch\u00f6ner Hund.", True),
        ("Ein scho\u0308ner Hund.", "Ein scho\u0308ner Hund.", False),
        ("Ein sch\u00f6ner Hund.", "Ein sch\u00f6ner Hund.", False),
        ("5 Ohm", "5 \u2126", False),  # one character for another, and no marks
        ("A a a a.", "Ein scho\u0308ner Hund.", False),  # no marks yet
    ],
)
def test_references_in_another_form_of_unicode_are_warned_of(
    report_of: ReportOf, caplog: pytest.LogCaptureFixture, translation: str, reference: str, warned: bool
) -> None:
    report = report_of(WordTokenizer("de"), translation, reference)
    assert not warned or report.bleu.value < 50
    assert ("Unicode form NFD" in caplog.text) == warned


def test_further_references_in_another_form_of_unicode_are_named(
    report_of: ReportOf, caplog: pytest.LogCaptureFixture
) -> None:
    apart = "Ein scho\u0308ner Hund."
    report_of(WordTokenizer("de"), "Ein sch\u00f6ner Hund.", "Ein sch\u00f6ner Hund.", "Ein Hund.", apart)
    (message,) = caplog.messages
    assert message.startswith(
        f"{apart}: 1 references and 0 translations are in Unicode form NFD (letters and marks separate), but 0 and 1 "
        "in NFC: "
    )


@pytest.mark.parametrize(
    ("language", "reference", "warned"),
    [
        ("jp", "三人の姉妹が食堂の前で高い自転車を描いている。", True),
        ("ja", "三人の姉妹が食堂の前で高い自転車を描いている。", False),
        ("jp", "Three sisters draw a bicycle.", False),
        ("jp", "Hund.", False),
    ],
)
def test_text_without_spaces_under_an_unknown_code_is_warned_of(
    report_of: ReportOf, caplog: pytest.LogCaptureFixture, language: str, reference: str, warned: bool
) -> None:
    report_of(WordTokenizer(language), reference, reference)
    assert (f"'{language}' is not a known code" in caplog.text) == warned


def test_sound_text_is_not_warned_of(report_of: ReportOf, caplog: pytest.LogCaptureFixture) -> None:
    report_of(WordTokenizer("en"), "A dog.", "A dog.")
    assert caplog.messages == []


def test_a_report_names_the_file_of_its_model_as_it_is_called_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that replaces the model recognizes by it the reports that it removes."""
    monkeypatch.chdir(tmp_path)
    path = save_model(Path("model.safetensors"))
    Path("link").symlink_to(path)
    translator = Translator.load(path, "cpu")
    text = TextInMemory("test", ["Hund"], ["dog"], source_sha256="", target_sha256="", variant="")
    details = score(translator, text, translator.config.decoding, checkpoints=[path, Path("link")]).details
    assert details["checkpoints"] == [str(resolved(tmp_path) / "model.safetensors")] * 2


def test_a_report_names_each_model_of_an_ensemble_and_its_seed(tmp_path: Path) -> None:
    saved = SavedModel.load(save_model(tmp_path / "model.safetensors"))
    models = [
        dataclasses.replace(saved, about={"number": seed}, config=saved.config.model_copy(update={"seed": seed}))
        for seed in (7, 8)
    ]
    text = TextInMemory("test", ["Hund"], ["dog"], source_sha256="", target_sha256="", variant="")
    details = score(Translator(*models), text, saved.config.decoding).details
    assert (details["model"], details["ensemble_with"]) == ({"number": 7}, [{"number": 8}])
    assert details["seeds"] == [7, 8]


def test_speed_is_counted_in_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.load(save_model(tmp_path / "model.safetensors"), "cpu")
    text = TextInMemory("test", ["Hund"] * 6, ["dog"] * 6, source_sha256="", target_sha256="", variant="")
    monkeypatch.setattr("translate.evaluation.scoring.time", Mock(perf_counter=Mock(side_effect=[10.0, 14.0])))
    details = score(translator, text, translator.config.decoding).details
    assert (details["seconds"], details["sentences_per_second"]) == (4.0, 1.5)


def test_a_report_holds_names_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    translation = Translation("il gatto", log_probability=-1.0, score=-1.0, length=3, finished=True)
    ScoredText([translation], evaluate(["il gatto"], ["il gatto"]), {"text": "grün", "odd": "\udce9"}).write(path)
    written = path.read_text(encoding="utf-8")
    assert '\n  "text": "grün",\n' in written  # one entry a line
    assert r'"odd": "\udce9"' in written
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == "il gatto\n"


def test_missing_folders_of_a_report_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "report.json"
    translation = Translation("il gatto", log_probability=-1.0, score=-1.0, length=3, finished=True)
    ScoredText([translation], evaluate(["il gatto"], ["il gatto"]), {}).write(path)
    assert {file.name for file in path.parent.iterdir()} == {"report.json", "report.txt"}


def test_where_the_disk_fills_up_the_old_report_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The translations are written first: no report speaks of other ones than lie beside it."""
    path = tmp_path / "report.json"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(
        "translate.system.files.os.fsync", Mock(side_effect=[None, OSError(28, "No space left on device")])
    )
    translation = Translation("il gatto", log_probability=-1.0, score=-1.0, length=3, finished=True)
    with pytest.raises(DataError, match=r"cannot write .*report\.json: No space left on device"):
        ScoredText([translation], evaluate(["il gatto"], ["il gatto"]), {}).write(path)
    assert path.read_text(encoding="utf-8") == "old"
