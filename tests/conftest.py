"""What all tests share: one CPU thread, and the way to the real corpus where there is one."""

import gc
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from translate.commands.run import OBJECTS_BEFORE_COLLECTION

gc.set_threshold(OBJECTS_BEFORE_COLLECTION)  # as in the commands, and before PyTorch is imported

# An example may come late on a busy machine, or because it is the first to import a library.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Small tensors gain nothing from threads, and two of them on a busy machine wait for each other.

    The same for the processes that tests start.
    """
    import torch  # Here, because a process that only hands out tests to others reads this file, too.

    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _few_handlers(_one_thread: None) -> None:
    """Three times for each test, pytest puts a handler on each logger that hands nothing on: PyTorch has 40 of them."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and logger.name.startswith("torch"):
            logger.propagate = True


@pytest.fixture
def two_threads() -> Iterator[None]:
    """PyTorch with two threads, which are enough for two workers; a test may set another number."""
    import torch

    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Those that a test starts."""
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    return started


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_as_usual() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, and so do the processes started from there."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def multi30k() -> Path:
    """The folder of the real corpus: $MULTI30K, or ../shared/multi30k beside the repository."""
    folder = Path(os.environ.get("MULTI30K", ROOT.parent / "shared" / "multi30k"))
    if not folder.is_dir():
        pytest.skip(f"the real corpus is not at {folder}; set MULTI30K to its folder")
    return folder
