"""Score a model: translate a split of its text, or any pair of files, and compare with the references."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from translate.commands.options import (
    Once,
    SearchOptions,
    add_search_options,
    models_of,
    settings_of,
    warn_of_truncated,
)
from translate.commands.run import run
from translate.commands.signals import leaving_cleanly
from translate.errors import ConfigError
from translate.system.paths import exists, resolved

if TYPE_CHECKING:
    from translate.config.decoding import DecodingConfig
    from translate.data.corpus import TextInMemory
    from translate.translator import Translator

log = logging.getLogger("translate")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = SearchOptions(
        description="Translate parallel text and score the translations with BLEU and chrF; or label text and compute "
        "the accuracy."
    )
    parser.add_argument(
        "--split",
        action=Once,
        help="split in the data folder used in training, or in --data-root; default: test, unless files are given",
    )
    parser.add_argument(
        "--data-root", type=Path, action=Once, help="folder of the split; default: the data folder used in training"
    )
    parser.add_argument(
        "--source", type=Path, action=Once, help="file with the source sentences or texts, instead of a split"
    )
    parser.add_argument(
        "--reference",
        type=Path,
        action="append",
        default=[],
        help="file with the reference translations or labels; repeat it for several reference translations",
    )
    parser.add_argument(
        "--json",
        type=Path,
        action=Once,
        metavar="FILE.json",
        help="where to write the report; default: beside the model",
    )
    parser.add_argument("--tokenized-bleu", action="store_true", help="also report the BLEU of the torchtext tutorials")
    add_search_options(parser)
    args = parser.parse_args(arguments)
    with leaving_cleanly():
        return run(lambda: evaluate(args))


def evaluate(args: argparse.Namespace) -> None:
    """Read, translate, score, and write the report with the translations beside it."""
    from translate.data.corpus import read_further_reference
    from translate.evaluation.scoring import score
    from translate.system.allocation import keep_memory
    from translate.system.terminal import printable, telling_the_time
    from translate.translator import Translator

    if (args.source is None) != (not args.reference) or (args.split is not None and args.source is not None):
        raise ConfigError("give either --split NAME, or both --source FILE and --reference FILE")
    if args.source is not None and args.data_root is not None:
        raise ConfigError("--data-root applies only to --split; leave it out with --source and --reference")
    if args.source is None and args.split is None:
        args.split = "test"
    checkpoints = models_of(args)
    report = report_path(args, checkpoints)
    keep_memory()
    translator = Translator.load(checkpoints, args.device)
    refuse_scores_that_do_not_exist(args, translator)
    files = [resolved(path) for path in args.reference]
    others = args.reference[1:]
    for path in others:
        if files.count(resolved(path)) > 1:
            raise ConfigError(f"--reference {path} is given twice; leave one out")
    text = read_text(args, translator)
    references = dict(read_further_reference(path, text) for path in others)
    warn_of_text(text, list(references.values()), translator)
    settings = settings_of(translator, args)
    how = "" if translator.predicts_labels else f"; {describe_search(settings)}"
    log.info("%s: %s, %s%s", text.name, text.counted(len(text.source)), text.variant, how)
    if another := another_report(report, text, list(references), settings, translator):
        log.warning("overwriting %s, a report for %s; to keep both, use --json FILE.json", report, another)
    with telling_the_time(f"{text.name}: scoring"):
        scored = score(
            translator, text, settings, references=references, checkpoints=checkpoints, tokenized=args.tokenized_bleu
        )
    try:
        scored.write(report)
    finally:  # Scores are printed even if writing fails. Printing comes last: it fails if the reader has left.
        print(printable(scored.format()))
        warn_of_truncated(scored.details["truncated"], len(text.source), settings.search, translator.model.max_length)
    rate = scored.details["sentences_per_second"]
    log.info("%.1f s, %.1f sentences/s; report: %s", scored.details["seconds"], rate, report)


def refuse_scores_that_do_not_exist(args: argparse.Namespace, translator: "Translator") -> None:
    """ConfigError if labels are to be compared as translations are, or tokenized BLEU has several references."""
    several = len(args.reference) > 1
    if translator.predicts_labels and args.tokenized_bleu:
        raise ConfigError("--tokenized-bleu does not apply to labels; leave it out")
    if args.tokenized_bleu and several:
        raise ConfigError("--tokenized-bleu compares with one reference: give only one --reference, or leave it out")
    if translator.predicts_labels and several:
        raise ConfigError("each text has only one label; give only one --reference")


def read_text(args: argparse.Namespace, translator: "Translator") -> "TextInMemory":
    """The split, or the source and its first reference, of the kind of text that the model was trained on."""
    from translate.data.corpora import corpora_of

    corpora = corpora_of(translator.config.data, translator.saved.target)
    if args.source is not None:
        return corpora.read_files(args.source, args.reference[0])
    return corpora.open_split(args.split, args.data_root).in_memory()


def warn_of_text(text: "TextInMemory", references: list[list[str]], translator: "Translator") -> None:
    """Warn if scores on this text would say little: if it was trained on, or its lines do not belong together."""
    from translate.data.sides import line_lengths, warn_of_equal_sides, warn_of_misaligned_lines

    abouts = [each.about for each in (translator.saved, *translator.others)]
    if any(text.variant in (about.get("train"), *about.get("train_parts", ())) for about in abouts):
        log.warning("%s is text that the model was trained on: its scores say nothing about unseen text", text.name)
    if translator.predicts_labels:
        return
    warn_of_equal_sides(text)
    source = line_lengths(text.source, translator.saved.source.language)
    for target in (text.target, *references):
        warn_of_misaligned_lines(source, line_lengths(target, translator.saved.target.language), text)


def report_path(args: argparse.Namespace, checkpoints: Sequence[Path]) -> Path:
    """Where the report goes, by default beside the first model.

    ConfigError if it cannot be written, or if it, or the translations beside it, would replace a file that is read, or
    somebody's own.
    """
    from translate.evaluation.reports import read_report, translations_beside
    from translate.system.files import writing

    name = args.source.name if args.split is None else args.split.replace("/", "-")
    path: Path = args.json or checkpoints[0].parent / f"{name}.json"
    if exists(path) and not path.is_file():
        raise ConfigError(f"cannot write a report to {path}, which is not a regular file; name another: --json FILE")
    folder = next(filter(exists, resolved(path).parents))  # Missing ones are created later.
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ConfigError(f"cannot write a report to {folder}; name another file: --json FILE")
    with writing(path, ConfigError, "name another file: --json FILE"), suppress(FileNotFoundError):
        path.stat()  # fails if the name is too long, or a link leads to itself
    read = {resolved(file) for file in (*checkpoints, args.source, *args.reference) if file is not None}
    translations = translations_beside(path)
    written = {resolved(path), resolved(translations)}
    if len(written) == 1 or read & written:
        raise ConfigError(
            f"the report {path} and its translations {translations.name} would overwrite each other or an input "
            "file; name another file: --json FILE"
        )
    if exists(translations) and not exists(path):
        raise ConfigError(
            f"the translations would overwrite {translations}, which belongs to no report; name another file: "
            "--json FILE"
        )
    if not path.name.endswith(".json"):  # It might be a file of the split's text, which is found only later.
        raise ConfigError(f"the report {path} needs a name that ends in .json: --json FILE")
    if exists(path) and path.stat().st_size and read_report(path) is None:
        raise ConfigError(f"{path} is not a report and would be overwritten; name another file: --json FILE")
    return path


def another_report(
    report: Path, text: "TextInMemory", references: list[str], settings: "DecodingConfig", translator: "Translator"
) -> str | None:
    """What an existing report was about, if that was another text, search or choice of models."""
    from translate.config.decoding import DecodingConfig
    from translate.evaluation.reports import read_report

    before = read_report(report)
    if before is None:
        return None
    now = {
        "another text": [text.variant, references],
        "other search settings": settings.model_dump(mode="json"),
        "another model": [each.about for each in (translator.saved, *translator.others)],
    }
    try:
        then = {
            "another text": [before["variant"], before.get("further_references", [])],
            # A setting that did not exist yet had today's default. The batch size changes no translation.
            "other search settings": DecodingConfig().model_dump(mode="json")
            | before["decoding"]
            | {"batch_tokens": settings.batch_tokens},
            "another model": [before["model"], *before["ensemble_with"]],
        }
    except (LookupError, TypeError):
        return None
    return " and ".join(key for key in now if now[key] != then[key]) or None


def describe_search(settings: "DecodingConfig") -> str:
    """The search, in a few words."""
    match settings.search:
        case "greedy":
            return "greedy search"
        case "beam":
            return f"beam search, beam size {settings.beam_size}, length penalty {settings.length_penalty:g}"
        case "sample":
            most_probable = f" from the {settings.top_k} most probable tokens" if settings.top_k else ""
            return f"sampling{most_probable}, temperature {settings.temperature:g}, seed {settings.seed}"


if __name__ == "__main__":
    sys.exit(main())
