"""What a machine without spaCy and torchtext can do: all but cut new text."""

import subprocess
import sys
from pathlib import Path

import pytest
import spacy
from tiny_runs import TinyProject, assert_same_run, sentences

from translate.pipeline import train
from translate.runs.folder import RunFolder
from translate.translator import Translator

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


def python(code: str, *without: str) -> str:
    """What a fresh process prints in which importing these packages fails."""
    missing = "".join(f"sys.modules[{package!r}] = None; " for package in without)
    command = [sys.executable, "-c", f"import sys; {missing}\n{code}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


TRAIN_AND_SCORE = """
from pathlib import Path
from translate.config.loading import load_config
from translate.data.splits import open_split
from translate.pipeline import train
from translate.evaluation.scoring import score
from translate.translator import Translator

config = load_config(Path({config!r}), ["output={output}", "threads=1"])
translator = Translator.load(train(config).model, "cpu")
text = open_split(config.data.root, "val", "de", "en").in_memory()
print(len(score(translator, text, translator.config.decoding, tokenized=False).translations))
"""


def test_encoded_text_is_trained_on_validated_and_scored_without_spacy_and_torchtext(tiny: TinyProject) -> None:
    here = train(tiny.config())  # Fills the cache.
    output = tiny.folder / "there"
    code = TRAIN_AND_SCORE.format(config=str(tiny.folder / "tiny.yaml"), output=str(output))
    assert python(code, "spacy", "torchtext") == "24\n"
    assert_same_run(RunFolder(output), here)


def test_words_are_cut_without_pytorch_which_can_still_be_imported() -> None:
    """Each process of pool.py would take a second and 180 MB for it, because spaCy imports it if it can."""
    code = """
from translate.text.words import WordTokenizer
print(*WordTokenizer("en").tokenize(["A cat."]), "torch" in sys.modules)
import torch
print(torch.ones(1).item())
"""
    assert python(code) == "['A', 'cat', '.'] False\n1.0\n"


def test_a_trained_model_of_spacy_may_use_pytorch(tmp_path: Path) -> None:
    """Without it, spaCy could not load one of its transformers."""
    spacy.blank("en").to_disk(tmp_path)
    code = f"""
from translate.text.words import WordTokenizer
print(*WordTokenizer("en", model={str(tmp_path)!r}).tokenize(["A cat."]), "torch" in sys.modules)
"""
    assert python(code) == "['A', 'cat', '.'] True\n"


def test_a_saved_model_translates_without_torchtext_and_without_the_corpus(tiny: TinyProject) -> None:
    model = train(tiny.config()).model.rename(tiny.folder / "alone.safetensors")
    lines = sentences(3, seed=9)[0]
    code = f"from translate import Translator; print(*Translator.load({str(model)!r}).translate({lines}), sep='\\n')"
    assert python(code, "torchtext").split("\n")[:-1] == Translator.load(model).translate(lines)
