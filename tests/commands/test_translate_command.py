"""translate.py: what goes in line by line comes out line by line, alone, and what is wrong is said in one message."""

import gzip
import io
import math
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_project import LINES, Call, Outcome, joined, write_lines

from translate.commands import sources
from translate.commands import translate as translate_command
from translate.translator import Translation, Translator

ODD = {
    "empty": "",
    "blanks": "   ",
    "a no-break space": "\u00a0",
    "a line separator": "el gato\u2028come",
    "next line": "el\u0085gato",
    "a carriage return inside": "el\rgato",
    "a carriage return at the end": "el gato\r",
    "a form feed": "el\fgato",
    "a tab": "el\tgato",
    "emoji": "👩‍👩‍👧 el gato 😀",
    "Chinese": "一只猫在看书。",
    "a byte order mark": "\ufeffel gato",
    "a null": "el \0 gato",
    "a special": "<eos> el <pad> gato <unk>",
}


# --- in and out ------------------------------------------------------------------------------------------------------


def test_the_model_tells_the_lines_apart(translator: Translator) -> None:
    assert len(set(translator.translate(LINES))) == len(LINES)


def test_arguments(translate: Call, translator: Translator) -> None:
    assert translate(*LINES) == Outcome(0, joined(translator.translate(LINES)), "")


def test_options_between_arguments(translate: Call, translator: Translator) -> None:
    expected = joined(translator.translate(["el gato", "el perro"], search="greedy"))
    assert translate("el gato", "--search", "greedy", "el perro").out == expected


def test_an_argument_of_two_lines_and_an_empty_one(translate: Call, translator: Translator) -> None:
    assert translate("el gato\nel perro", "").out == joined([*translator.translate(["el gato", "el perro"]), ""])


def test_standard_input(translate: Call, translator: Translator) -> None:
    stdin = b"\xef\xbb\xbf" + "\r\n".join(LINES).encode()  # as some editors write it: with a byte order mark, and so on
    assert translate(stdin=stdin) == Outcome(0, joined(translator.translate(LINES)), "")


@pytest.mark.parametrize("name", ["lines.es", "lines.es.gz"])
def test_files(name: str, translate: Call, translator: Translator, tmp_path: Path) -> None:
    content = joined(LINES).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    output = tmp_path / "new" / "lines.it"
    assert translate("--input", tmp_path / name, "--output", output) == Outcome(0, "", "")
    assert output.read_bytes().decode() == joined(translator.translate(LINES))
    assert list(output.parent.iterdir()) == [output]


