"""What people read on a terminal cannot change it, and work that takes long says so."""

import io
import logging
import sys
import threading
import time
from contextlib import closing

import pytest
from own_logging import own_logging

from translate.commands.run import run
from translate.errors import DataError
from translate.system import terminal
from translate.system.terminal import printable, telling_the_time
from translate.training.tracking import Bar, log_above_the_bar

TITLE = "a\x1b]0;b\x07"  # sets the title of the window to "b"
SHOWN = r"a\x1b]0;b\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TITLE, SHOWN),
        ("\x9b2J\x7f\b\r", r"\x9b2J\x7f\x08\r"),
        ("tab\tand line\n", "tab\tand line\n"),
        ("Grüße, 你好, مرحبا, e\u0301, 👩\u200d🚀, \u00a0", "Grüße, 你好, مرحبا, e\u0301, 👩\u200d🚀, \u00a0"),
    ],
)
def test_only_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_all_messages_are_printable(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)

    def work() -> None:
        logging.getLogger("translate").info("log: %s", TITLE)
        with log_above_the_bar(), closing(Bar(1, 0)) as bar:
            logging.getLogger("translate").info("above the bar: %s", TITLE)
            bar.say(f"samples: {TITLE}")
        raise DataError(TITLE)

    with own_logging():
        assert run(work) == 2
    lines = [f"log: {SHOWN}", f"above the bar: {SHOWN}", f"samples: {SHOWN}", f"error: {SHOWN}"]
    assert written.getvalue().split("\n")[:-1] == lines


def test_long_work_is_not_silent(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "translate")
    monkeypatch.setattr(terminal, "TELL_EVERY", 0.001)
    with telling_the_time("counting"):
        while len(caplog.messages) < 2:
            time.sleep(0.001)
    told = len(caplog.messages)
    assert caplog.messages[:2] == ["counting: 0 s so far"] * 2
    time.sleep(0.01)
    assert len(caplog.messages) == told


def test_short_work_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "translate")
    before = threading.active_count()
    with pytest.raises(ValueError, match="found"), telling_the_time("looking"):
        raise ValueError("found")
    assert (caplog.messages, threading.active_count()) == ([], before)
