"""Text in, text out: as many translations as lines, whatever stands in them."""

import logging
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from saved_models import ENGLISH, GERMAN, save_model

import translate
from translate import Translator
from translate.decoding.teacher_forcing import log_probabilities
from translate.errors import CheckpointError, ConfigError, DataError, TrainingError
from translate.line_warnings import LineWarnings
from translate.model.transformer import Transformer
from translate.model_file import SavedModel
from translate.text.codec import Codec
from translate.text.vocabulary import Vocabulary

NOTHING = ["", " ", "   \t ", "\u00a0", "\u3000", "\r", "\u2028", "\u0085", "\x0b\x0c"]
ODD = [
    "ein Hund\u2028bellt.",
    "ein Hund bellt.\r",
    "ein\rHund",
    "ein\u00a0Hund bellt.",
    "\ufeffein Hund bellt.",
    "Hund \U0001f415 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "那只狗在睡觉。",
    "Hund\x00 <eos> <pad> \ud800",
]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return Translator.load(save_model(tmp_path_factory.mktemp("model") / "model.safetensors"), "cpu")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    path = tmp_path_factory.mktemp("learned") / "model.safetensors"
    return Translator.load(save_model(path, positions="learned", max_positions=8), "cpu")


def test_how_probable_a_translation_is(translator: Translator) -> None:
    lines, translations = ["ein Hund bellt.", "Katze", ""], ["a dog barks.", "cat", ""]
    found = translator.log_probabilities(lines, translations)
    ids = [[GERMAN.encode(lines)[i], ENGLISH.encode(translations)[i]] for i in range(2)]
    expected = [log_probabilities(translator.model, [s], [t], translator.config.decoding)[0] for s, t in ids]
    assert found == pytest.approx([*expected, 0.0], abs=1e-4)
    assert found[0] < found[2]
    with pytest.raises(DataError, match="3 lines and 2 translations"):
        translator.log_probabilities(lines, translations[:2])


# --- lines in, lines out ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_as_many_lines_come_out_as_go_in(translator: Translator, search: str) -> None:
    lines = [line for pair in zip(NOTHING, [*ODD, "Hund"], strict=True) for line in pair]
    found = translator.translate(lines, search=search)
    assert len(found) == len(lines)
    assert found[::2] == [""] * len(NOTHING)
    assert all(found[1::2])
    assert found == [translator.translate([line], search=search)[0] for line in lines]
    assert all(len(text.splitlines()) <= 1 for text in found)


def test_paths_and_devices_of_any_type(tmp_path: Path) -> None:
    path = save_model(tmp_path / "model.safetensors")
    for where in (path, str(path), [path]):
        assert Translator.load(where, torch.device("cpu")).device == torch.device("cpu")
    assert translate.__all__ == [name for name in dir(translate) if name == "Translator"]  # for completion


def test_one_text_is_no_list_of_lines(translator: Translator) -> None:
    for call in (translator.translate, lambda text: translator.n_best(text, 1)):
        with pytest.raises(TypeError, match=r"'ein Hund' is a single text; give a list: \[text\]"):
            call("ein Hund")
        with pytest.raises(TypeError, match=r"a mapping is no list of lines, .* give a list: \[text\]"):
            call({"de": "ein Hund"})
        with pytest.raises(TypeError, match=r"b'ein Hund' is a single text; give a list: \[text\]"):
            call(b"ein Hund")
        with pytest.raises(TypeError, match=r"a set has no order .* give a list: \[text\]"):
            call({"ein Hund", "eine Katze"})
        with pytest.raises(TypeError, match="a set has no order"):
            call(frozenset({"ein Hund"}))


def test_lines_that_can_be_read_but_once(translator: Translator) -> None:
    lines = ["ein Hund bellt", "", "Katze"]
    together = translator.translate(lines)
    assert translator.translate(iter(lines)) == together
    assert [best[0].text for best in translator.n_best((line for line in lines), 1)] == together
    assert translator.log_probabilities(iter(lines), iter(together)) == translator.log_probabilities(lines, together)


