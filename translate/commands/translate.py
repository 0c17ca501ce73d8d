"""Translate text: arguments, a file, or standard input line by line; translations alone go to standard output."""

import argparse
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from translate.commands.options import (
    Once,
    SearchOptions,
    add_search_options,
    at_least,
    models_of,
    settings_of,
    warn_of_truncated,
)
from translate.commands.output import is_open_as, open_output, progress
from translate.commands.run import run
from translate.commands.signals import leaving_cleanly
from translate.commands.sources import file_lines, source_lines, source_text
from translate.errors import ConfigError, DataError
from translate.system.paths import exists, resolved

if TYPE_CHECKING:
    from translate.config.decoding import DecodingConfig
    from translate.data.lines import Text
    from translate.line_warnings import LineWarnings
    from translate.translator import Translation, Translator

SCORING_SETTINGS = {"max_source", "batch_tokens"}  # settings of the section `decoding` that --score has, too

log = logging.getLogger("translate")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = SearchOptions(description="Translate sentences, a file, or standard input line by line.")
    parser.add_argument(
        "sentences",
        nargs="*",
        metavar="SENTENCE",
        help="sentence to translate (after --, if it begins with -); default: read --input or standard input",
    )
    parser.add_argument("--input", type=Path, action=Once, help="file with one sentence per line, plain, .gz or .zst")
    parser.add_argument(
        "--output", type=Path, action=Once, help="write the translations to this file instead of standard output"
    )
    parser.add_argument(
        "--n-best",
        type=at_least(1),
        metavar="N",
        help="print up to N translations of each line (one for an empty line), with tabs between line number, "
        "log-probability, length, score and text; or N labels: line number, log-probability and label",
    )
    parser.add_argument(
        "--score",
        type=Path,
        action=Once,
        metavar="FILE",
        help="do not translate; print the log-probability (natural logarithm) of each line of this file as the "
        "translation of the input line",
    )
    parser.add_argument(
        "--unknown",
        action="store_true",
        help="also list the unknown (out-of-vocabulary) words or characters of each line",
    )
    add_search_options(parser)
    given = list(sys.argv[1:] if arguments is None else arguments)
    # What follows "--" are sentences, but argparse would look for options there, too.
    end = given.index("--") if "--" in given else len(given)
    args = parser.parse_intermixed_args(given[:end])
    args.sentences += given[end + 1 :]
    args.input, args.output = (None if path == Path("-") else path for path in (args.input, args.output))
    with leaving_cleanly():
        return run(lambda: translate(args))


def translate(args: argparse.Namespace) -> None:
    """Read, translate or score, and write: one line for each line of input or, with --n-best, up to n rows."""
    from translate.data.corpora import corpora_of
    from translate.data.corpus import divergence
    from translate.line_warnings import LineWarnings
    from translate.system.allocation import keep_memory, release_memory
    from translate.translator import Translator

    refuse_idle_options(args)
    refuse_what_is_no_sentence(args)
    source, given = source_text(args), file_lines(args.score) if args.score else None
    if source is not None and given is not None and len(source) != len(given):
        error = unequal(args.score, given, f"but the input has {len(source)}")
        raise DataError(f"{error}. {divergence(source, given)}")
    checkpoints = models_of(args)
    refuse_to_replace(args.output, files_in_use(args, checkpoints, from_stdin=source is None))
    keep_memory()
    translator = Translator.load(checkpoints, args.device)
    for saved in (translator.saved, *translator.others):
        refuse_to_replace(args.output, {"the model's data file": corpora_of(saved.config.data).files()})
    warn_of_target_language(args.input, *translator.saved.languages)
    settings = settings_of(translator, args)
    task: Translating | Scoring = Translating(translator, settings, args.n_best)
    if given is not None:
        task = Scoring(translator, settings, args.score, given)
    typing = source is None and sys.stdin is not None and sys.stdin.isatty()
    if typing:
        log.info("type a sentence and press Enter; Ctrl-D quits")
    number, warnings = 0, LineWarnings()
    with open_output(args.output) as output, progress(shown=bool(args.output) and not typing) as count:
        for lines in source_lines(source, translator.device):
            if args.unknown:
                report_unknown(translator, lines, number + 1)
            by_hand = source is None and len(lines) == 1  # Whoever writes line by line reads what is said of each.
            output.writelines(task.rows(lines, number + 1, None if by_hand else warnings))
            output.flush()
            number += len(lines)
            count(len(lines))
            release_memory()
        task.end(number)


class Translating:
    """The task of translating: one translation of each line, or up to `n_best` of each in columns."""

    def __init__(self, translator: "Translator", settings: "DecodingConfig", n_best: int | None) -> None:
        self.translator, self.settings, self.n_best = translator, settings, n_best
        self.columns = n_best_labels if translator.predicts_labels else n_best_rows
        self.truncated = 0

    def rows(self, lines: list[str], first: int, warnings: "LineWarnings | None") -> Iterator[str]:
        """What is printed for these lines, the first of which has the number `first`."""
        found = self.translator.n_best(lines, self.n_best or 1, self.settings, first_line=first, warnings=warnings)
        for number, hypotheses in enumerate(found, first):
            yield from self.columns(number, hypotheses) if self.n_best else [f"{hypotheses[0].text}\n"]
            self.truncated += not hypotheses[0].finished

    def end(self, lines: int) -> None:
        """Give the warnings that are due after this many lines."""
        warn_of_truncated(self.truncated, lines, self.settings.search, self.translator.model.max_length)


