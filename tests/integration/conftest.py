"""A tiny corpus, encoded once for all tests of training."""

from pathlib import Path

import pytest
from tiny_runs import TinyProject, sentences, write_split


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the splits `train` and `val`, and with the cache of their encoded text."""
    folder = tmp_path_factory.mktemp("corpus")
    write_split(folder, "train", *sentences(240, seed=1))
    write_split(folder, "val", *sentences(24, seed=2))
    return folder


@pytest.fixture
def tiny(tiny_corpus: Path, tmp_path: Path) -> TinyProject:
    return TinyProject(tiny_corpus, tmp_path)