def memory_for(rows: int, monkeypatch: pytest.MonkeyPatch, model: torch.nn.Module) -> None:
    """Let the model run out of memory with more sentences than that at a time."""
    for name in ("start", "forward"):
        method = getattr(model, name)

        def limited(source_BS: torch.Tensor, *others: torch.Tensor, method: Any = method) -> Any:
            if len(source_BS) > rows:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return method(source_BS, *others)

        monkeypatch.setattr(model, name, limited)


@pytest.mark.slow
def test_search_that_runs_out_of_memory_goes_on_in_smaller_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    translator = Translator.load(save_model(tmp_path / "model.safetensors"), "cpu")
    # Of five tokens with the end, and one that is longer than what is read of it, and than a batch.
    lines = [*["ein Hund bellt."] * 200, "Hund " * 5000]
    expected = translator.translate(lines, max_ratio=0.2)
    memory_for(60, monkeypatch, translator.model)
    assert translator.translate(lines, max_ratio=0.2) == translator.translate(lines, max_ratio=0.2) == expected
    assert [message for message in caplog.messages if not message.startswith("line 201")] == [
        f"out of memory: from now on batches have at most {tokens} tokens" for tokens in (2048, 1024, 512, 256)
    ]


def test_translations_are_scored_in_batches_that_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    translator = Translator.load(save_model(tmp_path / "model.safetensors"), "cpu")
    lines, translations = ["ein Hund bellt."] * 1000, ["a dog barks."] * 1000
    expected = translator.log_probabilities(lines, translations)
    memory_for(300, monkeypatch, translator.model)
    assert translator.log_probabilities(lines, translations) == pytest.approx(expected)
    assert caplog.messages == [
        f"out of memory: from now on batches have at most {tokens} tokens" for tokens in (2048, 1024)
    ]


def test_too_little_memory_for_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.load(save_model(tmp_path / "model.safetensors"), "cpu")
    with monkeypatch.context() as patch:
        memory_for(0, patch, translator.model)
        with pytest.raises(DataError, match="out of memory with a single sentence; shorten it, free some memory, or"):
            translator.translate(["ein Hund bellt."])
    batches: list[int] = []
    start = translator.model.start

    def spy(source_BS: torch.Tensor, *others: torch.Tensor) -> Any:
        batches.append(len(source_BS))
        return start(source_BS, *others)

    monkeypatch.setattr(translator.model, "start", spy)
    translator.translate(["ein Hund bellt."] * 20, search="greedy")
    assert max(batches) >= 10  # One line that did not fit says nothing about the batches of the others.


