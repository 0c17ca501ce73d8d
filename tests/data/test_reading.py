"""The text that a config names."""

from pathlib import Path

import numpy as np
import pytest

from translate.config.data import Corpus, DataConfig
from translate.config.schema import Config
from translate.data.reading import read_training_text
from translate.data.selection import repeat_pairs


@pytest.mark.parametrize("weight", [1, 3])
def test_a_corpus_by_itself(weight: int, tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"clean.{language}").write_text("a\nb\n", encoding="utf-8")
    corpus = Corpus(split="clean", weight=weight)
    text = read_training_text(Config(data=DataConfig(root=tmp_path, train=corpus)))
    assert list(text.source) == ["a", "b"]
    assert len(repeat_pairs(np.arange(2, dtype=np.int32), text)) == 2 * weight
