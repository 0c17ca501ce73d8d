"""The text that a config names."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from translate.config.data import Corpus, DataConfig, FilePair, LabelledDataConfig
from translate.config.schema import Config
from translate.config.training import TrainingConfig
from translate.data import reading
from translate.data.cache import CorpusCache
from translate.data.reading import check_text, encode_other_splits, read_training_text
from translate.data.selection import repeat_pairs
from translate.errors import DataError
from translate.paths import project_root


def write_splits(folder: Path, *splits: str) -> None:
    for split in splits:
        for language in ("de", "en"):
            (folder / f"{split}.{language}").write_text("a\nb\n", encoding="utf-8")


@pytest.mark.parametrize("weight", [1, 3])
def test_a_corpus_by_itself(weight: int, tmp_path: Path) -> None:
    write_splits(tmp_path, "clean")
    corpus = Corpus(split="clean", weight=weight)
    text = read_training_text(Config(data=DataConfig(root=tmp_path, train=corpus)))
    assert list(text.source) == ["a", "b"]
    assert len(repeat_pairs(np.arange(2, dtype=np.int32), text)) == 2 * weight


def test_text_of_which_nothing_is_missing(tmp_path: Path) -> None:
    write_splits(tmp_path, "train", "clean", "val")
    files = Corpus(source=tmp_path / "cle*.de", target=tmp_path / "cle*.en")
    check_text(Config(data=DataConfig(root=tmp_path, train=["train", Corpus(split="clean"), files])))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": ["train", "cleann"]}, "No split 'cleann' in {root}: "),
        ({"train": ["train", Corpus(source=Path("none.de"), target=Path("none.en"))]}, "none.de does not exist. "),
        ({"valid": FilePair(source=Path("n*.de"), target=Path("n*.en"))}, "No file matches n*.de. "),
        ({"valid": "dev2"}, "Validation selects the best model: hold out a few hundred lines of the training text"),
    ],
)
def test_what_is_missing_is_noticed_first(data: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_splits(tmp_path, "train", "val")
    with pytest.raises(DataError, match=re.escape(message.format(root=tmp_path))):
        check_text(Config(data=DataConfig(root=tmp_path, **data)))


def test_labelled_text_that_is_missing_is_noticed_first(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("x\ta\n", encoding="utf-8")
    with pytest.raises(DataError, match="No labelled split 'val'"):
        check_text(Config.model_construct(data=LabelledDataConfig(root=tmp_path), training=TrainingConfig()))


def test_without_a_folder_no_other_split_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*_: object) -> None:
        raise AssertionError("the folder of the demo corpus is not that of this text")

    monkeypatch.setattr(reading, "split_files", listed)
    files = {"source": tmp_path / "a.de", "target": tmp_path / "a.en"}
    data = DataConfig(root=project_root() / "data", train=Corpus(**files), valid=FilePair(**files))
    codecs: Any = ()
    encode_other_splits(Config(data=data), CorpusCache(tmp_path / "cache"), codecs)