@pytest.mark.parametrize(("tokens", "tried"), [(5, []), (6, [3])])
def test_batches_are_not_made_smaller_than_a_sentence(
    tokens: int,
    tried: list[int],
    translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory_for(0, monkeypatch, translator.model)
    released: list[None] = []
    monkeypatch.setattr("translate.decoding.batch_size.release_memory", lambda: released.append(None))
    with pytest.raises(DataError, match="out of memory with a single sentence"):
        translator.translate(["ein Hund bellt."], batch_tokens=tokens)  # It has five, with the end.
    assert caplog.messages == [f"out of memory: from now on batches have at most {fewer} tokens" for fewer in tried]
    assert len(released) == len(tried)


def test_other_errors_of_a_search_are_not_taken_for_a_lack_of_memory(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("an illegal access was encountered")

    monkeypatch.setattr(translator.model, "start", broken)
    with pytest.raises(RuntimeError, match="an illegal access was encountered"):
        translator.translate(["ein Hund bellt."])


@pytest.mark.parametrize(("owner", "name"), [(SavedModel, "load"), (SavedModel, "model"), (Transformer, "to")])
def test_too_little_memory_for_the_weights(
    owner: type, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> object:
        raise torch.OutOfMemoryError("CUDA out of memory")

    model = save_model(tmp_path / "model.safetensors")
    monkeypatch.setattr(owner, name, refuse)
    with pytest.raises(
        TrainingError, match=r"^out of memory for the model's weights; free some memory, or use another"
    ):
        Translator.load(model, "cpu")


def test_weights_are_held_once(tmp_path: Path) -> None:
    translator = Translator.load([save_model(tmp_path / name) for name in ("a.safetensors", "b.safetensors")], "cpu")
    assert not any(saved.weights for saved in (translator.saved, *translator.others))


def test_no_translations_and_no_models(translator: Translator) -> None:
    with pytest.raises(ValueError, match="n and first_line must be at least 1, not 0 and 1"):
        translator.n_best(["ein Hund"], 0, translator.settings(search="greedy"))
    with pytest.raises(ValueError, match="n and first_line must be at least 1, not 1 and 0"):
        translator.n_best(["ein Hund"], 1, first_line=0)
    with pytest.raises(ValueError, match="no model file is given"):
        Translator.load([])


def test_no_lines(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_an_empty_line_has_one_empty_translation(translator: Translator) -> None:
    ((empty,), others) = translator.n_best(["", "Hund"], 3)
    assert (empty.text, empty.log_probability, empty.score, empty.length, empty.finished) == ("", 0.0, 0.0, 1, True)
    assert len(others) == 3


def test_specials_stay_inside(translator: Translator) -> None:
    words = {word for text in translator.translate(ODD) for word in text.split()}
    assert words
    assert not words & {"<unk>", "<pad>", "<bos>", "<eos>"}


def test_a_line_of_ten_thousand_words(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    settings = translator.settings(search="greedy", max_ratio=0.001)
    ((long,), (short,)) = translator.n_best([" ".join(["ein Hund"] * 5000), "Hund"], 1, settings)
    assert 0 < long.length <= 1 + 3 + 1
    assert short.text == translator.n_best(["Hund"], 1, settings)[0][0].text
    assert caplog.messages == [
        "line 1 has 10000 tokens and is truncated to the first 1000; the model was trained on at most 200: if it "
        "has several sentences, translate them one by one"
    ]


def test_lines_that_are_longer_than_any_in_training_are_counted(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    settings = translator.settings(search="greedy", max_ratio=0.001)
    translator.n_best(["Hund", "Hund " * 200, "Hund " * 201, "Hund " * 300], 1, settings, first_line=5)
    assert caplog.messages == [
        "line 7 has 201 tokens, but the model was trained on at most 200: if it has several sentences, translate them "
        "one by one (such lines so far: 2)"
    ]


def test_a_text_in_portions_is_warned_of_again_with_ten_times_as_many_lines(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    settings = translator.settings(search="greedy", max_ratio=0.001)
    lines, warnings = ["Hund " * 201, "a cat"], LineWarnings()
    for first_line in range(1, 401, 2):
        translator.n_best(lines, 1, settings, first_line=first_line, warnings=warnings)
    several = "if it has several sentences, translate them one by one"
    long = f" has 201 tokens, but the model was trained on at most 200: {several}"
    unknown = ": only 0 of its 2 tokens are in the model's vocabulary (de); the output is unreliable"
    assert caplog.messages == [
        f"line 1{long}",
        f"line 2{unknown}",
        *(
            f"line {line + number}{what} (such lines so far: {count})"
            for number, count in ((19, 10), (199, 100))
            for line, what in ((0, long), (1, unknown))
        ),
    ]
    caplog.clear()
    translator.n_best(lines, 1, settings, first_line=401)  # without what was said before
    assert caplog.messages == [f"line 401{long}", f"line 402{unknown}"]


def test_translations_that_need_different_advice_are_counted_together(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    given, warnings = ["dog " * 300, "dog " * 5000], LineWarnings()
    for first_line in range(1, 21, 2):
        translator.log_probabilities(["ein Hund"] * 2, given, first_line=first_line, warnings=warnings, max_source=50)
        given.reverse()
    assert [message.partition(":")[0] for message in caplog.messages] == ["line 1", "line 19"]
    assert caplog.messages[1].endswith(" (such lines so far: 20)")


def test_the_longest_source_in_training_is_known(
    translator: Translator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(translator.saved.about, "longest_source", 4)
    translator.translate(["Hund " * 4, "Hund " * 5])
    translator.translate(["Hund", "Hund " * 4, "Hund " * 5], max_source=3)
    assert caplog.messages == [
        "line 2 has 5 tokens, but the model was trained on at most 4: if it has several sentences, translate them "
        "one by one",
        "line 2 has 4 tokens and is truncated to the first 3; raise max_source (--max-source) to read more "
        "(such lines so far: 2)",
    ]


def test_in_an_ensemble_the_model_counts_that_has_learned_from_the_shortest_sources(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved = SavedModel.load(save_model(tmp_path / "model.safetensors"))
    models = [replace(saved, about={"longest_source": longest}) for longest in (9, 3, 7)]
    Translator(*models).translate(["Hund " * 3, "Hund " * 4])
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "line 2 has 4 tokens, but the model was trained on at most 3"
    ]


def test_learned_positions_warn_of_the_line_that_is_too_long(
    learned: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ["Hund", "ein Hund , ein Hund .", "ein Hund , ein Hund , Katze", "", "Hund " * 10_000]
    with caplog.at_level(logging.WARNING, "translate"):
        found = learned.n_best(lines, 1, first_line=41)
    assert caplog.messages == ["line 45 has 10000 tokens and is truncated to the first 7"]
    assert len(found) == 5
    assert found[4][0].text == learned.n_best(["Hund " * 7], 1)[0][0].text


def test_settings_of_a_translation_are_those_of_decoding(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    assert translator.translate(["Hund " * 9], max_source=3) == translator.translate(["Hund " * 3])
    assert caplog.messages == [
        "line 1 has 9 tokens and is truncated to the first 3; raise max_source (--max-source) to read more"
    ]
    with pytest.raises(ConfigError, match=r"decoding\.max_sorce: unknown key; did you mean 'max_source'"):
        translator.translate(["Hund"], max_sorce=3)


@pytest.mark.parametrize("odd", [None, float("nan"), b"Hund", 3])
def test_a_line_that_is_no_text_is_named(odd: Any, translator: Translator) -> None:
    with pytest.raises(TypeError, match=re.escape(f"line 2 is not text, but {odd!r}")):
        translator.translate(["Hund", odd])


def test_learned_positions_that_were_never_trained_are_warned_of(
    learned: Translator, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(learned.saved.about, "longest_source", 5)
    with caplog.at_level(logging.WARNING, "translate"):
        learned.translate(["Hund " * 5, "Hund " * 6])
    assert caplog.messages == [
        "line 2 has 6 tokens, but the model was trained on at most 5: if it has several sentences, translate them "
        "one by one"
    ]


def test_a_line_that_just_fits_learned_positions(learned: Translator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "translate"):
        seven, eight = learned.translate(["Hund " * 7, "Hund " * 8])
    assert caplog.messages == ["line 2 has 8 tokens and is truncated to the first 7"]
    assert seven == eight


@pytest.mark.parametrize(
    ("tokens", "settings", "most", "advice"),
    [
        (7, {"max_source": 2, "max_extra": 0}, 5, "; raise max_source (--max-source) to score it"),
        (8, {"max_source": 2, "max_extra": 0}, 5, ""),  # It has no place in the model.
        (7, {"max_ratio": 0.3, "max_extra": 0}, 4, ""),  # A source as long as the model can read would not help.
        (8, {}, 7, ""),
    ],
)
def test_translations_too_long_to_be_scored(
    tokens: int,
    settings: dict[str, Any],
    most: int,
    advice: str,
    learned: Translator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = learned.settings(**{"max_ratio": 2.0, **settings})
    with caplog.at_level(logging.WARNING, "translate"):
        given = ["dog " * most, "dog " * tokens]
        whole, longer = learned.log_probabilities(["Hund"] * 2, given, limits, first_line=11)
    assert whole > longer == -math.inf
    assert caplog.messages == [
        f"line 12: the translation has {tokens} tokens, and no search gives more than {most}, so its probability "
        f"counts as 0{advice}"
    ]


# --- settings --------------------------------------------------------------------------------------------------------


def test_settings_left_out_are_the_models_own(translator: Translator) -> None:
    assert translator.settings() == translator.settings(search=None, beam_size=None) == translator.config.decoding
    changed = translator.settings(beam_size=7)
    assert (changed.beam_size, changed.max_extra, translator.config.decoding.beam_size) == (7, 3, 3)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"search": "random"}, "decoding.search: given 'random', allowed: one of greedy, beam, sample"),
        ({"beam_size": 0}, "decoding.beam_size: given 0, allowed: a whole number from 1 to 1000"),
        ({"length_penalty": -1.0}, "decoding.length_penalty: given -1.0, allowed: a number from 0 to 10"),
        ({"beam": 4}, "decoding.beam: unknown key; did you mean 'beam_size'?"),
    ],
)
def test_settings_out_of_range(translator: Translator, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        translator.settings(**asked)
    assert message in str(caught.value)


def test_settings_may_be_given_one_by_one(translator: Translator) -> None:
    lines = ["ein Hund bellt"]
    assert translator.n_best(lines, 3, beam_size=7) == translator.n_best(lines, 3, translator.settings(beam_size=7))
    by_name = translator.log_probabilities(["Hund " * 9], ["dog"], max_source=3)
    assert by_name == translator.log_probabilities(["Hund " * 9], ["dog"], translator.settings(max_source=3))
    assert by_name != translator.log_probabilities(["Hund " * 9], ["dog"])
    with pytest.raises(TypeError, match="settings are given twice"):
        translator.n_best(lines, 3, translator.settings(), beam_size=7)


@pytest.mark.parametrize("odd", [{"beam_size": 3}, "greedy"])
def test_settings_as_a_whole_are_those_of_decoding(odd: Any, translator: Translator) -> None:
    message = re.escape(f"settings are given as {odd!r}; give them by name (beam_size=8), or those of settings()")
    with pytest.raises(TypeError, match=message):
        translator.n_best(["ein Hund"], 1, odd)
    with pytest.raises(TypeError, match=message):
        translator.log_probabilities(["ein Hund"], ["a dog"], odd)


def test_numbers_of_numpy_are_numbers(translator: Translator) -> None:
    numbers: dict[str, Any] = {"beam_size": np.int64(3), "length_penalty": np.float32(0.5)}
    assert translator.settings(**numbers) == translator.settings(beam_size=3, length_penalty=0.5)
    lines = ["der Hund", "die Katze"]
    assert translator.n_best(lines, cast(int, np.int64(2))) == translator.n_best(lines, 2)


@pytest.mark.parametrize("n", [2.0, "3", None])
def test_a_number_of_translations_that_is_not_whole(n: Any, translator: Translator) -> None:
    for numbers in ({"n": n}, {"n": 1, "first_line": n}):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            translator.n_best(["der Hund"], **numbers)


def test_n_best(translator: Translator) -> None:
    settings = translator.settings(beam_size=4, length_penalty=0.5)
    for translations in translator.n_best(["ein Hund bellt.", "Katze"], 4, settings):
        assert len(translations) == 4
        for translation in translations:
            expected = translation.log_probability / translation.length**0.5
            assert translation.score == pytest.approx(expected)
        ranks = [(not translation.finished, -translation.score) for translation in translations]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("asked", "n", "message"),
    [
        (
            {"search": "greedy"},
            2,
            "greedy search finds one translation of each sentence, not 2; use beam search (--search beam) or sampling",
        ),
        ({"search": "sample"}, 1001, "n-best is limited to 1000 translations of each sentence, not 1001"),
        ({"search": "beam"}, 2000, "n-best is limited to 1000 translations of each sentence, not 2000"),
        ({"beam_size": 3}, 4, "a beam of 3 cannot give 4 translations; use a beam size (--beam-size) of 4"),
    ],
)
def test_more_translations_than_the_search_finds(
    translator: Translator, asked: dict[str, Any], n: int, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        translator.n_best(["Hund"], n, translator.settings(**asked))
    assert str(caught.value) == message


def test_a_thousand_samples_may_be_drawn(translator: Translator) -> None:
    (found,) = translator.n_best(["Hund"], 1000, translator.settings(search="sample"))
    assert len(found) == 1000


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_ids_translate_like_their_text(translator: Translator, search: str) -> None:
    lines, settings = ["ein Hund bellt.", "", "Katze"], translator.settings(search=search)
    assert translator.n_best_of_ids(GERMAN.encode(lines), 2, settings) == translator.n_best(lines, 2, settings)


def test_lines_that_the_model_can_hardly_read(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    half_known = ["ein Hund fliegt hoch", "", "ein Hund bellt."]
    translator.n_best(half_known, 1)
    assert caplog.messages == []
    translator.n_best([*half_known, "ein cat sleeps here"], 1, first_line=11)
    assert caplog.messages == [
        "line 14: only 1 of its 4 tokens are in the model's vocabulary (de); the output is unreliable"
    ]
    caplog.clear()
    translator.n_best(["那只狗在睡觉。", *half_known, "a dog", "a cat"], 1)
    assert caplog.messages == [
        "line 1: only 0 of its 2 tokens are in the model's vocabulary (de); the output is unreliable "
        "(such lines so far: 3)"
    ]


def test_lines_whose_translations_are_scored_are_warned_of_like_others(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    translator.log_probabilities(["Hund", "Hund " * 201, "a cat"], ["dog", "dog", "Katze"], first_line=11)
    assert caplog.messages == [
        "line 12 has 201 tokens, but the model was trained on at most 200: if it has several sentences, translate them "
        "one by one",
        "line 13: only 0 of its 2 tokens are in the model's vocabulary (de); the output is unreliable",
        "line 13: only 0 of its 1 tokens are in the model's vocabulary (en); the probability of this translation means "
        "little",
    ]


def test_unknown_words(translator: Translator) -> None:
    assert translator.unknown_words("ein Zebra bellt, Katze.") == ["Zebra"]
    assert translator.unknown_words("") == []


def test_models_that_translate_together(tmp_path: Path) -> None:
    paths = [save_model(tmp_path / f"{seed}.safetensors", seed=seed) for seed in (1, 2)]
    together = Translator.load(paths, "cpu")
    (found,) = together.n_best(["ein Hund bellt ."], 1, together.settings(search="greedy"))
    alone = [Translator.load(path, "cpu") for path in paths]
    scores = [one.n_best(["ein Hund bellt ."], 1, one.settings(search="greedy"))[0][0].score for one in alone]
    assert all(found[0].score != pytest.approx(score) for score in scores)
    twice = Translator.load([paths[0], paths[0]], "cpu").translate(["ein Hund bellt ."])
    assert twice == alone[0].translate(["ein Hund bellt ."])


def turned(codec: Codec) -> Codec:
    """One that numbers its words otherwise."""
    return replace(codec, vocabulary=Vocabulary(codec.vocabulary.words[::-1]))


@pytest.mark.parametrize(("source", "target"), [(turned(GERMAN), ENGLISH), (GERMAN, turned(ENGLISH))])
def test_models_of_another_vocabulary_do_not(source: Codec, target: Codec, tmp_path: Path) -> None:
    one, other = (tmp_path / f"{name}.safetensors" for name in ("one", "other"))
    saved = SavedModel.load(save_model(one))
    replace(saved, source=source, target=target).save(other)
    with pytest.raises(CheckpointError, match=r"other\.safetensors and .*one\.safetensors have different tokenizers"):
        Translator.load([one, other], "cpu")


def test_nor_do_models_of_other_languages(tmp_path: Path) -> None:
    """Whose vocabularies may be the same: a joint one."""
    one, other = (tmp_path / f"{name}.safetensors" for name in ("one", "other"))
    saved = SavedModel.load(save_model(one))
    replace(saved, source=ENGLISH, target=GERMAN).save(other)
    expected = rf"{other} is for en to de, and {one} for de to en: an ensemble is for the same languages"
    with pytest.raises(CheckpointError, match=expected):
        Translator.load([one, other], "cpu")


def test_models_made_in_memory_need_the_same_vocabularies_too(tmp_path: Path) -> None:
    one = SavedModel.load(save_model(tmp_path / "model.safetensors"))
    with pytest.raises(ValueError, match="models with different tokenizers or vocabularies cannot form an ensemble"):
        Translator(one, replace(one, target=turned(ENGLISH)))
