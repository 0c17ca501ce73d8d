"""translate.py: input that cannot be read, output that cannot be written, and files that appear only when complete."""

import argparse
import errno
import gzip
import io
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tiny_project import LINES, Call, Outcome, Project, joined, write_lines

from translate.commands import sources
from translate.commands.output import is_open_as, open_output
from translate.commands.translate import main
from translate.errors import DataError
from translate.model_file import SavedModel
from translate.translator import Translator

ENCODING = "iconv -f ENCODING -t utf8, where ENCODING is what it is now, such as latin1, cp1251 or shift_jis"
TO_UTF8 = f"Convert the text to UTF-8: {ENCODING}."


def test_standard_input_that_is_not_utf8(translate: Call, translator: Translator) -> None:
    message = f"standard input, line 2, byte 4: 0xf1 is not UTF-8 (invalid continuation byte). {TO_UTF8}"
    done = joined(translator.translate(["el gato"]))
    assert translate(stdin=b"el gato\nel \xf1i\xf1o\n") == Outcome(2, done, f"error: {message}\n")
    assert translate(stdin=b"el gato\nel \xf1i\xf1o") == Outcome(2, done, f"error: {message}\n")
    message = f"standard input, line 2, byte 1: 0xff is not UTF-8 (invalid start byte). {TO_UTF8}"
    assert translate(stdin=b"el gato\n\xff\xfe") == Outcome(2, done, f"error: {message}\n")  # only a file's first line


