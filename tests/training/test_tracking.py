"""The metrics log: cut where a state ends, and whole rows or none."""

import errno
import io
import json
import logging
import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from own_logging import own_logging
from tqdm import tqdm

from translate.errors import CheckpointError
from translate.training.tracking import Bar, MetricsLog, NoBar, log_above_the_bar


def test_the_size_of_a_log_that_was_cut(tmp_path: Path) -> None:
    """A state that is saved before the next row says what is kept, and not what once was there."""
    path = tmp_path / "metrics.jsonl"
    with closing(MetricsLog(path)) as log:
        log.write("train", {"step": 1}, {})
        kept = log.sync()
        log.write("train", {"step": 2}, {})
    with closing(MetricsLog(path, keep_bytes=kept)) as log:
        assert log.sync() == path.stat().st_size == kept
        log.write("train", {"step": 3}, {})
        assert log.sync() == path.stat().st_size
    assert [json.loads(line)["step"] for line in path.read_text(encoding="utf-8").split("\n")[:-1]] == [1, 3]


def test_what_a_state_counts_on_has_reached_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, fsync = tmp_path / "metrics.jsonl", os.fsync
    synced: list[int] = []

    def noted(file: int) -> None:
        fsync(file)
        synced.append(path.stat().st_size)

    monkeypatch.setattr(os, "fsync", noted)
    with closing(MetricsLog(path)) as log:
        log.write("train", {"step": 1}, {})
        assert synced == []
        assert [log.sync()] == synced


def test_a_log_that_lacks_rows_keeps_whole_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "metrics.jsonl"
    with closing(MetricsLog(path)) as log:
        for step in (1, 2):
            log.write("train", {"step": step}, {})
        kept = log.sync()
    path.write_bytes(path.read_bytes()[: kept - 5])
    with closing(MetricsLog(path, keep_bytes=kept)) as log:
        log.write("train", {"step": 3}, {})
    assert [json.loads(line)["step"] for line in path.read_text(encoding="utf-8").split("\n")[:-1]] == [1, 3]
    assert caplog.messages == [f"{path} has lost rows that the run had written"]


def test_a_row_cut_short_by_a_full_disk(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="no limits on this system")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with closing(MetricsLog(tmp_path / "metrics.jsonl")) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30, limits[1]))
        try:
            with pytest.raises(CheckpointError, match=r"cannot write .*: No space left on device; free some space"):
                log.write("train", {"step": 1, "loss": 0.123456789}, {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, ignored)


def test_a_log_that_cannot_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.close()
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(log, "_file", Mock(write=Mock(side_effect=full)))
    with pytest.raises(CheckpointError, match=r"cannot write .*metrics.jsonl: No space left on device; free some spac"):
        log.write("train", {"step": 1}, {})


def test_a_log_that_cannot_be_written_does_not_end_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may be full, and the reader of a pipe may have left: it is often stopped by the same Ctrl-C."""

    def write(message: str, file: object) -> None:
        said.append(message)
        raise OSError(int(message), "cannot be written")

    said: list[str] = []
    monkeypatch.setattr(tqdm, "write", write)
    bar = Bar(total=1, done=0)
    for number in (errno.ENOSPC, errno.EPIPE, errno.EIO):
        bar.say(str(number))
    bar.close()
    assert len(said) == 3


def test_where_there_is_no_terminal_the_figures_are_lines_with_the_time_that_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 7.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for bar in (Bar(total=3000, done=1195), NoBar()):
        for _ in range(5):
            bar.advance()
        now = 19.0
        bar.show(loss="4.321", lr="1.0e-03")
        bar.close()
    assert capsys.readouterr().err == "update 1,200 of 3,000: loss 4.321, lr 1.0e-03, elapsed 00:12, left 1:12:00\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_logged_appears_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with own_logging():
        logging.basicConfig(format="%(message)s", stream=sys.stderr, force=True)
        bar = Bar(total=3000, done=1199)
        with log_above_the_bar():
            logging.getLogger("translate").warning("a message")
        bar.close()
    assert "\ra message\n" in sys.stderr.getvalue()


def test_on_a_terminal_the_bar_goes_on_from_where_the_run_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = Bar(total=3000, done=1199)
    bar.advance()
    bar.show(loss="4.321", lr="1.0e-03")
    bar.close()
    *_, shown = sys.stderr.getvalue().split("\r")
    assert "1200/3000" in shown
    assert "loss=4.321, lr=1.0e-03" in shown
