"""What the pages show can be used as it stands: their configs load, their settings exist, their Python runs.

docs/tour.md and docs/text.md run as doctests.
"""

import re
import shlex
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from own_logging import own_logging
from saved_models import save_model

from translate.commands import split
from translate.config.loading import dump_config, load_config
from translate.config.schema import Config
from translate.data.corpus import open_pair
from translate.model_file import SavedModel

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
# `section.key=value`, `section.key: value` or `section: {…}`, unless capitals or dots stand for something.
SETTING = re.compile(rf"`((?:{'|'.join(Config.model_fields)})(?:\.\w+)*)(?:=|: )([^`A-Z…]+)`")
LABELS = ["model.kind=classifier", "data.kind=labelled"]  # which go together


def snippets(language: str) -> list[str]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, flags=re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, its_language, code in found if its_language == language]


def settings() -> list[str]:
    found = {f"{key}={value}" for page in PAGES for key, value in SETTING.findall(page.read_text(encoding="utf-8"))}
    return sorted(found)


@pytest.mark.parametrize("text", snippets("yaml"))
def test_configs_load(text: str, tmp_path: Path) -> None:
    """Beside those that come with the project, the reader's own, and a run called `mine`."""
    configs, run = tmp_path / "configs", tmp_path / "checkpoints" / "mine"
    shutil.copytree(ROOT / "configs", configs)
    (mine,) = (snippet for snippet in snippets("yaml") if snippet.startswith("# configs/mine.yaml\n"))
    (configs / "mine.yaml").write_text(mine, encoding="utf-8")
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(dump_config(load_config(configs / "multi30k.yaml")), encoding="utf-8")
    (configs / "shown.yaml").write_text(text, encoding="utf-8")
    load_config(configs / "shown.yaml")


@pytest.mark.parametrize("setting", settings())
def test_settings_exist(setting: str) -> None:
    both = LABELS if re.search("classifier|labelled", setting) else []
    load_config(ROOT / "configs" / "multi30k.yaml", [setting, *both])


def trainings() -> list[str]:
    """What stands behind `scripts/train.py --config` in code, without comments."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    return sorted(set(re.findall(r"^ *python scripts/train\.py --config ([^#\n]*[^#\s])", text, flags=re.MULTILINE)))


@pytest.mark.parametrize("training", trainings())
def test_trainings_have_a_config_and_settings_that_exist(training: str) -> None:
    config, *overrides = training.replace("$seed", "1").replace("SEED", "1").split()
    if config != "configs/mine.yaml":  # the reader's own
        load_config(ROOT / config, [override for override in overrides if not override.startswith("--")])


def test_a_corpus_is_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, word in (("all.XX", "Satz"), ("all.YY", "sentence")):
        lines = "".join(f"{word}\t{number}\r\n" for number in range(2000))
        (tmp_path / name).write_bytes(f"\ufeff{lines}".encode())
    (shown,) = (line for block in snippets("") for line in block.splitlines() if "scripts/split.py" in line)
    python, script, *arguments = shlex.split(shown, comments=True)
    assert (python, script) == ("python", "scripts/split.py")
    with own_logging():
        assert split.main(arguments) == 0
    pairs = [
        open_pair(tmp_path / f"FOLDER/{name}.XX", tmp_path / f"FOLDER/{name}.YY").in_memory()
        for name in ("train", "val", "test")
    ]
    assert [len(pair.source) for pair in pairs] == [1000, 500, 500]
    found = {pair for text in pairs for pair in zip(text.source, text.target, strict=True)}
    assert found == {(f"Satz\t{number}", f"sentence\t{number}") for number in range(2000)}


@pytest.mark.slow
def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, run in enumerate(("demo", "one", "two")):
        (tmp_path / "checkpoints" / run).mkdir(parents=True)
        save_model(tmp_path / "checkpoints" / run / "model.safetensors", seed)
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (tmp_path / "data").mkdir()
    for name in ("train.de", "train.en", "val.de", "val.en"):
        lines = (ROOT / "data" / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / "data" / name).write_text("".join(lines[:200]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("translate.config.loading.checkpoints", lambda: tmp_path / "checkpoints")
    seen: dict[str, Any] = {}
    for code in snippets("python"):
        exec(compile(code, "a page", "exec"), seen)
    one, two, mean = (
        SavedModel.load(Path(name)).weights
        for name in ("checkpoints/one/model.safetensors", "checkpoints/two/model.safetensors", "mean.safetensors")
    )
    assert SavedModel.load(Path("checkpoints/short/last.safetensors")).weights.keys() == seen["best"].weights.keys()
    assert seen["batch"].source_BS.shape[0] == seen["batch"].target_BT.shape[0] > 1
    assert mean.keys() == one.keys()
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (one[name] + two[name]) / 2)


def test_there_is_something_to_try() -> None:
    assert len(snippets("yaml")) >= 4
    assert len(snippets("python")) >= 2
    assert len(trainings()) >= 8
    assert {"training.activation_checkpointing=true", "data={filter: {max_tokens: 1000}}"} <= set(settings())
