"""translate.py: which model translates, and on which device."""

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


@pytest.mark.parametrize("separator", [":", ","])
def test_two_files_in_one_argument_are_an_ensemble(
    separator: str, call: Call, project: Project, tmp_path: Path
) -> None:
    both = f"{shutil.copy(project.model, tmp_path)}{separator}{project.model}"
    said = call(main, "--checkpoint", both, "el gato")
    assert (said.code, said.err) == (2, f"error: {both} names several files; for an ensemble, repeat --checkpoint\n")
    assert "is missing; give a .safetensors" in call(main, "--checkpoint", f"{both}x", "el gato").err


def test_no_cuda(translate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = "device: cuda requested, but PyTorch finds no CUDA device; use device: auto or device: cpu"
    assert translate("--device", "cuda", "el gato") == Outcome(2, "", f"error: {message}\n")
