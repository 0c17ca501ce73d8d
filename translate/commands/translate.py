"""Translate text: arguments, a file, or standard input line by line; translations alone go to standard output."""

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

from translate.commands.options import add_search_options, models_of, settings_of, warn_of_truncated
from translate.commands.run import leave_on_sigterm, run
from translate.errors import ConfigError, DataError
from translate.files import unfinished
from translate.paths import resolved

if TYPE_CHECKING:
    from io import BufferedReader

    from tqdm import tqdm

    from translate.translator import Translation, Translator

CHUNK = 1000  # Lines translated together: sorted by length, they make full batches.
BLOCK = 1 << 16  # bytes of standard input, at most, at a time

log = logging.getLogger("translate")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="Translate sentences, a file, or standard input line by line.")
    parser.add_argument(
        "sentences", nargs="*", metavar="SENTENCE", help="without any, --input or standard input is read"
    )
    parser.add_argument("--input", type=Path, help="file with one sentence a line, plain, .gz or .zst")
    parser.add_argument("--output", type=Path, help="file for the translations instead of standard output")
    parser.add_argument(
        "--n-best",
        type=positive,
        metavar="N",
        help="print at most N translations a sentence, one of an empty line: line number, log-probability, length, "
        "score and text, between tabs; or N labels: line number, log-probability and label",
    )
    parser.add_argument(
        "--score",
        type=Path,
        metavar="FILE",
        help="print the natural logarithm of the probability of each line of this file, as the translation of its "
        "line; translate nothing",
    )
    parser.add_argument(
        "--unknown", action="store_true", help="also name the words of each line, or its characters, that are unknown"
    )
    add_search_options(parser)
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)  # of the options; argparse would look for some behind it
    asked = parser.parse_intermixed_args(given[:end])
    asked.sentences += given[end + 1 :]
    asked.input, asked.output = (None if path == Path("-") else path for path in (asked.input, asked.output))
    leave_on_sigterm()
    return run(lambda: translate(asked))


