"""A trained model in one file: what is saved comes back, and nothing else is needed to read it."""

import math
import operator
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn, get_args

import pytest
import torch

from translate import Translator
from translate.config.model import TransformerConfig
from translate.config.schema import Config
from translate.errors import CheckpointError
from translate.model_file import SavedModel, fresh_model, load_weights, weights_of
from translate.system.storage import read_tensors, write_tensors
from translate.text.codec import Codec
from translate.text.spacing import Spacing
from translate.text.vocabulary import Vocabulary
from translate.text.words import WordTokenizer

ROOT = Path(__file__).resolve().parents[1]
SPACING = Spacing(joins_left=frozenset("."))
GERMAN = Codec(WordTokenizer("de", spacing=SPACING), Vocabulary(("Hund", "Katze", ".", "schläft")))
ENGLISH = Codec(WordTokenizer("en", lowercase=True, spacing=SPACING), Vocabulary(("dog", "cat", ".", "sleeps", "a")))
ABOUT: dict[str, Any] = {"variant": "made up", "step": 12, "validation": {"bleu": 31.5}}
TIES = get_args(TransformerConfig.model_fields["tie"].annotation)


def new_model(tie: str = "target", source: Codec = GERMAN, target: Codec = ENGLISH, **settings: str) -> SavedModel:
    """A small model with random weights."""
    sizes = {"d_model": 8, "ffn": 12, "encoder_layers": 1, "decoder_layers": 2, "heads": 2, "tie": tie, **settings}
    config = Config.model_validate({"model": sizes, "text": {"joint_vocabulary": tie == "all"}})
    torch.manual_seed(0)
    return SavedModel(config, source, target, weights_of(fresh_model(config, source, target)), ABOUT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    new_model().save(path)
    return path


@pytest.mark.parametrize(("tie", "shared"), [*((tie, 4) for tie in TIES), ("all", 2)])
def test_what_is_saved_comes_back(tmp_path: Path, tie: str, shared: int) -> None:
    target = Codec(ENGLISH.tokenizer, Vocabulary(GERMAN.vocabulary.words[:shared])) if tie == "all" else ENGLISH
    saved, path = new_model(tie, GERMAN, target), tmp_path / "model.safetensors"
    saved.save(path)
    found = SavedModel.load(path)
    assert (found.config, found.source, found.target, found.about) == (saved.config, GERMAN, target, ABOUT)
    assert found.weights.keys() == saved.weights.keys()
    assert all(torch.equal(found.weights[name], saved.weights[name]) for name in saved.weights)


@pytest.mark.parametrize(("tie", "matrices"), [("none", 3), ("target", 2), ("all", 1)])
def test_tied_weights_are_stored_once_and_tied_again(tmp_path: Path, tie: str, matrices: int) -> None:
    target = Codec(ENGLISH.tokenizer, GERMAN.vocabulary) if tie == "all" else ENGLISH
    saved, path = new_model(tie, GERMAN, target), tmp_path / "model.safetensors"
    saved.save(path)
    stored, _ = read_tensors(path)
    names = [name for name in stored if "embedding.tokens" in name or name == "projection.weight"]
    assert len(names) == matrices

    model = SavedModel.load(path).model()
    assert not model.training
    assert (model.projection.weight is model.target_embedding.tokens.weight) == (tie != "none")
    assert (model.source_embedding.tokens.weight is model.target_embedding.tokens.weight) == (tie == "all")
    ids, mask = torch.tensor([[4, 5, 6]]), torch.ones(1, 3, dtype=torch.bool)
    original = fresh_model(saved.config, GERMAN, target).eval()
    load_weights(original, saved.weights)
    assert torch.equal(model(ids, mask, ids, mask), original(ids, mask, ids, mask))


def test_weights_are_copied_and_not_shared() -> None:
    saved = new_model()
    model = saved.model()
    with torch.no_grad():
        model.projection.weight.zero_()
    assert saved.weights["target_embedding.tokens.weight"].any()


def test_a_model_without_its_weights_replaces_none(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"the model has no weights here; take it from SavedModel\.load$"):
        Translator.load(path, "cpu").saved.save(path)
    assert path.read_bytes() == before


def test_what_is_shown_of_a_model_is_what_people_want_to_know() -> None:
    assert repr(new_model()) == f"SavedModel(about={ABOUT})"


def test_the_longest_source_is_at_most_what_the_filter_lets_pass() -> None:
    saved = new_model()
    assert saved.longest_source == saved.config.data.filter.max_tokens == 200
    assert replace(saved, about={"longest_source": 62}).longest_source == 62


def test_models_may_be_keys_though_tensors_cannot_be_compared_as_a_whole() -> None:
    assert len({new_model(), new_model()}) == 2


def test_models_are_made_in_float32_whatever_the_default_is() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        weights = weights_of(new_model().model())
    finally:
        torch.set_default_dtype(torch.float32)
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_models_are_made_on_the_cpu_whatever_the_default_is() -> None:
    """On the device "meta", tensors have no content."""
    saved = new_model()
    with torch.device("meta"):
        weights = weights_of(saved.model())
    assert all(torch.equal(weights[name], saved.weights[name]) for name in weights)


def test_weights_that_do_not_fit() -> None:
    saved = new_model()
    model = saved.model()
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    weights = dict(saved.weights)
    weights["renamed"] = weights.pop("projection.bias")
    weights["encoder_norm.weight"] = torch.ones(3)
    weights["encoder.0.feed_forward.expand.weight"] = weights["encoder.0.feed_forward.expand.weight"].T
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, {name: torch.zeros_like(tensor) for name, tensor in weights.items()})
    assert str(caught.value) == (
        "the weights do not fit the model's settings: projection.bias, renamed, "
        "encoder.0.feed_forward.expand.weight, encoder_norm.weight"
    )
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


