"""What all commands share: what is no mistake of the user's stays an error with a traceback."""

import errno
import gc
import importlib
import io
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from own_logging import own_logging

from translate import commands
from translate.commands.run import BRIEF_BUSY_LOOP, complain, run

ROOT = Path(__file__).resolve().parents[2]


def test_only_a_full_disk_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("translate.commands.run.drop_output", lambda: None)

    def fail(number: int) -> None:
        raise OSError(number, os.strerror(number))

    with own_logging():
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            run(lambda: fail(errno.EIO), said.append)
        assert said == []
        assert run(lambda: fail(errno.ENOSPC), said.append) == 2
        assert run(lambda: fail(errno.EFBIG), said.append) == 2
    assert said == ["error: the disk is full", f"error: cannot write: {os.strerror(errno.EFBIG)}"]


def test_a_missing_package_is_named_as_pip_calls_it() -> None:
    def fail(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    said: list[str] = []
    with own_logging():
        for module in ("yaml", "tqdm"):
            assert run(partial(fail, module), said.append) == 2
    assert [message.split(" is not")[0] for message in said] == [
        "error: the package 'pyyaml'",
        "error: the package 'tqdm'",
    ]


@pytest.mark.parametrize("arguments", ["train --config configs/demo.yaml", "translate hallo", "evaluate"])
def test_a_python_without_the_packages(arguments: str) -> None:
    script, *others = arguments.split()
    # -S: without the folder of this environment in which packages are.
    command = [sys.executable, "-S", f"scripts/{script}.py", *others]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: the package '\w+' is not installed for .*; use the environment of .*\n", done.stderr)


@pytest.mark.parametrize("name", [None, "translate.text.missing"])
def test_a_missing_module_that_nobody_can_install_keeps_its_traceback(name: str | None) -> None:
    said: list[str] = []

    def load() -> None:
        raise ModuleNotFoundError("a library may say which one in words of its own", name=name)

    with own_logging(), pytest.raises(ModuleNotFoundError):
        run(load, said.append)
    assert said == []


def test_garbage_is_not_searched_for_while_modules_are_imported() -> None:
    before = gc.get_threshold()
    searches: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        searches.append(phase)

    def make_objects() -> None:
        gc.callbacks.append(note)
        assert len([[] for _ in range(50_000)]) == 50_000
        gc.callbacks.remove(note)

    try:
        gc.collect()
        with own_logging():
            assert run(make_objects) == 0
        assert searches == []
        gc.set_threshold(700)  # Python's own
        make_objects()
        assert "start" in searches
    finally:
        gc.set_threshold(*before)


def test_what_no_text_can_hold_is_written_as_a_question_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a byte of a file's name that is not UTF-8."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with own_logging():
        assert run(lambda: print("grün\udcff")) == 0
    assert written.getvalue() == "grün?\n".encode()


def test_a_message_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other processes write to the same stream comes before or after it."""
    writes: list[bytes] = []

    class Stream(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, content: bytes) -> int:
            writes.append(bytes(content))
            return len(writes[-1])

    # As `python -u` opens it, which torchrun starts.
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(Stream(), encoding="utf-8", write_through=True))
    complain("error: grün")
    assert writes == ["error: grün\n".encode()]


def test_a_python_that_is_too_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    monkeypatch.setattr(sys, "version", "3.9.18 (main)")
    with pytest.raises(SystemExit) as stopped:
        importlib.reload(commands)
    assert stopped.value.code == 2
    assert f"error: Python 3.10 or later is needed, but {sys.executable} is 3.9.18; " in capsys.readouterr().err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_no_memory_outside_of_an_operation_of_pytorch(error: Exception) -> None:
    said: list[str] = []

    def fail() -> None:
        raise error

    with own_logging():
        assert run(fail, said.append) == 2
    assert said == [
        "error: memory is used up, or this user may have no more processes (ulimit -u); end others, or use a machine "
        "with more memory"
    ]


def test_a_library_that_does_not_fit_into_memory() -> None:
    said: list[str] = []

    def fail() -> None:
        raise ImportError("libtorch_cpu.so: failed to map segment from shared object")

    with own_logging():
        assert run(fail, said.append) == 2
    assert said == [
        "error: libtorch_cpu.so: failed to map segment from shared object; raise the limit of memory (ulimit -v) or, "
        f"if {sys.prefix} is on a file system mounted with noexec, install the environment elsewhere"
    ]


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_reader_that_has_left(error: type[OSError], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("translate.commands.run.drop_output", lambda: None)

    def write() -> None:
        raise error

    with own_logging():
        assert run(write, said.append) == 141
    assert said == []


def test_a_reader_that_has_left_before_all_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    said: list[str] = []
    with os.fdopen(writing, "w") as output, own_logging():
        monkeypatch.setattr(sys, "stdout", output)
        assert run(lambda: print("scores"), said.append) == 141
    assert said == []


def test_a_working_directory_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def gone() -> Path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    with own_logging(), monkeypatch.context() as patch:
        patch.setattr(Path, "cwd", gone)
        assert run(lambda: print(Path.cwd()), said.append) == 2
    assert said == ["error: the working directory no longer exists; change to another one"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_a_file_that_this_locale_has_no_letters_for(encoding: str) -> None:
    said: list[str] = []

    def work() -> None:
        "dä\ud800".encode(encoding)

    with own_logging():
        if encoding == "utf-8":  # No matter of the locale.
            with pytest.raises(UnicodeEncodeError):
                run(work, said.append)
        else:
            assert run(work, said.append) == 2
            message = r"this locale (latin-1) cannot encode the file name 'd\xe4\ud800'; set PYTHONUTF8=1"
            assert said == [f"error: {message}"]


def test_nowhere_for_temporary_files_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """sacrebleu cannot be imported without a name for that folder, though nothing is written there."""

    def gettempdir() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "tempdir", None)
    with monkeypatch.context() as patched, own_logging():
        patched.setattr(tempfile, "gettempdir", gettempdir)
        assert run(lambda: 0) == 0
    assert tempfile.gettempdir() == os.curdir


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}])
def test_openmps_threads_wait_in_a_brief_busy_loop_unless_told_otherwise(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in BRIEF_BUSY_LOOP:
        monkeypatch.setenv(name, "")  # What `run` sets is undone afterwards, too.
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    found: dict[str, str] = {}
    with own_logging():
        run(lambda: found.update({name: os.environ[name] for name in BRIEF_BUSY_LOOP if name in os.environ}))
    assert found == (own or BRIEF_BUSY_LOOP)
