"""A run with each kind of tokenizer, chosen by its name alone, from text to translation."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import TinyProject, assert_same_run, rows, sigterm, stop, update

from translate import Translator, pipeline
from translate.config.keys import kind_of, sections_of
from translate.config.schema import Config
from translate.config.text import TextConfig
from translate.model_file import SavedModel, fresh_model, weights_of
from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.runs.preparing import plan_batches, prepare_text, training_set
from translate.system.pool import START
from translate.text.build import build_codecs

KINDS = [str(kind_of(section)) for section in sections_of(TextConfig.model_fields["tokenizer"])]
WITHOUT_SPACY = [kind for kind in KINDS if kind != "word"]


@pytest.mark.slow
@pytest.mark.parametrize("joint", ["true", "false"])
@pytest.mark.parametrize("kind", WITHOUT_SPACY)
def test_a_run(kind: str, joint: str, tiny: TinyProject) -> None:
    run = train(tiny.config(f"text.tokenizer.kind={kind}", f"text.joint_vocabulary={joint}", "training.max_epochs=1"))
    translator = Translator.load(run.model, "cpu")
    lines = ["bako fide", "", "lumo", "quer\u2028x \ud800"]
    translations = translator.translate(lines)
    assert len(translations) == len(lines)
    assert translations[1] == ""
    source = translator.saved.source
    assert source.decode(source.encode(lines[:1])[0]) == lines[0]
    assert all(len(text.splitlines()) <= 1 for text in translations)
    assert (translator.unknown_words("quer") == []) == (kind == "byte")


def test_a_line_break_that_bytes_spell_is_a_space(tmp_path: Path) -> None:
    text = TextConfig.model_validate({"tokenizer": {"kind": "byte"}})
    config = Config.model_validate(
        {
            "text": text.model_dump(),
            "model": {"d_model": 8, "ffn": 8, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "tie": "none"},
            "decoding": {"search": "greedy", "max_ratio": 1, "max_extra": 0},
        }
    )
    source, target = build_codecs(text, ("de", "en"), ["x"], ["y"])
    model = fresh_model(config, source, target)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        # Nothing but the bias decides: the line break is always the likeliest.
        dict(model.named_parameters())["projection.bias"][4 + ord("\n")] = 9.0
    SavedModel(config, source, target, weights_of(model), {}).save(tmp_path / "model.safetensors")
    translator = Translator.load(tmp_path / "model.safetensors", "cpu")
    assert translator.translate(["abc", ""]) == ["   ", ""]
    # What else Python calls a line break is part of a sentence, in references, too.
    separators = "a\u2028b\x85c\x0b"
    assert translator._on_one_line(f"{separators}\r\nd\re\n") == f"{separators} d e"


DROPOUT = ("text.tokenizer.kind=bpe", "text.tokenizer.vocab_size=40", "text.tokenizer.dropout=0.3")


@pytest.mark.parametrize(("max_tokens", "longest"), [(20, 20), (200, 29)])
def test_bpe_dropout_has_the_seed_of_the_run_and_its_limits(
    max_tokens: int, longest: int, tiny: TinyProject, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "translate")
    limits = ("model.positions=learned", "model.max_positions=30", f"data.filter.max_tokens={max_tokens}")
    config = tiny.config(*DROPOUT, *limits, "seed=5")
    text = prepare_text(config, None)
    plan = plan_batches(config, text)
    pairs: Any = training_set(config, text, plan, fresh_model(config, *text.codecs))
    assert (pairs.seed, pairs.resegmenters[0].max_tokens) == (
        5,
        longest,
    )  # The end of the sentence has a position, too.
    (percent,) = re.findall(r"train: BPE-dropout makes lines about (\d+)% longer; ", caplog.text)
    assert int(percent) == pytest.approx(50, abs=40)
    assert caplog.messages[-1].endswith("longer; batches exceed training.batch.max_tokens by as much")
    training_set(config, text, plan, fresh_model(config, *text.codecs), helpers=2)
    assert caplog.messages[-1].endswith(" by as much; 2 processes segment them")
    assert plan.seed == 5


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 17])
def test_bpe_dropout_goes_on_where_it_was(
    number: int, tiny: TinyProject, uninterrupted: Callable[..., RunFolder]
) -> None:
    stop(sigterm, update(number), tiny, *DROPOUT)
    assert_same_run(train(tiny.config(*DROPOUT), resume=True), uninterrupted(*DROPOUT))


@pytest.mark.slow
def test_helpers_segment_text_as_the_training_process_does(
    tiny: TinyProject,
    uninterrupted: Callable[..., RunFolder],
    processes: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = uninterrupted(*DROPOUT)
    monkeypatch.setattr(pipeline, "helpers_for", lambda device, local_count: 2)
    stop(sigterm, update(17), tiny, *DROPOUT)
    assert_same_run(train(tiny.config(*DROPOUT), resume=True), without)
    helpers = [process for process in processes if START in process.args]
    assert len(helpers) == 4
    assert None not in [process.poll() for process in helpers]


@pytest.mark.slow
def test_bpe_dropout_trains_on_more_tokens(uninterrupted: Callable[..., RunFolder]) -> None:
    with_dropout, without = (
        [row["target_tokens"] for row in rows(uninterrupted(*overrides)) if row["kind"] == "train"]
        for overrides in (DROPOUT, DROPOUT[:-1])
    )
    assert with_dropout[-1] > 1.1 * without[-1]
