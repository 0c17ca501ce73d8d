"""What is wrong with the values of a config, in a user's terms: the key, what is allowed, what was probably meant."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translate.config.keys import all_sections
from translate.config.loading import MAX_LISTED, config_from_dict, config_to_dict, load_config
from translate.config.schema import Config
from translate.config.yaml_source import to_yaml
from translate.errors import ConfigError


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def problems(text: str, *overrides: str) -> list[str]:
    """The message about a file x.yaml, line by line without the header, whose count is checked."""
    Path("x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(Path("x.yaml"), overrides)
    header, *lines = str(caught.value).split("\n  ")
    assert header == ("1 problem in x.yaml:" if len(lines) == 1 else f"{len(lines)} problems in x.yaml:")
    return lines


SEEDS = "a whole number from 0 to below 4294967296"
ONE_LANGUAGE = (
    "source and target are both 'en', but must tell the files of a split apart; name two languages, or, for text in "
    "one language, two files each in train and valid"
)
DECAYS = "a list of 2, each a number from 0 to below 1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # unknown keys
        ("model:\n  dropuot: 0.3", "x.yaml:2: model.dropuot: unknown key; did you mean 'dropout'?"),
        ("trainig:\n  seed: 1", "x.yaml:1: trainig: unknown key; did you mean 'training'?"),
        (
            "model: {dropout:0.3}",
            "x.yaml:1: model.dropout:0.3: unknown key; write a space after the colon, 'dropout: 0.3'",
        ),
        ("text: {tokenizer: {bpe: true}}", "x.yaml:1: text.tokenizer.bpe: unknown key; to choose it, write kind: bpe"),
        (
            "training: {schedule: {kind: cosine, cosine: {warmup_steps: 3}}}",
            "x.yaml:1: training.schedule.cosine: unknown key; to choose it, write kind: cosine",
        ),
        ("extend: b.yaml", "x.yaml:1: extend: unknown key; did you mean 'extends'?"),
        (
            "training: {load_encoder: a.ckpt}",
            "x.yaml:1: training.load_encoder: unknown key; no part can be frozen or loaded alone; training.start_from "
            "loads a whole model, and all of it is trained",
        ),
        (
            "model: {freeze: true}",
            "x.yaml:1: model.freeze: unknown key; no part can be frozen or loaded alone; training.start_from "
            "loads a whole model, and all of it is trained",
        ),
        ("model.d_model: 64", "x.yaml:1: model.d_model: unknown key; write model: {d_model: …}"),
        (
            "training.optimizer.lr: 1",
            "x.yaml:1: training.optimizer.lr: unknown key; write training: {optimizer: {lr: …}}",
        ),
        (
            "training: {optimizer.lr: 1}",
            "x.yaml:1: training.optimizer.lr: unknown key; write optimizer: {lr: …}",
        ),
        ("model: {dropuot:0.3}", "x.yaml:1: model.dropuot:0.3: unknown key; did you mean 'dropout'?"),
        ("lr: 3", "x.yaml:1: lr: unknown key; 'lr' belongs to training.optimizer"),
        ("clip-norm: 3", "x.yaml:1: clip-norm: unknown key; 'clip_norm' belongs to training"),
        ("training: {clip-norm: 3}", "x.yaml:1: training.clip-norm: unknown key; did you mean 'clip_norm'?"),
        (
            "training: {max_tokens: 3}",
            "x.yaml:1: training.max_tokens: unknown key; 'max_tokens' belongs to data.filter and training.batch",
        ),
        ("data: {seed: 3}", "x.yaml:1: data.seed: unknown key; 'seed' belongs to the top level and decoding"),
        (
            "training:\n  batch: {zzz: 3}",
            "x.yaml:2: training.batch.zzz: unknown key; allowed here: max_tokens, max_sentences, accumulate",
        ),
        (
            "decoding: {kind: x}",
            "x.yaml:1: decoding.kind: unknown key; allowed here: search, beam_size, length_penalty, temperature, "
            "top_k, seed, max_ratio, max_extra, max_source, batch_tokens",
        ),
        # types and ranges
        ("model: {dropout: 1.5}", "x.yaml:1: model.dropout: given 1.5, allowed: a number from 0 to below 1"),
        (
            "training:\n  optimizer:\n    lr: fast",
            "x.yaml:3: training.optimizer.lr: given 'fast', allowed: a number above 0",
        ),
        ("training: {optimizer: {lr: 1e999}}", "x.yaml:1: training.optimizer.lr: given inf, allowed: a number above 0"),
        (
            "training: {optimizer: {lr: .nan}}",
            "x.yaml:1: training.optimizer.lr: given '.nan', allowed: a number above 0",
        ),
        ("seed: 1e3", f"x.yaml:1: seed: given 1000.0, allowed: {SEEDS}; write 1000"),
        ("seed: 012", f"x.yaml:1: seed: given '012', allowed: {SEEDS}; write 12"),
        (
            "seed: 1_000",
            f"x.yaml:1: seed: given '1_000', allowed: {SEEDS}; write 1000",
        ),
        (
            "seed: '12'",
            f"x.yaml:1: seed: given '12', allowed: {SEEDS}; write 12 without quotes",
        ),
        ("seed: 1:30", f"x.yaml:1: seed: given '1:30', allowed: {SEEDS}"),
        ("seed: -1", f"x.yaml:1: seed: given -1, allowed: {SEEDS}"),
        ("seed: 1.5", f"x.yaml:1: seed: given 1.5, allowed: {SEEDS}"),
        ("seed: true", f"x.yaml:1: seed: given true, allowed: {SEEDS}"),
        ("data: {download: no}", "x.yaml:1: data.download: given 'no', allowed: true or false; write false"),
        ("data: {download: off}", "x.yaml:1: data.download: given 'off', allowed: true or false; write false"),
        ("data: {download: Yes}", "x.yaml:1: data.download: given 'Yes', allowed: true or false; write true"),
        ("data: {download: on}", "x.yaml:1: data.download: given 'on', allowed: true or false; write true"),
        ("data: {download: 1}", "x.yaml:1: data.download: given 1, allowed: true or false"),
        ("data: {source: 12}", "x.yaml:1: data.source: given 12, allowed: text (not empty); write '12'"),
        ("data: {source: ''}", "x.yaml:1: data.source: given '', allowed: text (not empty)"),
        ("output: 5", "x.yaml:1: output: given 5, allowed: a path or null; write '5'"),
        ("model:\n  norm: Pre", "x.yaml:2: model.norm: given 'Pre', allowed: one of pre, post; did you mean 'pre'?"),
        (
            "model: {tie: null}",
            "x.yaml:1: model.tie: given null, allowed: one of none, target, all; did you mean 'none'?",
        ),
        ("model: {norm: 5}", "x.yaml:1: model.norm: given 5, allowed: one of pre, post"),
        (
            "training: {optimizer: {betas: [0.9, x]}}",
            f"x.yaml:1: training.optimizer.betas: given [0.9, 'x'], allowed: {DECAYS}",
        ),
        (
            "training: {optimizer: {betas: [0.9]}}",
            f"x.yaml:1: training.optimizer.betas: given [0.9], allowed: {DECAYS}",
        ),
        (
            "training: {optimizer: {betas: [0.9, 1.5]}}",
            f"x.yaml:1: training.optimizer.betas: given [0.9, 1.5], allowed: {DECAYS}",
        ),
        (
            "seed: 18446744073709551616",
            f"x.yaml:1: seed: given 18446744073709551616, allowed: {SEEDS}",
        ),
        (
            "training: {optimizer: {betas: 0.9}}",
            f"x.yaml:1: training.optimizer.betas: given 0.9, allowed: {DECAYS}",
        ),
        (
            f"training: {{optimizer: {{betas: {'7' * 80}}}}}",
            f"x.yaml:1: training.optimizer.betas: given {'7' * 80}, allowed: {DECAYS}",
        ),
        (
            f"training: {{optimizer: {{betas: {'7' * 81}}}}}",
            f"x.yaml:1: training.optimizer.betas: given {'7' * 80}…, allowed: {DECAYS}",
        ),
        (
            "text: {tokenizer: {kind: word, min_freq: a}}",
            "x.yaml:1: text.tokenizer.min_freq: given 'a', allowed: a whole number from 1 to 10000000",
        ),
        # sections
        (
            "training:\n  batch:\n",
            "x.yaml:2: training.batch: given null, allowed: a section with max_tokens, max_sentences, accumulate; "
            "leave the key out for its default",
        ),
        (
            "model:\n  d_model:64",
            "x.yaml:1: model: given 'd_model:64', allowed: a section of kind transformer or classifier; write a space "
            "after the colon, 'd_model: 64'",
        ),
        (
            "training: {schedule: cosine}",
            "x.yaml:1: training.schedule: given 'cosine', allowed: "
            "a section of kind constant or inverse_sqrt or cosine or linear; write {kind: 'cosine'}",
        ),
        (
            "training: {schedule: {kind: cosin}}",
            "x.yaml:1: training.schedule.kind: given 'cosin', allowed: one of constant, inverse_sqrt, cosine, linear; "
            "did you mean 'cosine'?",
        ),
        *(
            (
                f"text: {{tokenizer: {{kind: {given}}}}}",
                f"x.yaml:1: text.tokenizer.kind: given '{given}', allowed: one of word, whitespace, char, byte, bpe, "
                f"wordpiece, unigram{advice}",
            )
            for given, advice in {"bep": "; did you mean 'bpe'?", "uni": "; did you mean 'unigram'?", "w": ""}.items()
        ),
        (
            "training: {optimizer: {kind: [adam]}}",
            "x.yaml:1: training.optimizer.kind: given ['adam'], allowed: one of adam, adamw, muon",
        ),
        (
            "training:\n  schedule:\n    final_share: 0.1",
            "x.yaml:3: training.schedule.final_share: unknown key for kind 'inverse_sqrt'; "
            "final_share belongs to kinds cosine, linear",
        ),
        (
            "training:\n  optimizer: {kind: adam, weight_decay: 0.1}",
            "x.yaml:2: training.optimizer.weight_decay: unknown key for kind 'adam'; "
            "weight_decay belongs to kinds adamw, muon",
        ),
        (
            "data: {train: 5}",
            "x.yaml:1: data.train: given 5, allowed: text (not empty) or a section with split, source, target, "
            "weight, vocabulary or "
            "a list (each text (not empty) or a section with split, source, target, weight, vocabulary); write '5'",
        ),
        (
            "data: {train: [a, 3]}",
            "x.yaml:1: data.train: given ['a', 3], allowed: text (not empty) or a section with split, source, target, "
            "weight, vocabulary or "
            "a list (each text (not empty) or a section with split, source, target, weight, vocabulary)",
        ),
        (
            "data: {train: []}",
            "x.yaml:1: data.train: given [], allowed: text (not empty) or a section with split, source, target, "
            "weight, vocabulary or "
            "a list (each text (not empty) or a section with split, source, target, weight, vocabulary)",
        ),
        (
            "data:\n  train:\n    - a\n    - {split: b,\n       wieght: 4}",
            "x.yaml:5: data.train.1.wieght: unknown key; did you mean 'weight'?",
        ),
        (
            "data:\n  train: [a, {split: b, weight: 0}]",
            "x.yaml:2: data.train.1.weight: given 0, allowed: a whole number from 1 to 10000",
        ),
        (
            "data:\n  train: [{split: b, vocabulary: false}]",
            "x.yaml:2: data.train has no corpus to learn vocabularies from; set vocabulary: true for at least one",
        ),
        (
            "data: {train: [{source: a, target: 5}]}",
            "x.yaml:1: data.train.0.target: given 5, allowed: a path or null; write '5'",
        ),
        (
            "data: {train: [{split: a, target: b}]}",
            "x.yaml:1: data.train.0: a corpus is either a split or two files; give split, or source and target",
        ),
        (
            "data: {train: [{source: a}]}",
            "x.yaml:1: data.train.0: a corpus is either a split or two files; give split, or source and target",
        ),
        (
            "data: {valid: {source: a, target: b, '0': 1}}",
            "x.yaml:1: data.valid.0: unknown key; allowed here: source, target",
        ),
        ("data:\n  valid:\n    source: a.de", "x.yaml:2: data.valid.target: missing, allowed: a path"),
        (
            "data:\n  train: {source: a.de, target: 5}",
            "x.yaml:2: data.train.target: given 5, allowed: a path or null; write '5'",
        ),
        # contradictions
        (
            "model:\n  heads: 7",
            "x.yaml:2: model: heads: 7 does not divide d_model: 256; "
            "possible: [1, 2, 4, 8, 16, 32, 64], or any with d_qk and d_v set",
        ),
        (
            "model:\n  heads: 7\n  d_qk: 8",  # d_v is to be divided all the same
            "x.yaml:2: model: heads: 7 does not divide d_model: 256; "
            "possible: [1, 2, 4, 8, 16, 32, 64], or any with d_qk and d_v set",
        ),
        (
            "model: {d_model: 30, heads: 4, positions: rotary}",  # 30 // 4 is odd, but that says nothing new
            "x.yaml:1: model: heads: 4 does not divide d_model: 30; "
            "possible: [1, 2, 3, 5, 6, 10, 15, 30], or any with d_qk and d_v set",
        ),
        (
            "model:\n  tie: all",
            "x.yaml:2: model.tie: all shares one embedding between both languages; set text.joint_vocabulary: true, "
            "or model.tie: target",
        ),
        (
            "training:\n  max_epochs: null",
            "x.yaml:2: training: max_epochs and max_steps are both null; give at least one of them",
        ),
        ("data:\n  source: en", f"x.yaml:2: data: {ONE_LANGUAGE}"),
        ("data:\n  source: en\n  train: {source: a, target: b}", f"x.yaml:2: data: {ONE_LANGUAGE}"),
        (
            "model:\n  d_model: 15\n  heads: 5",
            "x.yaml:2: model: sinusoidal positions need an even d_model, not 15",
        ),
        (
            "model:\n  d_model: 12\n  heads: 4\n  positions: rotary",
            "x.yaml:4: model: rotary positions need an even d_qk (by default d_model / heads), not 3",
        ),
        (
            "model: {kind: classifier}",
            "x.yaml:1: model.kind: classifier learns from labelled text; set data.kind: labelled",
        ),
        (
            "data: {kind: labelled}",
            "x.yaml:1: data.kind: labelled is text for a classifier; set model.kind: classifier",
        ),
        (
            "data: {kind: labelled}\nmodel: {kind: classifier}\ntraining: {best: bleu}",
            "x.yaml:3, x.yaml:1: training.best: bleu is a score of translations; for labels use accuracy or loss",
        ),
        (
            "data: {kind: labelled}\nmodel: {kind: classifier}\ntext:\n  joint_vocabulary: true",
            "x.yaml:4, x.yaml:1: text.joint_vocabulary is for two languages, and labelled text has one; set it to "
            "false",
        ),
        (
            "data: {kind: labelled}\nmodel: {kind: classifier}\ntext: {target_min_freq: 1}",
            "x.yaml:3, x.yaml:1: text.target_min_freq is for target text, and labelled text has none; set it to 0",
        ),
        (
            "data: {kind: labelled}\nmodel: {kind: classifier}\ntext: {tokenizer: {target_model: x}}",
            "x.yaml:3, x.yaml:1: text.tokenizer.target_model tokenizes translations, and labels are not tokenized; "
            "leave it out",
        ),
        (
            "data: {kind: labelled, target: en}\nmodel: {kind: classifier}",
            "x.yaml:1: data.target: unknown key for kind 'labelled'; target belongs to kind parallel",
        ),
        (
            "data: {kind: labelled, filter: {untranslated: false}}\nmodel: {kind: classifier}",
            "x.yaml:1: data.filter.untranslated: unknown key; allowed here: max_tokens",
        ),
        (
            "data: {kind: labelled}\nmodel: {kind: classifier, decoder_layers: 2}",
            "x.yaml:2: model.decoder_layers: unknown key for kind 'classifier'; "
            "decoder_layers belongs to kind transformer",
        ),
        # the file
        ("seed: 1\nseed: 2", "x.yaml:2: seed: given twice, first on line 1"),
        ("extends: 5", "x.yaml:1: extends: given 5, allowed: a path"),
    ],
)
def test_one_problem_is_named_with_line_key_value_and_remedy(text: str, problem: str) -> None:
    assert problems(text) == [problem]


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("training.lrr=3", "training.lrr: unknown key; allowed here: "),
        ("extends=b.yaml", "extends is for config files; name another one with --config"),
        (
            "training.start_from=",
            "no value; leave it out for the default, or write null if the key may be empty",
        ),
        ("output= ", "no value; leave it out for the default, or write null if the key may be empty"),
        ("data.train.1.weight=3", "a list is given as a whole: data.train=[…]"),
        ("model.1.heads=3", "model.1: unknown key; in it, heads is model.heads"),
        ("model.1.x=3", "model.1: unknown key; allowed here: "),
        ("1.heads=3", "1: unknown key; in it, heads is model.heads"),
        ("training.s_of=3", "training.s_of: unknown key; allowed here: "),  # not as in "updates of the weights"
        ("training.batch.longest=3", "training.batch.longest: unknown key; allowed here: "),  # a word too common
        (
            "data.source=mt/train.de",
            "data: source is the code of a language, not a file such as 'mt/train.de'; files are named in train: ",
        ),
        (
            "data.target=mt/train.en",
            "data: target is the code of a language, not a file such as 'mt/train.en'; files are named in train: ",
        ),
        ("training.learning_rate=3", "training.learning_rate: unknown key; did you mean 'training.optimizer.lr'?"),
        ("learning_rate=3", "learning_rate: unknown key; did you mean 'training.optimizer.lr'?"),
        ("training.warm_up=3", "training.warm_up: unknown key; did you mean 'training.schedule.warmup_steps'?"),
        ("training.early_stopping=3", "training.early_stopping: unknown key; did you mean 'patience'?"),
        ("model.hidden_size=3", "model.hidden_size: unknown key; did you mean 'd_model'?"),
        ("training.max_epoch=3", "training.max_epoch: unknown key; did you mean 'max_epochs'?"),
        ("training.max_epohcs=3", "training.max_epohcs: unknown key; did you mean 'max_epochs'?"),
        ("training.save_steps=3", "training.save_steps: unknown key; did you mean 'checkpoint_every'?"),
        ("training.batch_size=3", "training.batch_size: unknown key; did you mean 'batch'?"),
        ("decoding.batch_size=3", "decoding.batch_size: unknown key; did you mean 'batch_tokens'?"),
        (
            "decoding.max_length=60",
            "decoding.max_length: unknown key; translations have at most decoding.max_ratio tokens for each source "
            "token, plus decoding.max_extra",
        ),
        ("data.filter.max_length=60", "data.filter.max_length: unknown key; did you mean 'max_tokens'?"),
        ("decoding.top_p=0.9", "decoding.top_p: unknown key; decoding.top_k limits what is sampled"),
        (
            "decoding.no_repeat_ngram_size=3",
            "decoding.no_repeat_ngram_size: unknown key; search neither forbids repetitions nor sets a least length",
        ),
        (
            "training.keep_best_ckpts=3",
            "training.keep_best_ckpts: unknown key; model.safetensors in the run's folder is always the best one",
        ),
        (
            "text.tokenizer.sentencepiece_model=spm.model",
            "text.tokenizer.sentencepiece_model: unknown key; tokenizers and vocabularies are learned from the "
            "training text; none are read",
        ),
        (
            "training.precision=fp16",
            "training.precision: given 'fp16', allowed: one of auto, float32, bfloat16; did you mean 'bfloat16'?",
        ),
        ("emb-size=3", "emb-size: unknown key; did you mean 'model.d_model'?"),
        ("data.test=3", "data.test: unknown key; evaluate.py --split NAME scores any split"),
        (
            "text.tokenizer={kind: bpe, max_vocab_size: 3}",
            "text.tokenizer.max_vocab_size: unknown key; did you mean 'vocab_size'?",
        ),
        (
            "text.tokenizer={kind: word, max_vocab_size: 3}",
            "text.tokenizer.max_vocab_size: unknown key; did you mean 'max_size'?",
        ),
        (
            "text.tokenizer={kind: char, voc_limit: 3}",
            "text.tokenizer.voc_limit: unknown key; its name here, 'vocab_size', belongs to another kind",
        ),
        ("training.optimizer={name: adam}", "training.optimizer.name: unknown key; did you mean 'kind'?"),
        ("name=x", "name: unknown key; did you mean 'output'?"),
        (
            "model={encoder: {num_layers: 6, embeddings: {embedding_dim: 512}, num_heads: 8, x: 1}}",
            "model.encoder: unknown key; in it, num_layers is model.encoder_layers, embedding_dim is model.d_model, "
            "num_heads is model.heads",
        ),
        (
            "data.src={lang: de, lowercase: true, seed: 3}",
            "data.src: unknown key; in it, lang is data.source, lowercase is text.tokenizer.lowercase",
        ),
        ("model.decoder={num_layers: 6}", "model.decoder: unknown key; in it, num_layers is model.decoder_layers"),
        ("model.x={max_len: 5}", "model.x: unknown key; in it, max_len is model.max_positions"),
        ("model.x={max_tokens: 5}", "model.x: unknown key; allowed here: "),
        ("x={model: transformer, a: {lr: 1}, b: {lr: 2}}", "x: unknown key; in it, lr is training.optimizer.lr"),
        ("testing={batch_size: 5}", "testing: unknown key; in it, batch_size is decoding.batch_tokens"),
        ("training.decay_method={kind: cosine}", "training.decay_method: unknown key; did you mean 'schedule'?"),
        ("training.batch.batch_size=3", "training.batch.batch_size: unknown key; did you mean 'max_sentences'?"),
        ("training.optimizer.optim=3", "training.optimizer.optim: unknown key; allowed here: "),
        ("training.dropout_rate=0.1", "training.dropout_rate: unknown key; did you mean 'model.dropout'?"),
        ("model.encoder={}", "model.encoder: unknown key; allowed here: "),
        ("model.encoder=6", "model.encoder: unknown key; did you mean 'encoder_layers'?"),
        ("trainig.max_epochs=3", "trainig: unknown key; did you mean 'training'?"),
        ("foo", "write section.key=value"),
        ("=3", "write section.key=value"),
        ("model..heads=3", "write section.key=value"),
        ("model.heads.x=3", "model.heads is a single value and has no keys"),
        ("model.heads=no", "model.heads: given 'no', allowed: a whole number from 1 to 10000000"),
        ("model=3", "model: given 3, allowed: a section of kind transformer or classifier"),
        ("model.heads=[1", "not YAML (column 3): while parsing a flow sequence, expected ',' or ']', "),
        ("model={heads: 4, heads: 8}", "heads: given twice, first on line 1"),
        (
            "text.tokenizer={kind: bpe, lowercase: true, truecase: true}",
            "text.tokenizer: lowercase leaves truecase nothing to do; set only one of the two",
        ),
        (
            "model.d_model=250",
            "model: heads: 8 does not divide d_model: 250; "
            "possible: [1, 2, 5, 10, 25, 50], or any with d_qk and d_v set",
        ),
        (
            "training.optimizer=adam",
            "training.optimizer: given 'adam', allowed: a section of kind adam or adamw or muon; ",
        ),
    ],
)
def test_a_bad_override_is_named_as_it_was_typed(override: str, problem: str) -> None:
    (line,) = problems("", override)
    assert line.startswith(f"override {override!r}: {problem}")


def test_all_problems_are_reported_at_once() -> None:
    text = "model:\n  dropout: 2\n  tie: all\n  tei: all\ndata:\n  source: en\ndevice: tpu\ndevice: gpu\n"
    assert problems(text, "seed=x:1, 2", "threads") == [
        "x.yaml:2: model.dropout: given 2, allowed: a number from 0 to below 1",
        "x.yaml:3: model.tie: all shares one embedding between both languages; set text.joint_vocabulary: true, or "
        "model.tie: target",
        "x.yaml:4: model.tei: unknown key; did you mean 'tie'?",
        f"x.yaml:6: data: {ONE_LANGUAGE}",
        "x.yaml:8: device: given twice, first on line 7",
        "x.yaml:8: device: given 'gpu', allowed: one of auto, cpu, cuda; did you mean 'cuda'?",
        "override 'threads': write section.key=value",
        "override 'seed=x:1, 2': seed: given 'x:1, 2', allowed: a whole number from 0 to below 4294967296",
    ]


def test_a_contradiction_is_at_all_settings_that_are_part_of_it() -> None:
    assert problems("data:\n  train:\n    split: a\n    weight: 2\n    source: b") == [
        "x.yaml:3, x.yaml:5: data.train: a corpus is either a split or two files; give split, or source and target"
    ]


def test_nothing_is_said_of_the_defaults_of_a_section_that_is_none() -> None:
    assert problems("data: {kind: labelled}\nmodel: 5") == [
        "x.yaml:2: model: given 5, allowed: a section of kind transformer or classifier"
    ]


def test_a_contradiction_in_a_list_hides_no_other() -> None:
    either_or = "a corpus is either a split or two files; give split, or source and target"
    assert problems("data:\n  train: [{split: a, source: b}, {weight: 2}]\nmodel: {tie: all}") == [
        f"x.yaml:2: data.train.0: {either_or}",
        f"x.yaml:2: data.train.1: {either_or}",
        "x.yaml:3: model.tie: all shares one embedding between both languages; set text.joint_vocabulary: true, or "
        "model.tie: target",
    ]


@pytest.mark.parametrize("value", ['"a\\0b"', '"\\ud800"', "\udcff"])
@pytest.mark.parametrize("key", ["output", "data.root", "training.start_from", "seed"])
def test_characters_that_no_name_can_have(key: str, value: str) -> None:
    problem, *_ = problems("", f"{key}={value}")
    assert "has an invalid character; remove it" in problem or "not YAML: unprintable character" in problem


def test_keys_that_are_no_text() -> None:
    assert problems("", "ou\udcffput=3") == ["override 'ou\\udcffput=3': write section.key=value"]


@pytest.mark.parametrize("override", ["output=a #2", "output=#2", "output='a' #", "data={source: x} #2"])
def test_a_comment_would_cut_off_what_an_override_says(override: str) -> None:
    assert problems("", override) == [
        f"override {override!r}: ' #' begins a comment; put text that holds it in quotes, inside the shell's"
    ]


@pytest.mark.slow
def test_numbers_and_lists_without_an_end() -> None:
    (problem,) = problems("", f"seed={'9' * 5000}")
    assert problem.endswith(f"allowed: {SEEDS}")


@pytest.mark.parametrize("depth", [60, 400, 5000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ("{a: ", "}")])
def test_nested_without_an_end(depth: int, opened: str, closed: str) -> None:
    (problem,) = problems("", f"data.train={opened * depth}1{closed * depth}")
    assert problem.endswith(": nested too deeply")


@pytest.mark.parametrize(
    "override",
    [
        "text.tokenizer={kind: bpe, vocab_size: 2000000000}",
        "text.tokenizer.min_freq=1000000000000000000000000000000",
        "model.d_model=100000",
        "model.d_qk=100000",
        "model.encoder_layers=1001",
        "model.max_positions=10000000000000000000",
        "training.samples=1000000000000",
        "training.r_drop=1e40",
        "training.optimizer.eps=1e-46",
        "model.embedding_norm_eps=1e-46",
    ],
)
def test_numbers_that_no_machine_can_work_with(override: str) -> None:
    (problem,) = problems("", override)
    assert ", allowed: a " in problem


def test_a_link_to_itself(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    Path("x.yaml").touch()
    assert load_config(Path("x.yaml"), ["output=loop"]).output == tmp_path / "loop"
    with pytest.raises(ConfigError, match="loop"):
        load_config(tmp_path / "loop", [])


def test_a_contradiction_names_every_place_that_takes_part() -> None:
    assert problems("model:\n  d_model: 250\n", "model.heads=4") == [
        "override 'model.heads=4', x.yaml:2: model: heads: 4 does not divide d_model: 250; "
        "possible: [1, 2, 5, 10, 25, 50], or any with d_qk and d_v set"
    ]


def test_contradictions_are_reported_all_at_once() -> None:
    text = """\
