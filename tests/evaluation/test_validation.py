"""Validation: the loss of the references, and the scores of greedy translations, by hand or beside the translator's."""

import copy
import math
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from saved_models import ENGLISH, GERMAN, save_model

from translate.config.decoding import DecodingConfig
from translate.config.text import TextConfig
from translate.config.training import BatchConfig
from translate.data.corpus import TextInMemory
from translate.data.dataset import Dataset, EncodedText
from translate.evaluation.bleu import corpus_bleu, corpus_chrf
from translate.evaluation.validation import TranslationValidator
from translate.system.threads import no_check
from translate.text.build import build_codecs
from translate.text.codec import Codec
from translate.text.vocabulary import EOS, Vocabulary
from translate.text.words import WordTokenizer
from translate.translator import Translator

LINES = ["ein Hund bellt.", "Katze", "ein Hund schläft, ein Hund bellt."] * 4
REFERENCES = ["a dog barks.", "cat", "a dog sleeps, a dog barks."] * 4


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(save_model(tmp_path_factory.mktemp("model") / "model.safetensors"), "cpu")


def validator(
    target: Codec = ENGLISH,
    references: list[str] = REFERENCES,
    decoding: DecodingConfig | None = None,
    batch: BatchConfig | None = None,
    check: Callable[[], None] = no_check,
) -> TranslationValidator:
    """One that gives all translations as samples."""
    sides = EncodedText.of(GERMAN.encode(LINES)), EncodedText.of(target.encode(references))
    dataset = Dataset(*sides)
    text = TextInMemory("val", LINES, references, source_sha256="", target_sha256="", variant="")
    return TranslationValidator(
        text=text,
        dataset=dataset,
        target=target,
        decoding=decoding or DecodingConfig(),
        samples=len(LINES),
        batch=batch or BatchConfig(),
        check=check,
    )


def test_the_loss_is_a_mean_over_tokens_with_the_ends(translator: Translator) -> None:
    found = validator()(translator.model)
    tokens = sum(len(ids) + 1 for ids in ENGLISH.encode(REFERENCES))
    assert found.nll == pytest.approx(-sum(translator.log_probabilities(LINES, REFERENCES)) / tokens, rel=1e-5)


def test_the_accuracy_is_the_share_of_tokens_that_come_first(translator: Translator) -> None:
    model = copy.deepcopy(translator.model)
    ((dog,),) = ENGLISH.encode(["dog"])
    with torch.no_grad():
        model.projection.bias[dog] += 1e4  # the only token it ever says
    tokens = [token for line in ENGLISH.encode(REFERENCES) for token in [*line, EOS]]
    accuracy = validator()(model).accuracy
    assert accuracy == pytest.approx(tokens.count(dog) / len(tokens))
    assert 0 < accuracy < 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_has_diverged_is_called_so(value: float, translator: Translator) -> None:
    model = copy.deepcopy(translator.model)
    with torch.no_grad():
        model.projection.bias.fill_(value)
    found = validator()(model)
    assert not math.isfinite(found.nll)
    assert found.warning is not None
    assert found.warning.startswith("the loss is infinite or NaN: the model has diverged")


def test_samples_are_spread_over_the_text() -> None:
    whole = validator()
    settings: Any = {"decoding": whole.decoding, "batch": BatchConfig(), "check": no_check}
    few = TranslationValidator(text=whole.text, dataset=whole.dataset, target=whole.target, samples=3, **settings)
    assert few.shown == [0, 4, 8]


def test_no_sample_is_shown_twice() -> None:
    whole = validator()
    dataset = Dataset(EncodedText.of([[4], [5]]), EncodedText.of([[4], [5]]))
    text = replace(whole.text, source=["a", "b"], target=["a", "b"])
    settings: Any = {"decoding": whole.decoding, "batch": BatchConfig(), "check": no_check}
    few = TranslationValidator(text=text, dataset=dataset, target=whole.target, samples=3, **settings)
    assert few.shown == [0, 1]


