"""Which translation benchmarks/rerank.py chooses."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rerank import Candidates, main, p_value, unique
from saved_models import ENGLISH, GERMAN, save_model

from translate.model_file import SavedModel

CANDIDATES = Candidates(
    lines=np.array([0, 0, 0, 1, 1]),
    texts=["a dog", "the dog", "a big dog that barks", "cats", "cat"],
    forward=np.array([-2.0, -3.0, -3.5, -1.0, -1.5]),
    reverse=np.array([-9.0, -1.0, -9.0, -1e9, -2.0]),
    firsts=[],
)


@pytest.mark.parametrize(
    ("exponent", "weight", "chosen"),
    [
        (0.0, 0.0, ["a dog", "cats"]),  # the most probable
        (1.0, 0.0, ["a big dog that barks", "cats"]),  # a token: -2/3, -3/3, -3.5/6
        (0.0, 1.0, ["the dog", "cat"]),  # that explain the source
    ],
)
def test_the_choice(exponent: float, weight: float, chosen: list[str]) -> None:
    assert CANDIDATES.choose(exponent, weight) == chosen


def test_each_text_once() -> None:
    assert unique(["b", "a", "b"]) == ["b", "a"]


def test_p_value() -> None:
    references = [f"the {number} dogs bark at a cat on a tree" for number in range(30)]
    worse = [line.replace("at a cat", "to cats") for line in references]
    assert p_value(references, worse, references) < 0.01
    assert p_value(worse, worse, references) == 1


@pytest.mark.parametrize("replaced", ["first", "second", "reverse"])
def test_no_model_is_replaced_by_its_translations(
    replaced: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, reverse, output = (str(tmp_path / name) for name in ("first", "second", "reverse", replaced))
    Path(output).write_text("weights", encoding="utf-8")
    models = ["--system", f"{first},{second}", "--reverse", reverse]
    files = ["--data", str(tmp_path), "--input", str(tmp_path / "text"), "--output", output]
    monkeypatch.setattr(sys, "argv", ["rerank.py", *models, *files])
    assert main() == 2
    assert f"error: the translations would overwrite the model {output}" in capsys.readouterr().err


@pytest.fixture
def refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What is said to these arguments, before anything is translated."""
    for name in ("text", "val.de", "val.en", "test_2016_flickr.de", "test_2016_flickr.en"):
        (tmp_path / name).write_text("Hund .\n", encoding="utf-8")
    monkeypatch.setattr("rerank.choose", lambda *_: pytest.fail("it has begun"))

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["rerank.py", "--data", str(tmp_path), *arguments])
        assert main() == 2
        return capsys.readouterr().err

    return run


def test_models_of_the_wrong_direction_are_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    forward, backward = str(tmp_path / "forward.safetensors"), str(tmp_path / "backward.safetensors")
    saved = SavedModel.load(save_model(Path(forward)))
    replace(saved, source=ENGLISH, target=GERMAN).save(backward)
    expected = f"error: {backward} translates en to de; give models for de to en\n"
    assert refusal("--system", forward, "--system", backward) == expected
    expected = f"error: {forward},{forward} translates de to en; give models for en to de\n"
    assert refusal("--system", forward, "--reverse", f"{forward},{forward}") == expected


def test_where_nothing_can_be_written_nothing_is_translated(refusal: Callable[..., str], tmp_path: Path) -> None:
    model = str(save_model(tmp_path / "model.safetensors"))
    said = refusal("--system", model, "--input", str(tmp_path / "text"), "--output", str(tmp_path))
    assert said == f"error: cannot write {tmp_path}: Is a directory; name another file: --output FILE\n"


@pytest.mark.parametrize("names", ["", "a,", ",b"])
def test_names_between_commas_are_not_empty(
    names: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rerank.py", "--data", ".", "--system", "a", "--reverse", names])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"argument --reverse: {names!r} has no name before or after a comma" in capsys.readouterr().err


def test_no_text_of_the_corpus_is_replaced_by_translations(refusal: Callable[..., str], tmp_path: Path) -> None:
    model, output = str(save_model(tmp_path / "model.safetensors")), tmp_path / "val.en"
    said = refusal("--system", model, "--input", str(tmp_path / "text"), "--output", str(output))
    assert (
        said == f"error: the translations would overwrite a file of --data {output}; name another file: --output FILE\n"
    )
    assert output.read_text(encoding="utf-8") == "Hund .\n"