def test_a_line_of_standard_input_without_an_end(
    translate: Call, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from /dev/zero: it must not fill the memory."""
    monkeypatch.setattr("translate.data.lines.MAX_LINE_BYTES", 1 << 20)
    done = joined(translator.translate(["el gato"]))
    message = "standard input, line 2 has more than 1 MiB; put a line feed after each sentence"
    assert translate(stdin=b"el gato\n" + bytes(2 << 20)) == Outcome(2, done, f"error: {message}\n")
    long = b"el gato".ljust((1 << 20) - 1) + b"\n"
    assert translate(stdin=long * 2) == Outcome(0, done * 2, "")


def test_packed_text_on_standard_input_is_recognized(translate: Call) -> None:
    said = translate(stdin=gzip.compress(b"el gato\n"))
    assert said.code == 2
    assert said.err.endswith(". It looks like gzip: name the file with --input, or unpack it first.\n")


@pytest.mark.parametrize("name", ["mono.it", "mono.it.gz", "mono.es", "mono.es.it", "mono"])
def test_a_file_in_the_language_that_it_translates_to(
    name: str, translate: Call, translator: Translator, tmp_path: Path
) -> None:
    """By its name, as where the model of the other direction was meant."""
    text = tmp_path / name
    text.write_bytes(gzip.compress(b"el gato\n") if name.endswith("gz") else b"el gato\n")
    warning = (
        f"the model translates from 'es' to 'it', but the text is {text}; to use another model, name it: "
        "--checkpoint FILE\n"
    )
    warned = name.startswith("mono.it")
    assert translate("--input", text) == Outcome(0, joined(translator.translate(["el gato"])), warning * warned)


def test_a_file_that_is_not_utf8(translate: Call, tmp_path: Path) -> None:
    path = tmp_path / "latin1"
    path.write_bytes("el gato\nel niño\n".encode("latin-1"))
    assert translate("--input", path) == Outcome(
        2,
        "",
        f"error: {path}, line 2, byte 6: 0xf1 is not UTF-8 (invalid continuation byte). Save the file as UTF-8: "
        f"{ENCODING}.\n",
    )


def test_an_argument_that_is_not_utf8(translate: Call) -> None:
    latin1 = os.fsdecode("el niño".encode("latin-1"))
    message = f"sentence 2, byte 6: 0xf1 is not UTF-8 (invalid continuation byte). {TO_UTF8}"
    assert translate("el gato", latin1) == Outcome(2, "", f"error: {message}\n")


def test_no_such_input(translate: Call, tmp_path: Path) -> None:
    said = translate("--input", tmp_path / "absent")
    assert said == Outcome(2, "", f"error: {tmp_path}/absent does not exist. Check the path.\n")


@pytest.mark.parametrize("arguments", [["--input"], ["el gato", "--score"]])
def test_an_input_whose_name_is_too_long(arguments: list[str], translate: Call, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    assert translate(*arguments, path) == Outcome(2, "", f"error: {path} cannot be read: File name too long.\n")


def test_sentences_and_a_file(translate: Call, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in", LINES)
    message = "sentences and --input are both given; use one of them"
    assert translate("--input", path, "el gato") == Outcome(2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("text.de", "to translate its lines: --input {}"), ("b.safetensors", "for an ensemble, repeat --checkpoint")],
)
def test_the_name_of_a_file_is_no_sentence(name: str, remedy: str, translate: Call, tmp_path: Path) -> None:
    path, otherwise = tmp_path / name, " (to translate its name, give it on standard input)"
    for sentence in (path, tmp_path):  # Nothing there yet, and a folder.
        assert translate(sentence).code == 0
    path.touch()
    for sentences in ([path], ["el gato", path]):
        said = translate(*sentences)
        assert (said.code, said.out, said.err) == (
            2,
            "",
            f"error: {path} is a file; {remedy.format(path)}{otherwise}\n",
        )


@pytest.mark.parametrize(
    ("setting", "option"),
    [
        ("beam_size", "; write --beam-size VALUE"),
        ("max_extra", ", and no option here"),
        ("sentences", ", and no option"),
    ],
)
def test_a_setting_is_no_sentence(setting: str, option: str, translate: Call) -> None:
    said = translate(f"decoding.{setting}=3", "el gato")
    assert said.code == 2
    assert said.err.startswith(f"error: decoding.{setting}=3 is no sentence{option}")
    assert translate(f"{setting}=3").code == (0 if setting == "sentences" else 2)
    assert translate("decoding. x=3", "k" * 5000, "\0").code == 0


@pytest.mark.parametrize("options", [("--input", "a", "--input", "b"), ("--output", "a", "--output", "b")])
def test_one_file_at_a_time(options: tuple[str, ...], translate: Call) -> None:
    said = translate(*options)
    assert said.code == 2
    assert f"{options[0]} is given twice; leave one out" in said.err


def test_a_file_is_checked_first_and_then_read_as_it_is_translated(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "in", LINES)
    monkeypatch.setattr(sources, "CHUNK", 1)
    source = sources.source_text(argparse.Namespace(sentences=[], input=path))
    assert not isinstance(source, list)
    ahead = sources.source_lines(source, torch.device("cpu"))
    assert next(ahead) == LINES[:1]
    write_lines(path, [*LINES, *LINES])  # as the output does in `translate.py --input FILE >> FILE`
    with pytest.raises(DataError, match=f"{path} changed while it was being read"):
        list(ahead)

    path.write_bytes(b"el gato\n\xff\n")
    said = translate("--input", path)
    assert (said.code, said.out) == (2, "")
    assert f"{path}, line 2, byte 1: 0xff is not UTF-8" in said.err


def test_a_file_that_grows_while_its_lines_are_counted_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> Iterator[list[str]]:
        yield LINES
        write_lines(path, [*LINES, *LINES])

    path = write_lines(tmp_path / "in", LINES)
    with monkeypatch.context() as patch:
        patch.setattr("translate.data.lines.read_blocks", read)
        source = sources.file_lines(path)
    with pytest.raises(DataError, match=f"{path} changed while it was being read"):
        list(source)


def test_standard_output_by_its_name_keeps_what_is_in_it(
    translate: Call, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path / "all", ["first"])
    with path.open("a", encoding="utf-8") as end:
        monkeypatch.setattr(
            "translate.commands.output.is_open_as", lambda place, stream: place == path and stream is end
        )
        monkeypatch.setattr("sys.stderr", end)
        with open_output(path) as output:
            output.write("second\n")
    assert path.read_text() == "first\nsecond\n"


def test_whether_a_stream_is_a_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "in", LINES)
    with path.open(encoding="utf-8") as stream:
        assert is_open_as(path, stream)
        (tmp_path / "link").symlink_to(path)
        assert is_open_as(tmp_path / "link", stream)
        assert not is_open_as(tmp_path / "absent", stream)
    assert not is_open_as(path, stream)  # It is closed.
    assert not is_open_as(path, None)


def test_standard_input_is_not_replaced(translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(tmp_path / "in", LINES)
    monkeypatch.setattr("translate.commands.translate.is_open_as", lambda place, _: place == path)
    message = f"the translations would overwrite the input {path}; name another file: --output FILE"
    assert translate("--output", path) == Outcome(2, "", f"error: {message}\n")
    assert translate("--output", path, "el gato").code == 0


def test_input_and_output_may_be_the_same_device(translate: Call) -> None:
    """As a terminal, or what stands for no file."""
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        assert translate("--output", os.devnull, stdin=nothing) == Outcome(0, "", "")
    assert not Path(os.devnull).is_file()


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=write_lines, args=(pipe, LINES))
    writing.start()
    found = sources.file_lines(pipe)
    writing.join()
    assert isinstance(found, list)
    assert found == LINES


def test_standard_input_that_cannot_be_read() -> None:
    class Unreadable(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    with pytest.raises(DataError, match=r"^standard input cannot be read: .*; name a file: --input FILE$"):
        sources.read_some(cast("io.BufferedReader", Unreadable()))


def test_output_that_cannot_be_written(translate: Call, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = f"cannot write {tmp_path}: Is a directory; name another file: --output FILE"
    assert translate("--output", tmp_path, "el gato") == Outcome(2, "", f"error: {message}\n")
    said = translate("--output", tmp_path / "file" / "out", "el gato")
    assert (said.code, said.out) == (2, "")
    message = (
        rf"error: cannot write {tmp_path}/file/out: (File exists|Not a directory); name another file: --output FILE\n"
    )
    assert re.fullmatch(message, said.err)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_output_in_a_folder_that_cannot_be_looked_at(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "private/out"

    def private(method: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Path, *arguments: Any, **keywords: Any) -> Any:
            if path in (output, output.parent):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return method(path, *arguments, **keywords)

        return refuse

    for name in ("stat", "is_file", "mkdir"):
        monkeypatch.setattr(Path, name, private(getattr(Path, name)))
    said = translate("--output", output, stdin=b"el gato\n")
    assert said == Outcome(
        2, "", f"error: cannot write {output}: Permission denied; name another file: --output FILE\n"
    )


def test_the_output_does_not_replace_the_model(call: Call, project: Project, tmp_path: Path) -> None:
    model = Path(shutil.copy(project.model, tmp_path / "model.safetensors"))
    link = tmp_path / "link"
    link.symlink_to(model)
    for output in (model, link):
        message = f"the translations would overwrite the model {output}; name another file: --output FILE"
        said = call(main, "--checkpoint", model, "--output", output, "el gato")
        assert said == Outcome(2, "", f"error: {message}\n")
        assert model.read_bytes() == project.model.read_bytes()


def test_the_output_does_not_replace_text(call: Call, project: Project, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("el gato\n", encoding="utf-8")
    for what, file in (
        ("the text to translate", lines),
        ("the run's file", project.model.with_name("config.yaml")),
        ("the run's file", project.model.with_name("metrics.jsonl")),
        ("the run's file", project.model.with_name("finished.json")),
        ("the model's data file", project.corpus / "val.it"),
        ("the model's data file", project.corpus / "test.es"),
    ):
        before = file.read_bytes()
        message = f"the translations would overwrite {what} {file}; name another file: --output FILE"
        said = call(main, "--checkpoint", project.model, "--input", lines, "--output", file)
        assert said == Outcome(2, "", f"error: {message}\n")
        assert file.read_bytes() == before


def test_the_output_does_not_replace_text_of_any_model(call: Call, project: Project, tmp_path: Path) -> None:
    saved = SavedModel.load(project.model)
    data = saved.config.data.model_copy(update={"root": tmp_path})
    other = replace(saved, config=saved.config.model_copy(update={"data": data}))
    other.save(tmp_path / "other.safetensors")
    for split in ("train.es", "train.it"):
        shutil.copy(project.corpus / split, tmp_path)
    file, models = (
        tmp_path / "train.it",
        ("--checkpoint", project.model, "--checkpoint", tmp_path / "other.safetensors"),
    )
    said = call(main, *models, "--output", file, "el gato")
    message = f"the translations would overwrite the model's data file {file}; name another file: --output FILE"
    assert said == Outcome(2, "", f"error: {message}\n")
    assert file.read_bytes() == (project.corpus / "train.it").read_bytes()


def test_the_output_is_no_archive(translate: Call, tmp_path: Path) -> None:
    said = translate("--output", tmp_path / "out.gz", "el gato")
    message = "translations are written as plain text: name a file without .gz: --output FILE"
    assert said == Outcome(2, "", f"error: {message}\n")


def test_standard_input_that_is_closed(translate: Call) -> None:
    assert translate(stdin=None) == Outcome(0, "", "")


@pytest.mark.parametrize(("every", "told"), [(-1.0, ["lines done: 1", "lines done: 2"]), (30.0, [])])
def test_a_log_without_a_terminal_has_the_lines_done_now_and_then(
    every: float, told: list[str], translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 1)
    monkeypatch.setattr("translate.commands.output.REPORT_EVERY", every)
    assert translate("--output", tmp_path / "out", "el gato", "el").err.splitlines() == told
    assert translate("el gato", "el").err == ""  # Translations on standard output show where it is.


def test_output_appears_only_when_it_is_complete(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 1)
    output = tmp_path / "out"
    output.write_text("older\n", encoding="utf-8")
    said = translate("--output", output, stdin=b"el gato\n\xff\n")
    message = f"standard input, line 2, byte 1: 0xff is not UTF-8 (invalid start byte). {TO_UTF8}"
    kept = f"finished lines: 1, kept in {output}.part1"
    assert said == Outcome(2, "", f"{kept}\nerror: {message}\n")
    assert output.read_text(encoding="utf-8") == "older\n"
    assert sorted(tmp_path.iterdir()) == [output, tmp_path / "out.part1"]


def test_what_was_done_before_an_error_is_kept(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 2)
    bad = b"".join(f"{line}\n".encode() for line in LINES[:4]) + b"\xff\n"
    for number in (1, 2):
        said = translate("--output", tmp_path / "out", stdin=bad)
        assert (said.code, said.out) == (2, "")
        assert f"finished lines: 4, kept in {tmp_path}/out.part{number}\n" in said.err
    parts = [tmp_path / "out.part1", tmp_path / "out.part2"]
    assert sorted(tmp_path.iterdir()) == parts
    assert {part.read_text(encoding="utf-8") for part in parts} == {joined(translator.translate(LINES[:4]))}


def test_whole_lines_are_kept_where_the_disk_fills_up(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    resource = pytest.importorskip("resource", reason="no limits on this system")
    monkeypatch.setattr(sources, "CHUNK", 1)
    first, second = translator.translate(LINES[:2])
    room = len(f"{first}\n{second}".encode()) - 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        said = translate("--output", tmp_path / "out", *LINES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert said.code == 2
    assert f"cannot write {tmp_path}/out: File too large" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["out.part1"]
    assert (tmp_path / "out.part1").read_text(encoding="utf-8") == f"{first}\n"


def test_what_was_written_is_kept_though_it_was_not_on_the_disk_yet(tmp_path: Path) -> None:
    def write_and_stop() -> None:
        with open_output(tmp_path / "out") as output:
            output.write("one\ntwo\nthr")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert [path.name for path in tmp_path.iterdir()] == ["out.part1"]
    assert (tmp_path / "out.part1").read_text(encoding="utf-8") == "one\ntwo\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EDQUOT, "Disk quota exceeded")])
def test_what_was_written_is_kept_though_it_does_not_reach_the_disk(
    error: BaseException, translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: object) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    said = translate("--output", tmp_path / "out", *LINES)
    assert said.code == (2 if isinstance(error, OSError) else 130)
    assert [path.name for path in tmp_path.iterdir()] == ["out.part1"]
    assert (tmp_path / "out.part1").read_bytes().count(b"\n") == len(LINES)


def test_a_file_is_closed_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows would refuse."""
    rename, files = Path.rename, []

    def rename_closed(self: Path, target: Path) -> Path:
        assert [file.closed for file in files] == [True]
        return rename(self, target)

    def write_and_stop() -> None:
        with open_output(tmp_path / "out") as output:
            files.append(output)
            output.write("one\n")
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", rename_closed)
    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert [path.name for path in tmp_path.iterdir()] == ["out.part1"]


def test_ctrl_c(translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "n_best", interrupted)
    assert translate("--output", tmp_path / "out", "el gato") == Outcome(130, "", "stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_that_a_library_makes_another_error_of(translate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NumPy does, interrupted while it is imported."""
    before = signal.getsignal(signal.SIGINT)

    def half_imported(*arguments: object, **settings: object) -> None:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        raise AttributeError("module 'library' has no attribute 'name'")

    monkeypatch.setattr(Translator, "n_best", half_imported)
    assert translate("el gato") == Outcome(130, "", "stopped\n")
    assert signal.getsignal(signal.SIGINT) is before


def test_the_name_of_a_file_may_be_as_long_as_the_system_allows(translate: Call, tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)
    assert translate("--output", path, "el gato").code == 0
    assert path.is_file()


def test_what_was_done_is_kept_though_the_name_of_the_file_leaves_no_room_for_an_ending(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 1)
    said = translate("--output", tmp_path / ("ä" * 127), stdin=b"el gato\n\xff\n")
    part = tmp_path / f"{'ä' * 120}.part1"
    assert said.err.startswith(
        f"finished lines: 1, kept in {part}\nerror: standard input, line 2, byte 1: 0xff is not "
    )
    assert list(tmp_path.iterdir()) == [part]


def test_a_link_and_a_pipe_stay_what_they_are(translate: Call, tmp_path: Path, translator: Translator) -> None:
    expected = joined(translator.translate(LINES)).encode()
    target = write_lines(tmp_path / "target", ["older"])
    (tmp_path / "link").symlink_to(target)
    assert translate("--output", tmp_path / "link", *LINES).code == 0
    assert (tmp_path / "link").is_symlink()
    assert target.read_bytes() == expected

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert translate("--output", pipe, *LINES).code == 0
        assert os.read(reader, 1 << 16) == expected
    finally:
        os.close(reader)
    assert pipe.is_fifo()
