"""The files that the text of a config lies in."""

from pathlib import Path

import pytest

from translate.config.data import Corpus, DataConfig, FilePair, LabelledDataConfig
from translate.data.inventory import text_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.de", "train.en.gz", "val.de", "val.en", "notes.de", "test.tsv", "crawl/a.de", "crawl/a.en"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    return tmp_path


def names(data: DataConfig | LabelledDataConfig, folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in text_files(data)}


def test_every_split_of_the_folder(folder: Path) -> None:
    assert names(DataConfig(root=folder), folder) == {"train.de", "train.en.gz", "val.de", "val.en"}


def test_labelled_text(folder: Path) -> None:
    assert names(LabelledDataConfig(root=folder), folder) == {"test.tsv"}


def test_files_by_name(folder: Path) -> None:
    crawl = {"source": folder / "crawl/*.de", "target": folder / "crawl/*.en"}
    expected = {"crawl/a.de", "crawl/a.en"}
    data = DataConfig(root=folder / "absent", valid=FilePair(source=folder / "absent.de", target=folder / "absent.en"))
    assert names(data.model_copy(update={"train": Corpus(**crawl)}), folder) == {*expected, "absent.de", "absent.en"}
    assert names(data.model_copy(update={"train": ["train", Corpus(**crawl)]}), folder) >= expected