@pytest.mark.parametrize(("values", "found"), [({"format": "translate state 1"}, "translate state 1"), ({}, "unknown")])
def test_another_format_is_refused(tmp_path: Path, values: dict[str, str], found: str) -> None:
    path = tmp_path / "state.safetensors"
    write_tensors(path, {"weight": torch.ones(2)}, values)
    with pytest.raises(CheckpointError) as caught:
        SavedModel.load(path)
    assert str(caught.value) == (
        f"{path} is not a model: its format is '{found}', not 'translate model 1'; give the model.safetensors of a run"
    )


def test_weights_may_have_an_infinite_sum(path: Path) -> None:
    saved = SavedModel.load(path)
    weights = next(iter(saved.weights.values()))
    weights.flatten()[:2] = torch.finfo(weights.dtype).max
    saved.save(path)
    assert weights.sum().isinf()
    assert SavedModel.load(path).weights.keys() == saved.weights.keys()


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_weights_that_are_no_numbers_are_refused(value: float, path: Path) -> None:
    saved = SavedModel.load(path)
    name = list(saved.weights)[-1]
    saved.weights[name].flatten()[-1] = value
    saved.save(path)
    with pytest.raises(CheckpointError) as caught:
        SavedModel.load(path)
    assert str(caught.value) == (
        f"{path} has weights that are infinite or NaN ({name}): its training has diverged; train it again with a lower "
        "training.optimizer.lr"
    )


def test_settings_of_another_version_are_refused_by_file(path: Path) -> None:
    tensors, values = read_tensors(path)
    values["config"]["model"]["new_setting"] = 1
    write_tensors(path, tensors, values)
    message = f"{path} was made by another version of this project: 1 problem in the stored config"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        SavedModel.load(path)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (["config"], None),
        (["config", "model", "heads"], [[1]]),
        (["source"], 7),
        (["source", "tokenizer", "kind"], []),
        (["source", "tokenizer", "spacing", "joined"], [[1]]),
        (["target"], {}),
        (["target", "words"], 7),
    ],
)
def test_a_part_of_another_type_is_refused_by_file(keys: list[str], wrong: Any, path: Path) -> None:
    tensors, values = read_tensors(path)
    *above, last = keys
    reduce(operator.getitem, above, values)[last] = wrong
    write_tensors(path, tensors, values)
    message = f"{path} was made by another version of this project: "
    with pytest.raises(CheckpointError, match=re.escape(message)):
        SavedModel.load(path)


@pytest.mark.parametrize("key", ["config", "source", "target", "about"])
def test_a_part_that_is_missing_is_refused_by_file(key: str, path: Path) -> None:
    tensors, values = read_tensors(path)
    del values[key]
    write_tensors(path, tensors, values)
    message = (
        f"{path} was made by another version of this project: its settings or vocabularies cannot be read "
        f"(KeyError: '{key}'); use the version that made it"
    )
    with pytest.raises(CheckpointError, match=re.escape(message)):
        SavedModel.load(path)


@pytest.mark.parametrize("settings", [{"tie": "none"}, {"positions": "learned"}, {"embedding_init": "xavier"}])
def test_a_model_is_made_without_random_numbers(settings: dict[str, str]) -> None:
    """Drawing those that its weights replace would take longer than all the rest."""
    saved = new_model(**settings)
    before = torch.get_rng_state()
    assert all(torch.equal(found, saved.weights[name]) for name, found in weights_of(saved.model()).items())
    assert torch.equal(torch.get_rng_state(), before)


def test_no_pickle_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a pickle is read")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    SavedModel.load(path).model()


WITHOUT_LIBRARIES = """
import sys
for name in ("torchtext", "spacy", "sacrebleu"):
    sys.modules[name] = None  # from now on importing it raises ImportError
from pathlib import Path
from translate import Translator
translator = Translator.load(Path(sys.argv[1]), "cpu")
((found,),) = translator.n_best_of_ids([[4, 6]], 1, translator.config.decoding)
assert isinstance(found.text, str) and found.length > 0
print("ok", *translator.saved.target.vocabulary.strings([4, 7, 6]), translator.saved.target.decode([4, 7, 6]))
"""


@pytest.mark.slow
def test_a_model_loads_and_searches_without_the_libraries_of_training(path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES, str(path)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (finished.stdout, finished.returncode) == ("ok dog sleeps . dog sleeps.\n", 0), finished.stderr