data: {kind: labelled}
model: {kind: classifier, heads: 3, d_model: 257}
text: {joint_vocabulary: true}
training: {best: bleu, start_from: x, max_epochs: null}
"""
    assert [line.split(":")[1:4] for line in problems(text)] == [
        ["2", " model", " heads"],
        ["2", " model", " sinusoidal positions need an even d_model, not 257"],
        ["3, x.yaml", "1", " text.joint_vocabulary is for two languages, and labelled text has one; set it to false"],
        ["4", " training", " max_epochs and max_steps are both null; give at least one of them"],
        ["4, x.yaml", "1", " training.best"],
        ["4, x.yaml", "1", " training.start_from is for translation"],
    ]


def test_a_bad_value_is_not_reported_again_as_a_contradiction() -> None:
    assert problems("model:\n  d_model: wide\n  heads: 7\n") == [
        "x.yaml:2: model.d_model: given 'wide', allowed: a whole number from 1 to 65536"
    ]


def test_a_problem_is_named_in_the_file_that_holds_it() -> None:
    Path("base").mkdir()
    Path("base/base.yaml").write_text("seed: 1\nmodel:\n  heads: x\n  dropout: 3\n", encoding="utf-8")
    assert problems("extends: base/base.yaml\nmodel:\n  dropout: 4\n") == [
        "base/base.yaml:3: model.heads: given 'x', allowed: a whole number from 1 to 10000000",
        "x.yaml:3: model.dropout: given 4, allowed: a number from 0 to below 1",
    ]


OPTIMIZERS = "a section of kind adam or adamw or muon; write {kind: 'adam'}"


@pytest.mark.parametrize(
    ("text", "override", "problem"),
    [
        ("optimizer: adam", "training.optimizer.lr=1", f"optimizer: given 'adam', allowed: {OPTIMIZERS}"),
        ("optimizer: adam", "training.optimizer={kind: adam}", f"optimizer: given 'adam', allowed: {OPTIMIZERS}"),
        ("batch: 4096", "training.batch.accumulate=2", "batch: given 4096, allowed: a section with max_tokens, "),
        (
            "batch: [4096]",
            "training.batch={accumulate: 2}",
            "batch: given [4096], allowed: a section with max_tokens, ",
        ),
    ],
)
def test_a_value_in_place_of_a_section_is_a_problem_even_if_another_one_sets_keys_of_it(
    text: str, override: str, problem: str
) -> None:
    (found,) = problems(f"training: {{{text}}}", override)
    assert found.startswith(f"x.yaml:1: training.{problem}")
    Path("base.yaml").write_text(f"training: {{{text}}}", encoding="utf-8")
    keys, value = override.split("=")
    outer, *inner = keys.split(".")
    nested = value if not inner else f"{{{': {'.join(inner)}: {value}{'}' * len(inner)}"
    (found,) = problems(f"extends: base.yaml\n{outer}: {nested}")
    assert found.startswith(f"base.yaml:1: training.{problem}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("training.optimizer=adam", "training.optimizer.lr=1"),
        ("training.optimizer=adam", "training={optimizer: {lr: 1}}"),
        ("training=5", "training.optimizer.lr=1"),
        ("data.train=clean", "data.train.weight=5"),
        ("training={optimizer: adam}", "training.optimizer.lr=1"),
    ],
)
def test_overrides_that_contradict_each_other(one: str, other: str) -> None:
    found = problems("", one, "seed=3", other)
    assert f"override {other!r}: contradicts override {one!r}; leave one of them out" in found


@pytest.mark.parametrize(
    ("override", "remedy"),
    [
        ("training.precision=bf16", "; did you mean 'bfloat16'?"),
        ("training.best=PPL", "; did you mean 'loss'?"),
        ("text.tokenizer.kind=subword", "; did you mean 'bpe'?"),
        ("model.positions=rope", "; did you mean 'rotary'?"),
        ("training.schedule=Noam", "; write {kind: 'inverse_sqrt'}"),
        ("text.tokenizer=BPE", "; write {kind: 'bpe'}"),
        ("device=cuda:1", "; write 'cuda', and choose the GPU by CUDA_VISIBLE_DEVICES in the environment"),
        ("training.schedule.kind=plateau", "allowed: one of constant, inverse_sqrt, cosine, linear"),
    ],
)
def test_words_of_other_toolkits(override: str, remedy: str) -> None:
    (found,) = problems("", override)
    assert found.endswith(remedy)


@pytest.mark.parametrize("override", ["data.valid={src: a, tgt: b}", "data.train=[{path_src: a, path_tgt: b}]"])
def test_files_as_other_toolkits_name_them(override: str) -> None:
    found = "\n".join(problems("", override))
    assert found.count("unknown key; did you mean 'source'?") == 1
    assert found.count("unknown key; did you mean 'target'?") == 1


def test_the_config_of_another_toolkit() -> None:
    text = "name: x\ntesting: {}\nmodel: {encoder: {num_layers: 6}, initializer: xavier, bias_init: zeros}\n"
    hint = "; docs/migrating.md has the names of fairseq and JoeyNMT"
    for content, line in (
        (text, f"5 problems in x.yaml{hint}:"),
        (text.replace("name: x\n", ""), "4 problems in x.yaml:"),
    ):
        Path("x.yaml").write_text(content, encoding="utf-8")
        with pytest.raises(ConfigError) as caught:
            load_config(Path("x.yaml"))
        assert str(caught.value).split("\n")[0] == line


def test_of_very_many_problems_only_the_first_are_listed() -> None:
    """As where a file of something else is given for a config."""
    Path("x.yaml").write_text("".join(f"key{number}: 1\n" for number in range(1000)), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(Path("x.yaml"))
    header, *lines = str(caught.value).split("\n  ")
    assert header.startswith("1000 problems in x.yaml")
    assert len(lines) == MAX_LISTED + 1
    assert lines[MAX_LISTED - 1].startswith(f"x.yaml:{MAX_LISTED}: key{MAX_LISTED - 1}: unknown key")
    assert lines[MAX_LISTED] == f"… and {1000 - MAX_LISTED} more"


@pytest.mark.parametrize("key", ["seed.x", "model.d_modle", "extends.x"])
def test_no_advice_leads_to_another_unknown_key(key: str) -> None:
    (found,) = problems(f"{key}: 1")
    assert found.startswith(f"x.yaml:1: {key}: unknown key; ")
    assert "write" not in found


@pytest.mark.parametrize("text", ["[1, 2]", "word", "3"])
def test_the_top_level_must_hold_sections(text: str) -> None:
    Path("x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^x\.yaml:1: given .*, allowed: sections such as 'model:', or nothing$"):
        load_config(Path("x.yaml"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"x": "b"}, "x.yaml:1: extends: b.yaml: no such file; that folder holds x.yaml"),
        ({"x": "x"}, "x.yaml:1: extends: x.yaml: extends itself: x.yaml → x.yaml"),
        (
            {"x": "bb", "bb": "cc", "cc": "bb"},
            "x.yaml:1: extends: bb.yaml:1: extends: cc.yaml:1: extends: bb.yaml: "
            "extends itself: bb.yaml → cc.yaml → bb.yaml",
        ),
    ],
)
def test_a_file_that_cannot_be_extended(files: dict[str, str], message: str) -> None:
    for name, extended in files.items():
        Path(f"{name}.yaml").write_text(f"extends: {extended}.yaml\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(Path("x.yaml"))
    assert str(caught.value) == message


def test_a_stored_config_is_checked_the_same_way() -> None:
    values = config_to_dict(Config())
    values["model"]["heads"] = 7
    values["training"]["optimizer"]["lrr"] = 1
    with pytest.raises(ConfigError) as caught:
        config_from_dict(values)
    assert str(caught.value) == (
        "2 problems in the stored config:\n"
        "  stored config: model: heads: 7 does not divide d_model: 256; "
        "possible: [1, 2, 4, 8, 16, 32, 64], or any with d_qk and d_v set\n"
        "  stored config: training.optimizer.lrr: unknown key; did you mean 'lr'?"
    )


WORDS = ["adam", "cosine", "all", "no", "12", "1e3", "de", "", "train"]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=3)
)
keys = st.sampled_from(sorted({key for _, section in all_sections() for key in section.model_fields})) | st.text(
    max_size=3
)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3))


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(sorted(Config.model_fields)), st.dictionaries(keys, anything, max_size=3) | anything
    ),
    st.lists(st.tuples(st.lists(keys, max_size=3), st.sampled_from(["=", ""]), st.text(max_size=4)), max_size=2),
)
def test_whatever_is_written_becomes_a_config_or_one_clear_error(
    values: dict[str, Any], overrides: list[tuple[list[str], str, str]]
) -> None:
    Path("x.yaml").write_text(to_yaml(values), encoding="utf-8")
    try:
        config = load_config(Path("x.yaml"), [".".join(path) + equals + text for path, equals, text in overrides])
    except ConfigError as error:
        message = str(error)
    else:
        message = ""
        assert config_from_dict(config_to_dict(config)) == config
    assert re.match(r"$|\d+ problems? in x\.yaml(; docs/migrating\.md [a-zA-Z ]+)?:\n  ", message)
    assert "pydantic" not in message
