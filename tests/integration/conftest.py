"""A tiny corpus, encoded once for all tests of training."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tiny_runs import TinyProject, sentences, write_split

from translate.pipeline import train
from translate.runs.folder import RunFolder


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


@pytest.fixture(scope="session")
def uninterrupted(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunFolder]:
    """The run with these overrides that nothing stops; each is trained once."""

    @cache
    def run(*overrides: str) -> RunFolder:
        return train(TinyProject(tiny_corpus, tmp_path_factory.mktemp("uninterrupted")).config(*overrides))

    return run


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which states these tests find does not depend on how soon the disk writes them."""
    monkeypatch.setattr("translate.training.states.MAX_WAIT", 60.0)