@pytest.mark.parametrize(("batch", "most"), [({"max_tokens": 20}, 4), ({"max_sentences": 3}, 3), ({}, len(LINES))])
def test_batches_are_no_larger_than_those_of_training(
    batch: dict[str, int], most: int, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    forward = translator.model.forward

    def spy(source_BS: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
        rows.append(len(source_BS))
        return forward(source_BS, *arguments)

    monkeypatch.setattr(translator.model, "forward", spy)
    found = validator(batch=BatchConfig.model_validate(batch))(translator.model)
    assert min(rows) <= max(rows) == most
    assert sum(rows) == len(LINES)
    monkeypatch.undo()
    assert found.nll == pytest.approx(validator()(translator.model).nll, rel=1e-5)


def test_it_may_be_stopped_before_each_batch_of_references_and_of_translations(translator: Translator) -> None:
    def checks(**sizes: Any) -> int:
        found: list[None] = []
        validator(**sizes, check=lambda: found.append(None))(translator.model)
        return len(found)

    usual = checks()
    assert checks(batch=BatchConfig(max_sentences=1)) >= usual + len(LINES) - 1
    assert checks(decoding=DecodingConfig(batch_tokens=1)) >= usual + len(LINES) - 1


def test_translations_are_found_greedily_whatever_the_settings_say(translator: Translator) -> None:
    settings = translator.settings(search="beam", beam_size=8)
    found = validator(decoding=settings)(translator.model)
    greedy = translator.translate(LINES, search="greedy")
    assert greedy != [best[0].text for best in translator.n_best(LINES, 1, settings)]
    assert [sample["translation"] for sample in found.samples] == greedy


def test_translations_are_found_in_batches_that_fit_into_memory(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = validator()
    expected = whole(translator.model)
    start = translator.model.start

    def limited(source_BS: torch.Tensor, *others: torch.Tensor) -> Any:
        if len(source_BS) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return start(source_BS, *others)

    monkeypatch.setattr(translator.model, "start", limited)
    for _ in range(2):  # The second one begins with what fits.
        found = whole(translator.model)
        assert (found.summary, found.samples) == (expected.summary, expected.samples)
    assert caplog.messages[-1] == "out of memory: from now on batches have at most 16 tokens"
    assert len(caplog.messages) == 8


def test_references_are_scored_in_batches_that_fit_into_memory(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = validator()
    expected = whole(translator.model)
    forward = translator.model.forward

    def limited(source_BS: torch.Tensor, *others: Any) -> torch.Tensor:
        if source_BS.numel() > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(source_BS, *others)

    monkeypatch.setattr(translator.model, "forward", limited)
    for _ in range(2):  # The second one begins with what fits.
        found = whole(translator.model)
        assert found.nll == pytest.approx(expected.nll, rel=1e-5)
        assert (found.accuracy, found.samples) == (expected.accuracy, expected.samples)
    halves = [BatchConfig().max_tokens // 2**times for times in range(1, 12)]
    assert caplog.messages == [
        f"out of memory: from now on batches have at most {tokens} tokens" for tokens in halves if tokens > 9
    ]


def test_translations_that_were_cut_off_are_counted(translator: Translator) -> None:
    whole = validator()(translator.model)
    cut = validator(decoding=DecodingConfig(max_ratio=0.01, max_extra=0))(translator.model)
    assert cut.truncated == len(LINES)
    assert cut.summary.endswith(f", {len(LINES)} of {len(LINES)} truncated at the length limit")
    assert (whole.truncated == 0) == ("truncated" not in whole.summary)


def test_a_lower_casing_model_is_compared_in_its_own_case(translator: Translator) -> None:
    lowercase = Codec(WordTokenizer("en", lowercase=True), ENGLISH.vocabulary)
    found = validator(lowercase, [line.upper() for line in REFERENCES])(translator.model)
    translations = [sample["translation"] for sample in found.samples]
    assert found.scores["bleu"] == corpus_bleu(translations, REFERENCES, "en")
    assert found.scores["chrf"] == corpus_chrf(translations, REFERENCES) > 5.0
    assert found.summary.startswith("BLEU (lower-cased) ")


@pytest.mark.parametrize("lowercase", [False, True])
def test_text_without_capitals_has_plain_bleu(lowercase: bool) -> None:
    measured = validator(Codec(WordTokenizer("en", lowercase=lowercase), ENGLISH.vocabulary))
    assert (measured.bleu_name, measured.references) == ("BLEU", REFERENCES)


@pytest.mark.parametrize(("language", "name"), [("ja", "BLEU (tok:char)"), ("zh", "BLEU (tok:zh)")])
def test_the_tokenizer_of_a_language_without_spaces_is_named(language: str, name: str) -> None:
    config = TextConfig.model_validate({"tokenizer": {"kind": "char"}})
    assert validator(build_codecs(config, ("en", language), LINES, REFERENCES)[1]).bleu_name == name


def test_a_truecasing_model_is_compared_with_what_was_written() -> None:
    pieces = build_codecs(
        TextConfig.model_validate({"tokenizer": {"kind": "bpe", "vocab_size": 60, "truecase": True}}),
        ("de", "en"),
        LINES,
        [line.capitalize() for line in REFERENCES],
    )[1]
    references = [line.lower() for line in REFERENCES]
    assert pieces.tokenizer.normalize(references[0]) != references[0]
    assert validator(pieces, references).references == references


def test_bleu_cuts_words_or_characters_as_the_target_language_asks(translator: Translator) -> None:
    words = Vocabulary(("那只狗", "猫", "。", "，", "在睡觉", "在叫", "一只"))
    references = ["一只狗在叫。", "那只猫", "一只狗在睡觉，一只狗在叫。"] * 4
    found = validator(Codec(WordTokenizer("zh"), words), references)(translator.model)
    translations = [sample["translation"] for sample in found.samples]
    in_characters, in_words = (corpus_bleu(translations, references, language) for language in ("zh", "en"))
    assert found.scores["bleu"] == in_characters > in_words


def test_a_model_that_always_answers_the_same_is_warned_of(translator: Translator) -> None:
    assert validator()(translator.model).warning is None
    model = copy.deepcopy(translator.model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    warning = validator()(model).warning
    assert warning == (
        "only 1 of 12 translations are distinct: the model seems to ignore the source; it may need more updates "
        "(training.max_epochs or training.max_steps) or a lower learning rate (training.optimizer.lr)"
    )


def test_a_target_side_in_another_form_of_unicode_is_warned_of() -> None:
    measured = validator(references=[unicodedata.normalize("NFD", f"{line} é") for line in REFERENCES])
    translations = [f"{line} {number} é" for number, line in enumerate(REFERENCES)]
    warning = measured._judge(1.0, 0.5, translations, 0).warning
    assert warning is not None
    assert "Unicode form NFD" in warning