def test_a_dash_stands_for_the_standard_streams(
    translate: Call, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = translate("--input", "-", "--output", "-", stdin=joined(LINES).encode())
    assert found == Outcome(0, joined(translator.translate(LINES)), "")
    assert not list(tmp_path.iterdir())


def test_behind_two_dashes_all_are_sentences(translate: Call, translator: Translator) -> None:
    sentences = ["-el gato", "--input"]
    assert translate("el perro", "--", *sentences).out == joined(translator.translate(["el perro", *sentences]))


def test_nothing_in_nothing_out(translate: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert translate(stdin=b"") == Outcome(0, "", "")
    assert translate("--input", tmp_path / "empty", "--output", tmp_path / "out") == Outcome(0, "", "")
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize("line", ODD.values(), ids=ODD.keys())
def test_n_lines_in_n_lines_out(line: str, translate: Call, tmp_path: Path) -> None:
    content = joined(["el perro", line, "el gato"]).encode()
    (tmp_path / "in").write_bytes(content)
    from_file, piped = translate("--input", tmp_path / "in"), translate(stdin=content)
    assert from_file == piped
    first, odd, last, after = piped.out.split("\n")
    assert first
    assert last
    assert bool(odd) == bool(line.strip())
    assert after == ""
    assert piped.code == 0


def test_translations_that_were_cut_off_are_counted(translate: Call, translator: Translator) -> None:
    long = " ".join(["gato"] * 60)
    settings = translator.settings(search="greedy")
    cut = [not best.finished for (best,) in translator.n_best(["el gato", long], 1, settings)]
    assert cut == [False, True]
    assert translate("--search", "greedy", "el gato", long).err == (
        "line 2 has 60 tokens, but the model was trained on at most 7: if it has several sentences, translate them "
        "one by one\n"
        "1 of 2 translations truncated at the length limit; if they repeat themselves, train longer or try "
        "--search beam, otherwise raise it with --max-ratio\n"
    )


def test_learned_positions_limit_translations_whatever_the_ratio(
    translate: Call, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Translation("il gatto", -1.0, -1.0, length=3, finished=False)
    monkeypatch.setattr(Translator, "n_best", lambda *_, **__: [[cut]])
    monkeypatch.setattr(type(translator.model), "max_length", 30)
    assert translate(LINES[0]).err == (
        "1 of 1 translations truncated at the length limit; if they repeat themselves, train longer, otherwise raise "
        "it with --max-ratio, up to the model's 30 positions\n"
    )


@pytest.mark.parametrize("n_best", [(), ("--n-best", "2")])
def test_of_several_translations_the_best_one_counts_as_cut_off(
    n_best: tuple[str, ...], translate: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = (Translation("il gatto", -1.0, -1.0, length=3, finished=finished) for finished in (True, False))
    monkeypatch.setattr(Translator, "n_best", lambda *_, **__: [[whole, cut], [cut, cut], [whole, cut]])
    said = translate(*n_best, *LINES[:3])
    assert (
        said.err
        == "1 of 3 translations truncated at the length limit; if they repeat themselves, train longer, otherwise "
        "raise it with --max-ratio\n"
    )


def test_an_n_best_list_has_five_columns_whatever_the_text(translate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    tabbed = Translation("il\tgatto", -1.0, -0.5, length=3, finished=True)
    monkeypatch.setattr(Translator, "n_best", lambda *_, **__: [[tabbed]])
    assert translate("--n-best", "1", "el gato").out == "1\t-1.0000\t3\t-0.5000\til gatto\n"


def test_line_numbers_go_on_from_chunk_to_chunk(
    translate: Call, monkeypatch: pytest.MonkeyPatch, translator: Translator
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 2)
    lines = [*LINES, "el zorro astuto"]
    said = translate("--n-best", "1", "--unknown", stdin=joined(lines).encode())
    rows = [row.split("\t") for row in said.out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row[4] for row in rows] == translator.translate(lines)
    unknown, suspicious = said.err.split("\n")[:2]
    assert unknown == "line 6: unknown: zorro astuto"
    assert suspicious.startswith("line 6: only 1 of its 3 tokens are in the model's vocabulary (es)")


def test_warnings_are_repeated_line_by_line_but_not_portion_by_portion(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(said: Outcome) -> list[str]:
        return re.findall(r"line \d+: only|such lines so far: \d+", said.err)

    portions = [["那只狗"], ["那只狗"], ["那只狗"] * 3, ["那只狗"] * 3, ["那只狗"] * 25, ["那只狗"]]
    monkeypatch.setattr(translate_command, "source_lines", lambda *_: iter(portions))
    assert told(translate(stdin=b"")) == [
        "line 1: only",
        "line 2: only",
        *("line 3: only", "such lines so far: 3"),
        *("line 9: only", "such lines so far: 31"),
        "line 34: only",
    ]
    file = write_lines(tmp_path / "in", [line for lines in portions for line in lines])
    assert told(translate("--input", file)) == [
        "line 1: only",
        *("line 9: only", "such lines so far: 33"),
    ]


def test_lines_that_arrive_together_are_translated_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 8)
    monkeypatch.setattr(sources, "CHUNK", 3)
    with write_lines(tmp_path / "lines", LINES).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        assert list(sources.standard_input(sources.Portion(1))) == [LINES[:3], LINES[3:]]


def test_of_long_lines_fewer_are_translated_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHARACTERS", 10)
    lines = ["12345678901234", "", "12345", "1234", "123456", "1"]
    with write_lines(tmp_path / "lines", lines).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        for given in (lines, None):
            assert list(sources.source_lines(given, torch.device("cpu"))) == [lines[:1], lines[1:5], lines[5:]]


def test_a_gpu_gets_more_lines_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHUNK", 1)
    with write_lines(tmp_path / "lines", LINES).open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        for given in (LINES, None):
            assert list(sources.source_lines(given, torch.device("cuda"))) == [LINES[:4], LINES[4:]]
    assert list(sources.source_lines(LINES, torch.device("cpu"))) == [[line] for line in LINES]


def test_waiting_for_input_leaves_nothing_open() -> None:
    def lowest_free() -> int:
        descriptor = os.dup(0)
        os.close(descriptor)
        return descriptor

    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as output, os.fdopen(reading, "rb") as stream:
        output.write(b"el gato")
        output.flush()
        before = lowest_free()
        sources.wait_for_more(stream)
        assert lowest_free() == before


def test_a_signal_that_comes_before_the_read_interrupts_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    interrupted = threading.Event()
    in_time = []

    def interrupt() -> None:
        time.sleep(0.1)
        # To a waiting read, a signal that another thread receives is like one that came before it.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        in_time.append(interrupted.wait(5))
        os.write(writing, b"el gato\n")

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    try:
        with os.fdopen(reading, "rb") as file:
            monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                next(sources.standard_input(sources.Portion(1)))
            interrupted.set()
            thread.join()
    finally:
        signal.signal(signal.SIGINT, handler)
        os.close(writing)
    assert in_time == [True]


def as_it_is_awaited(streams: list[object], _: object, __: object, seconds: float | None = None) -> object:
    """The `select` of a stream whose next lines arrive only once somebody waits for them."""
    return (streams[:1] if seconds is None else [], [], [])


def no_sockets(*_: object) -> None:
    raise OSError(10038, "an operation was attempted on something that is not a socket")  # as on Windows


@pytest.mark.parametrize(
    ("typing", "select"),
    [(True, as_it_is_awaited), (False, as_it_is_awaited), (True, no_sockets), (False, no_sockets)],
)
def test_what_is_translated_is_given_out_before_more_is_read(
    typing: bool, select: Any, translate: Call, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "select", select)
    if select is no_sockets:
        monkeypatch.delattr(os, "set_blocking")  # which Windows has only from Python 3.12 on
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output))
    blocks = iter([b"el gato\nel", b" perro\n", b"el ni\xc3", b"\xb1o", b""])
    answered: list[str] = []

    def read1(size: int) -> bytes:
        answered.append(output.getvalue().decode())
        return next(blocks)

    stream = SimpleNamespace(read1=read1, fileno=lambda: 0)
    translate(stdin=SimpleNamespace(buffer=stream, isatty=lambda: typing))
    first, second, third = translator.translate(["el gato", "el perro", "el niño"])
    assert answered == ["", joined([first]), *[joined([first, second])] * 3]
    assert output.getvalue().decode() == joined([first, second, third])


def test_a_person_who_waits_sees_how_far_it_is(
    translate: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 2)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    lines = write_lines(tmp_path / "lines", [*LINES, "el zorro"])
    said = translate("--unknown", "--input", lines, "--output", tmp_path / "out")
    shown = said.err.replace("\r", "\n").splitlines()
    assert [int(row.split(" lines")[0]) for row in shown if " lines [" in row][-1] == len(LINES) + 1
    assert "line 6: unknown: zorro" in [row.strip() for row in shown]  # on a line of its own
    # Without --output translations may be on the same terminal.
    assert translate("--input", lines).err == ""


# --- search ----------------------------------------------------------------------------------------------------------


def test_given_translations_are_scored(
    translate: Call, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK", 2)
    lines, given = ["el gato", "", "el perro"], ["il gatto", "", "cane"]
    file = write_lines(tmp_path / "given", given)
    expected = [f"{figure:.4f}" for figure in translator.log_probabilities(lines, given)]
    assert translate("--score", file, *lines) == Outcome(0, joined(expected), "")
    assert float(expected[0]) < float(expected[1]) == 0
    for some, said in ((lines[:2], "but the input has 2"), ([*lines, "el"], "fewer than the input")):
        found = translate("--score", file, stdin=joined(some).encode())
        assert (found.code, found.err) == (2, f"error: {file} has 3 lines, {said}; it needs one for each input line\n")
        assert found.out
        message = (
            f"{file} has 3 lines, but the input has {len(some)}; it needs one for each input line. "
            f"They seem to diverge near line {min(len(some), 3) + 1}:\n"
            f"  source: {'(no more lines)' if len(some) == 2 else repr('el')}\n"
            f"  target: {repr('cane') if len(some) == 2 else '(no more lines)'}"
        )
        for known in (some, ["--input", write_lines(tmp_path / "in", some)]):
            assert translate("--score", file, *known) == Outcome(2, "", f"error: {message}\n")
    found = translate("--score", file, "--input", write_lines(tmp_path / "in", []))
    assert found.err.endswith("near line 1:\n  source: (no more lines)\n  target: 'il gatto'\n")
    found = translate(
        "--score", write_lines(tmp_path / "three", ["il"] * 3), "--max-source", "1", "el", "el", "el gato"
    )
    assert len(set(found.out.split("\n")[:-1])) == 1
    assert (
        found.err
        == "line 3 has 2 tokens and is truncated to the first 1; raise max_source (--max-source) to read more\n"
    )
    assert translate("--score", file, "--n-best", "2", "--beam-size", "1", *lines) == Outcome(
        2, "", "error: --score translates nothing: leave out --n-best and --beam-size\n"
    )


def test_given_translations_that_are_too_long(translate: Call, translator: Translator, tmp_path: Path) -> None:
    ratio, extra = translator.config.decoding.max_ratio, translator.config.decoding.max_extra
    assert ratio is not None
    most = math.ceil(ratio) + extra + 1  # One that is cut off has no end, but another token in its place.
    given = write_lines(tmp_path / "given", [" ".join(["il"] * count) for count in (most, most + 1, most + 2)])
    said = translate("--score", given, "--max-source", "1", "el", "el", "el")
    assert said.code == 0
    assert said.out.split("\n")[1:3] == ["-inf", "-inf"]
    assert float(said.out.split("\n")[0]) > -math.inf
    assert said.err == (
        f"line 2: the translation has {most + 1} tokens, and no search gives more than {most}, so its probability "
        "counts as 0; raise max_source (--max-source) to score it (such lines so far: 2)\n"
    )


def test_no_limit_at_all_is_no_limit(translate: Call, tmp_path: Path) -> None:
    given = write_lines(tmp_path / "given", ["il gatto"])
    assert translate("--score", given, "--max-source", 2**63 - 1, "el gato") == translate("--score", given, "el gato")


def test_given_translations_of_unknown_words(translate: Call, tmp_path: Path) -> None:
    said = translate("--score", write_lines(tmp_path / "given", ["il gatto", "你 好"]), "el gato", "el gato")
    assert said.code == 0
    assert said.err == (
        "line 2: only 0 of its 2 tokens are in the model's vocabulary (it); "
        "the probability of this translation means little\n"
    )


def test_n_best(translate: Call, translator: Translator) -> None:
    said = translate("--n-best", "3", "el gato come", "", "el perro")
    rows = [row.split("\t") for row in said.out.split("\n")[:-1]]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    assert rows[3] == ["2", "0.0000", "1", "0.0000", ""]
    (expected,) = translator.n_best(["el gato come"], 3)
    assert rows[:3] == [["1", f"{t.log_probability:.4f}", str(t.length), f"{t.score:.4f}", t.text] for t in expected]
    for _, log_probability, length, score, _ in rows:
        assert float(score) == pytest.approx(float(log_probability) / int(length), abs=1e-4)  # length penalty 1


def test_samples_are_the_same_however_the_lines_come(translate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["el gato ve"] * 7
    samples = translate("--search", "sample", *lines).out
    assert len(set(samples.splitlines())) > 1
    assert translate("--search", "sample", "--seed", "2", *lines).out != samples
    assert len(set(translate("--search", "sample", "--temperature", "0.01", *lines).out.splitlines())) == 1
    monkeypatch.setattr(sources, "CHUNK", 2)
    assert translate("--search", "sample", "--batch-tokens", "1", *lines).out == samples
    rows = translate("--search", "sample", "--n-best", "3", "--top-k", "4", "--temperature", "0.5", *lines).out
    assert [row.split("\t")[0] for row in rows.splitlines()] == [str(n) for n in range(1, 8) for _ in range(3)]


def test_unknown_words_are_listed_apart(translate: Call) -> None:
    said = translate("--unknown", "el zorro ve", "el gato", "el gato dos años")
    # Whether this little model comes to an end differs between CPUs.
    said_of_words = re.sub(r"\d of 3 translations truncated at the length limit.*\n", "", said.err)
    assert said_of_words == "line 1: unknown: zorro\nline 3: unknown: dos años\n"
    assert said.out.count("\n") == 3
    assert "unk" not in said.out


def test_unknown_words_do_nothing_to_a_terminal(translate: Call) -> None:
    assert translate("--unknown", "el \x1b[7mzorro").err.startswith("line 1: unknown: '\\x1b[7mzorro'\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--beam-size", "2", "--search", "greedy"),
            "greedy search has no beam_size; leave it out, or use beam search (--search beam)",
        ),
        (
            ("--top-k", "2", "--seed", "3"),
            "beam search has no seed and no top_k; leave it out, or use sample search (--search sample)",
        ),
        (
            ("--search", "sample", "--length-penalty", "1"),
            "sample search has no length_penalty; leave it out, or use beam search (--search beam)",
        ),
        (
            ("--length-penalty", "-1"),
            "search settings: decoding.length_penalty: given -1.0, allowed: a number from 0 to 10",
        ),
        (
            ("--length-penalty", "nan"),
            "search settings: decoding.length_penalty: given nan, allowed: a number from 0 to 10",
        ),
    ],
)
def test_search_that_cannot_be(options: tuple[str, ...], message: str, translate: Call) -> None:
    assert translate("el gato", *options) == Outcome(2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--n-best", "0"), "argument --n-best: '0' is not a whole number of at least 1"),
        (("--n-best", "all"), "argument --n-best: 'all' is not a whole number of at least 1"),
        (("--beam-size", "many"), "argument --beam-size: invalid int value: 'many'"),
        (("--search", "bean"), "argument --search: invalid choice: 'bean'"),
        (("--serach", "beam"), "unrecognized arguments: --serach"),
    ],
)
def test_options_that_are_none(options: tuple[str, ...], message: str, translate: Call) -> None:
    said = translate("el gato", *options)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_arguments_with_line_ends_of_windows_are_lines_like_others() -> None:
    assert sources.argument_lines(["el gato\r\nla casa\r"]) == ["el gato", "la casa"]
    assert sources.argument_lines(["el gato\n", "", "\n", "la casa\r\n\n"]) == ["el gato", "", "", "la casa", ""]


def test_so_are_lines_of_standard_input_and_only_the_first_has_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    content = "\ufeffel gato\r\n\ufeff\r\r\nla casa\r".encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    lines = [line for arrived in sources.standard_input(sources.Portion(1)) for line in arrived]
    assert lines == ["el gato", "\ufeff\r", "la casa"]


def test_other_white_space_at_the_end_of_an_argument_stays_as_in_a_file() -> None:
    assert sources.argument_lines(["el gato \t\n"]) == ["el gato \t"]