def positive(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def translate(asked: argparse.Namespace) -> None:
    """Read, translate or score, write; one line, or one group of n rows, comes out for each line that goes in."""
    from translate.config.schema import LabelledDataConfig
    from translate.data.inventory import text_files
    from translate.data.lines import read_lines
    from translate.device import keep_memory, release_memory
    from translate.translator import Translator

    if asked.score and asked.n_best:
        raise ConfigError("--score translates nothing; leave --n-best out")
    lines = source_lines(asked)
    checkpoints = models_of(asked)
    read = {"the model": checkpoints, "the text to translate": [asked.input], "the text to score": [asked.score]}
    refuse_to_replace(asked.output, read)
    translator = Translator.load(checkpoints, asked.device)
    refuse_to_replace(asked.output, {"a text of the model's data": text_files(translator.config.data)})
    settings = settings_of(translator, asked)
    rows = n_best_labels if isinstance(translator.config.data, LabelledDataConfig) else n_best_rows
    given = read_lines(asked.score) if asked.score else None
    typing = not asked.sentences and not asked.input and sys.stdin is not None and sys.stdin.isatty()
    if typing:
        log.info("type a sentence and Enter; Ctrl-D ends")
    keep_memory()
    number = truncated = 0
    with open_output(asked.output) as output, progress(shown=bool(asked.output) and not typing) as bar:
        for some in lines:
            if asked.unknown:
                report_unknown(translator, some, number + 1)
            if given is not None:
                of_these = given[number : number + len(some)]
                if len(of_these) < len(some):
                    raise DataError(f"{asked.score} has {len(given)} lines, fewer than there are to translate")
                figures = translator.log_probabilities(some, of_these, settings, first_line=number + 1)
                output.writelines(f"{figure:.4f}\n" for figure in figures)
                number += len(some)
            else:
                for hypotheses in translator.n_best(some, asked.n_best or 1, settings, first_line=number + 1):
                    number += 1
                    output.writelines(rows(number, hypotheses) if asked.n_best else [f"{hypotheses[0].text}\n"])
                    truncated += not hypotheses[0].finished
            output.flush()
            bar.update(len(some))
            release_memory()
        if given is not None and number != len(given):
            raise DataError(f"{asked.score} has {len(given)} lines, more than the {number} to translate")
    warn_of_truncated(truncated, number)


def refuse_to_replace(output: Path | None, read: Mapping[str, Iterable[Path | None]]) -> None:
    """ConfigError where the translations would replace one of the files that are `read`, or be no archive in spite of
    their name."""
    if output is None:
        return
    if output.suffix in (".gz", ".zst"):
        raise ConfigError(f"translations are written as plain text: name a file without {output.suffix}: --output FILE")
    for what, files in read.items():
        if resolved(output) in {resolved(file) for file in files if file is not None}:
            raise ConfigError(f"the translations would replace {what} {output}; name another file: --output FILE")


def source_lines(asked: argparse.Namespace) -> Iterator[list[str]]:
    """The lines to translate, some at a time: arguments, a file, or standard input as it comes."""
    from translate.data.lines import chunks, read_lines

    if asked.sentences and asked.input:
        raise ConfigError("sentences and --input are both given; use one of them")
    if asked.sentences:
        return chunks(argument_lines(asked.sentences), CHUNK)
    return chunks(read_lines(asked.input), CHUNK) if asked.input else standard_input()


def argument_lines(sentences: Sequence[str]) -> list[str]:
    """The lines of the arguments. DataError names a sentence that is not UTF-8."""
    # Python has decoded the arguments as the locale says, and in the C locale that is ASCII.
    texts = [decode(os.fsencode(text), f"sentence {number}") for number, text in enumerate(sentences, start=1)]
    return [line for text in texts for line in text.split("\n")]


def standard_input() -> Iterator[list[str]]:
    """The lines of standard input that have arrived, so that whoever writes one by one gets an answer to each.

    DataError names a line that is not UTF-8; those before it come first.
    """
    if sys.stdin is None:  # It was closed before we began.
        return
    stream = cast("BufferedReader", sys.stdin.buffer)
    lines: list[str] = []
    begun: list[bytes] = []  # what has arrived of the line under way
    number = 0
    try:
        while block := stream.read1(BLOCK):
            first, *others = block.split(b"\n")
            begun.append(first)
            for content in others:
                number += 1
                lines.append(line_of(b"".join(begun), number))
                begun = [content]
                if len(lines) == CHUNK:
                    yield lines
                    lines = []
            if lines and not more_has_arrived(stream):
                yield lines
                lines = []
        if any(begun):
            lines.append(line_of(b"".join(begun), number + 1))
    except DataError:
        if lines:
            yield lines
        raise
    if lines:
        yield lines


def line_of(content: bytes, number: int) -> str:
    """A line of standard input. DataError where it is not UTF-8."""
    line = decode(content.removesuffix(b"\r"), f"standard input, line {number}")
    return line.removeprefix("\ufeff") if number == 1 else line


def more_has_arrived(stream: "BufferedReader") -> bool:
    """Whether the next read need not wait; False where that cannot be known, as on Windows."""
    try:
        return bool(select([stream], [], [], 0)[0])
    except (OSError, ValueError):
        return False


def decode(content: bytes, place: str) -> str:
    """UTF-8 to text. DataError names the place of what is none."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{place}, byte {error.start + 1}: {error.reason}; give UTF-8 text") from None


@contextmanager
def progress(*, shown: bool) -> "Iterator[tqdm[NoReturn]]":
    """A count of the lines on standard error, where that is a terminal, with messages above it.

    Not beside translations on standard output: those may be on the same terminal, or in a pager there.
    """
    from tqdm import tqdm
    from tqdm.contrib.logging import logging_redirect_tqdm

    with logging_redirect_tqdm(), tqdm(unit=" lines", dynamic_ncols=True, disable=None if shown else True) as bar:
        yield bar


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears under its name once all is written. DataError where that cannot be.

    What was written before an error, or Ctrl-C, is kept under another name.
    """
    if path is None:
        yield sys.stdout
        return
    try:
        # What is there and no file, such as /dev/null or a pipe, must not be replaced by one; a folder says so at once.
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="\n") as text:
                yield text
            return
        with unfinished(resolved(path)) as place, place.open("w", encoding="utf-8", newline="\n") as text:
            try:
                yield text
            except BaseException:
                keep_part(text, place, resolved(path))
                raise
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from error


def keep_part(text: TextIO, place: Path, path: Path) -> None:
    """Give the lines that were done before an error a name beside that of the whole, and say so."""
    with suppress(OSError):  # The disk may be full: then what is on it counts.
        text.flush()
    lines = place.read_bytes()
    lines = lines[: lines.rfind(b"\n") + 1]
    if not lines:
        return
    os.truncate(place, len(lines))
    names = (path.with_name(f"{path.name}.part{number}") for number in count(1))
    part = place.rename(next(name for name in names if not name.exists()))
    log.info("lines that were done by then: %d, in %s", lines.count(b"\n"), part)


def n_best_rows(number: int, hypotheses: "Sequence[Translation]") -> list[str]:
    """One row for each translation of line `number`."""
    return [f"{number}\t{h.log_probability:.4f}\t{h.length}\t{h.score:.4f}\t{h.text}\n" for h in hypotheses]


def n_best_labels(number: int, hypotheses: "Sequence[Translation]") -> list[str]:
    """One row for each label of line `number`. To the search a label is a translation of one token."""
    return [f"{number}\t{h.log_probability:.4f}\t{h.text}\n" for h in hypotheses]


def report_unknown(translator: "Translator", lines: Sequence[str], first: int) -> None:
    """Name the words of each line that the model does not know."""
    for number, line in enumerate(lines, start=first):
        if words := translator.unknown_words(line):
            log.info("line %d: unknown: %s", number, " ".join(words))