class Scoring:
    """The task of scoring: the log-probability of the corresponding line of a file as the translation of each line."""

    def __init__(self, translator: "Translator", settings: "DecodingConfig", path: Path, given: "Text") -> None:
        self.translator, self.settings, self.path = translator, settings, path
        self.given, self.rest = given, iter(given)

    def rows(self, lines: list[str], first: int, warnings: "LineWarnings | None") -> Iterator[str]:
        """What is printed for these lines, the first of which has the number `first`."""
        given = list(islice(self.rest, len(lines)))
        if len(given) < len(lines):
            raise unequal(self.path, self.given, "fewer than the input")
        figures = self.translator.log_probabilities(lines, given, self.settings, first_line=first, warnings=warnings)
        return (f"{figure:.4f}\n" for figure in figures)

    def end(self, lines: int) -> None:
        """DataError if the file has more lines than this."""
        if lines != len(self.given):
            raise unequal(self.path, self.given, f"but the input has {lines}")


def refuse_idle_options(args: argparse.Namespace) -> None:
    """ConfigError if options of translating are given along with --score."""
    from translate.config.decoding import DecodingConfig

    of_translating = ("n_best", *(name for name in DecodingConfig.model_fields if name not in SCORING_SETTINGS))
    if args.score and (idle := [name for name in of_translating if getattr(args, name, None) is not None]):
        options = " and ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise ConfigError(f"--score translates nothing: leave out {options}")


def refuse_what_is_no_sentence(args: argparse.Namespace) -> None:
    """ConfigError if a sentence is the name of a file or a setting: other programs take these in its place."""
    from translate.config.decoding import DecodingConfig

    for sentence in args.sentences:
        if exists(Path(sentence)) and Path(sentence).is_file():
            is_model = sentence.endswith(".safetensors")
            wanted = (
                "for an ensemble, repeat --checkpoint" if is_model else f"to translate its lines: --input {sentence}"
            )
            raise ConfigError(f"{sentence} is a file; {wanted} (to translate its name, give it on standard input)")
        if setting := re.match(rf"(?:decoding\.(\w+)|({'|'.join(DecodingConfig.model_fields)}))=", sentence):
            name = setting[1] or setting[2]
            has_option = name in DecodingConfig.model_fields and name in args
            option = f"; write --{name.replace('_', '-')} VALUE" if has_option else ", and no option here"
            raise ConfigError(f"{sentence} is no sentence{option}")


def unequal(path: Path, given: "Text", how: str) -> DataError:
    """The error if a file of translations does not have as many lines as the input."""
    return DataError(f"{path} has {len(given)} lines, {how}; it needs one for each input line")


def files_in_use(
    args: argparse.Namespace, checkpoints: Sequence[Path], *, from_stdin: bool
) -> dict[str, Sequence[Path | None]]:
    """What the translations may not replace, by what messages call it; `from_stdin` says where the text comes from."""
    from translate.runs.folder import RunFolder

    runs = [RunFolder(path.parent) for path in checkpoints]
    output_is_input = args.output and from_stdin and is_open_as(args.output, sys.stdin) and args.output.is_file()
    return {
        "the model": checkpoints,
        "the text to translate": [args.input],
        "the text to score": [args.score],
        "the input": [args.output] if output_is_input else [],
        "the run's file": [file for run in runs for file in (run.config, run.metrics, run.finished)],
    }


def warn_of_target_language(text: Path | None, source: str, target: str) -> None:
    """Warn if the file to translate is named after the language that the model translates to."""
    if text and f".{target}" in text.suffixes and f".{source}" not in text.suffixes:
        log.warning(
            "the model translates from %r to %r, but the text is %s; to use another model, name it: --checkpoint FILE",
            source,
            target,
            text,
        )


def refuse_to_replace(output: Path | None, read: Mapping[str, Iterable[Path | None]]) -> None:
    """ConfigError if the translations would replace one of the files that are `read`, or be named like an archive."""
    from translate.data.lines import PACKED

    if output is None:
        return
    if output.suffix in PACKED:
        raise ConfigError(f"translations are written as plain text: name a file without {output.suffix}: --output FILE")
    for what, files in read.items():
        if resolved(output) in {resolved(file) for file in files if file is not None}:
            raise ConfigError(f"the translations would overwrite {what} {output}; name another file: --output FILE")


def n_best_rows(number: int, hypotheses: "Sequence[Translation]") -> list[str]:
    """One row of five columns for each translation of line `number`; a tab in its text becomes a space."""
    columns = "{}\t{:.4f}\t{}\t{:.4f}\t{}\n".format
    return [columns(number, h.log_probability, h.length, h.score, h.text.replace("\t", " ")) for h in hypotheses]


def n_best_labels(number: int, hypotheses: "Sequence[Translation]") -> list[str]:
    """One row for each label of line `number`. To the search a label is a translation of one token."""
    return [f"{number}\t{h.log_probability:.4f}\t{h.text}\n" for h in hypotheses]


def report_unknown(translator: "Translator", lines: Sequence[str], first: int) -> None:
    """Name the words of each line that the model does not know."""
    for number, line in enumerate(lines, start=first):
        if words := translator.unknown_words(line):
            shown = (word if word.isprintable() else ascii(word) for word in words)
            log.info("line %d: unknown: %s", number, " ".join(shown))


if __name__ == "__main__":
    sys.exit(main())
