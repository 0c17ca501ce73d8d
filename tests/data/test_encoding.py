"""Lines to ids, in one process and in several."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from translate.config.schema import TextConfig
from translate.data import encoding
from translate.data.encoding import encoded_chunks
from translate.errors import ConfigError, DataError
from translate.text.build import build_codecs
from translate.text.codec import Codec
from translate.text.vocabulary import Vocabulary
from translate.text.words import WordTokenizer

ROOT = Path(__file__).resolve().parents[2]
CODEC = Codec(WordTokenizer("en"), Vocabulary(("a", "b")))
LINES = ["a", "b a", "", "b", "a a"]
IDS = [[4], [5, 4], [], [5], [4, 4]]


def encoded(codec: Codec, lines: list[str]) -> list[list[int]]:
    """The ids of each line, from the chunks."""
    found = []
    for ids, lengths in encoded_chunks(codec, lines):
        found += [line.tolist() for line in np.split(ids, np.cumsum(lengths))[:-1]]
    return found


@pytest.mark.parametrize(("words", "dtype"), [(2**16 - 4, np.uint16), (2**16 - 3, np.int32)])
def test_ids_take_the_smallest_type(words: int, dtype: type) -> None:
    codec = Codec(WordTokenizer("en"), Vocabulary(tuple(f"w{i}" for i in range(words))))
    ((ids, lengths),) = encoded_chunks(codec, [f"w{words - 1}"])
    assert ids.dtype == dtype
    assert (ids.tolist(), lengths.tolist()) == ([words + 3], [1])


def test_chunks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 2)
    assert encoded(CODEC, LINES) == IDS
    assert len(list(encoded_chunks(CODEC, LINES))) == 3
    assert list(encoded_chunks(CODEC, [])) == []


def test_a_text_of_few_lines_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "cores", lambda: 8)
    monkeypatch.setattr(encoding, "_Worker", None)
    assert encoded(CODEC, LINES) == IDS


# --- several processes -----------------------------------------------------------------------------------------------


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes started in a test, by two at a time; none of them is left at its end."""
    for name, value in (("CHUNK", 2), ("WORTHWHILE", 1), ("cores", lambda: 2)):
        monkeypatch.setattr(encoding, name, value)
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    yield started
    assert started
    assert None not in [process.returncode for process in started]


def letters() -> Codec:
    """A codec that starts sooner than spaCy."""
    config = TextConfig.model_validate({"tokenizer": {"kind": "char"}})
    return build_codecs(config, ("en", "de"), ["a", "b"], ["c"])[0]


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_several_processes_answer_as_one_and_in_order() -> None:
    lines = [number % 7 * "a" + number % 3 * "b" for number in range(41)]
    assert encoded(letters(), lines) == letters().encode(lines)
    assert encoded(letters(), lines[:1]) == letters().encode(lines[:1])  # One of the processes gets nothing.


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_what_a_library_prints_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = letters()
    expected = codec.encode(LINES)
    chatty = f"""
import sys
print("Welcome!", flush=True)
sys.path.remove({str(tmp_path)!r})
del sys.modules["tokenizers"]
import tokenizers
"""
    (tmp_path / "tokenizers.py").write_text(chatty, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert encoded(codec, LINES) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_an_error_in_a_process_is_an_error_of_this_one() -> None:
    codec = Codec(WordTokenizer("klingon"), Vocabulary(("a",)))
    with pytest.raises(ConfigError, match="spaCy has no tokenizer for the language 'klingon'"):
        encoded(codec, LINES[:2])


@pytest.mark.slow
def test_a_process_that_is_killed(processes: list[subprocess.Popen[bytes]]) -> None:
    chunks = encoded_chunks(letters(), LINES * 10)
    next(chunks)
    for process in processes:
        process.kill()
    with pytest.raises(DataError, match=r"^a process that encoded text ended with exit code -9; if memory ran out, "):
        list(chunks)


@pytest.mark.slow
def test_who_stops_asking_ends_the_processes(processes: list[subprocess.Popen[bytes]]) -> None:
    chunks = encoded_chunks(letters(), LINES * 10)
    next(chunks)
    assert [process.poll() for process in processes] == [None, None]
    with pytest.raises(KeyboardInterrupt):
        chunks.throw(KeyboardInterrupt())


ENDLESS = """
import itertools
from translate.data import encoding
from translate.config.schema import TextConfig
from translate.text.build import build_codecs

class Endless:
    def __len__(self):
        return 10**6

    def __iter__(self):
        return itertools.repeat("a b a")

encoding.cores = lambda: 2
config = TextConfig.model_validate({"tokenizer": {"kind": "char"}})
codec, _ = build_codecs(config, ("en", "de"), ["a", "b"], ["c"])
for chunk in encoding.encoded_chunks(codec, Endless()):
    print("encoded", flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="process groups of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C reaches all processes at once, other signals only the one that asks."""
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "encoded\n"
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=120)  # to the end: no other process holds the pipes any more
    assert process.returncode == -number
    assert said.count("Traceback") == (1 if number == signal.SIGINT else 0), said
    deadline = time.monotonic() + 30
    while is_alive(process.pid):
        assert time.monotonic() < deadline, "a process of the group goes on"
        time.sleep(0.05)


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
