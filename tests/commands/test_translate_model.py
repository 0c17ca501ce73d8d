"""translate.py: which model translates, and what is no model."""

import shutil
from pathlib import Path

import pytest
import torch
from tiny_project import Call, Outcome, Project, joined

from translate.commands.translate import main
from translate.translator import Translator


def test_several_models_translate_together(translate: Call, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[list[Path]] = []
    load = Translator.load

    def spy(paths: list[Path], device: str) -> Translator:
        loaded.append(paths)
        return load(paths, device)

    monkeypatch.setattr(Translator, "load", spy)
    assert translate("--checkpoint", project.model, "el gato").code == 0
    assert loaded == [[project.model] * 2]  # the fixture's and this one


def test_the_newest_finished_run_is_named(
    call: Call, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    run = shutil.copytree(project.model.parent, tmp_path / "checkpoints" / "newest")
    said = call(main, "el gato")
    assert said == Outcome(0, joined(translator.translate(["el gato"])), f"model: {run}/model.safetensors\n")


def test_no_model_at_all(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.system.paths.project_root", lambda: tmp_path)
    assert call(main, "el gato") == Outcome(
        2,
        "",
        f"error: no finished run under {tmp_path}/checkpoints; train one with: python scripts/train.py --config "
        "configs/demo.yaml, or name a model file with --checkpoint FILE\n",
    )


@pytest.mark.parametrize("separator", [":", ","])
def test_two_files_in_one_argument_are_an_ensemble(
    separator: str, call: Call, project: Project, tmp_path: Path
) -> None:
    both = f"{shutil.copy(project.model, tmp_path)}{separator}{project.model}"
    said = call(main, "--checkpoint", both, "el gato")
    assert (said.code, said.err) == (2, f"error: {both} names several files; for an ensemble, repeat --checkpoint\n")
    assert "is missing; give a .safetensors" in call(main, "--checkpoint", f"{both}x", "el gato").err


def test_what_is_no_model(call: Call, project: Project, tmp_path: Path) -> None:
    absent, state = tmp_path / "absent.safetensors", max(project.folder.glob("run/states/*.safetensors"))
    for path, message in (
        (absent, "is missing; give a .safetensors file"),
        (
            state,
            "is not a model: its format is 'translate training state 2', not 'translate model 1'; give the "
            "model.safetensors of a run",
        ),
    ):
        said = call(main, "--checkpoint", path, "el gato")
        assert said == Outcome(2, "", f"error: {path} {message}\n")


def test_no_cuda(translate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = "device: cuda requested, but PyTorch finds no CUDA device; use device: auto or device: cpu"
    assert translate("--device", "cuda", "el gato") == Outcome(2, "", f"error: {message}\n")
