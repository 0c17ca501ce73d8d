"""A tiny model that the training command made, and a way to call the commands as a shell does, but in this process."""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from own_logging import own_logging
from tiny_project import Call, Outcome, Project, write_project

from translate.commands.train import main as train
from translate.commands.translate import main as translate_main
from translate.translator import Translator


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Trained once; no test changes it."""
    project = write_project(tmp_path_factory.mktemp("project"))
    with own_logging():
        assert train(["--config", str(project.config)]) == 0
    return project


@pytest.fixture
def untrained(tmp_path: Path) -> Project:
    """One without a run, to be spoilt."""
    (tmp_path / "project").mkdir()
    return write_project(tmp_path / "project")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Call a main with arguments and the bytes of standard input; returns how it ended and what it said."""

    def call(main: Callable[[Sequence[str]], int], *arguments: object, stdin: bytes | Any = b"") -> Outcome:
        stream = io.TextIOWrapper(io.BytesIO(stdin)) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", stream)
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as refusal:  # of argparse
            code = int(refusal.code or 0)
        return Outcome(code, *capsys.readouterr())

    # A training that fails beside others ends its process with its own exit code; but this process is that of pytest.
    monkeypatch.setattr("translate.commands.train.atexit", SimpleNamespace(register=lambda *_: None))
    with own_logging():
        yield call


@pytest.fixture(scope="session")
def translator(project: Project) -> Translator:
    return Translator.load(project.model, "cpu")


@pytest.fixture
def translate(call: Call, project: Project) -> Call:
    """The command translate.py with the tiny model."""
    return lambda *arguments, stdin=b"": call(translate_main, "--checkpoint", project.model, *arguments, stdin=stdin)
