"""Kinds of options, for all commands, and the options of models and their search, for translate.py and evaluate.py."""

import argparse
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from translate.errors import ConfigError
from translate.system.paths import exists

if TYPE_CHECKING:
    from translate.config.decoding import DecodingConfig
    from translate.translator import Translator

log = logging.getLogger("translate")


class Once(argparse.Action):
    """An option that may be given only once, such as an input file; models may be given several times."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, *_: Any) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{self.option_strings[0]} is given twice; leave one out")
        setattr(namespace, self.dest, value)


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option that takes whole numbers from `least` on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return number


class SearchOptions(argparse.ArgumentParser):
    """A parser that answers to options of other toolkits with ours, or with what there is instead of them."""

    def error(self, message: str) -> NoReturn:
        from translate.config.foreign import instead_of, our_name

        if unknown := re.match(r"unrecognized arguments: (--\w[\w-]*)", message):
            ours = our_name(unknown[1], "decoding") or ""
            option = f"--{ours.removeprefix('decoding.').replace('_', '-')}"
            if f"{option} " in self.format_help():
                message += f"; did you mean {option}?"
            elif advice := instead_of(unknown[1], "decoding"):
                message += f"; {advice}"
        super().error(message)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add `--checkpoint`, `--device` and the settings of the search, which are the model's own unless given."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="model file; repeat it for an ensemble; default: the model of the last finished run in checkpoints/",
    )
    parser.add_argument("--search", choices=("greedy", "beam", "sample"), help="default: from the model's config")
    parser.add_argument("--beam-size", type=int, metavar="K", help="number of hypotheses in beam search")
    parser.add_argument(
        "--length-penalty", type=float, metavar="A", help="exponent A in score = log-probability / length^A"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="sampling: below 1 favours probable tokens")
    parser.add_argument("--top-k", type=int, metavar="K", help="sampling: draw from the K most probable tokens")
    parser.add_argument("--seed", type=int, metavar="N", help="sampling: random seed")
    parser.add_argument(
        "--max-ratio",
        type=float,
        metavar="R",
        help="maximum length of translations: R target tokens per source token, plus decoding.max_extra",
    )
    parser.add_argument(
        "--max-source",
        type=int,
        metavar="N",
        help="truncate source lines to N tokens; a model with learned positions may have a lower limit",
    )
    parser.add_argument("--batch-tokens", type=int, metavar="N", help="batch size in source tokens, including padding")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")


def models_of(args: argparse.Namespace) -> list[Path]:
    """The model files asked for, or the newest model, which is named in the log.

    ConfigError if one argument names several files; CheckpointError if none is given and no run has finished.
    """
    from translate.runs.folder import newest_model

    for path in args.checkpoint:
        if not exists(path) and all(map(os.path.isfile, re.split("[:,]", str(path)))):
            raise ConfigError(f"{path} names several files; for an ensemble, repeat --checkpoint")
    if args.checkpoint:
        return args.checkpoint
    newest = newest_model()
    log.info("model: %s", newest)
    return [newest]


def warn_of_truncated(truncated: int, translations: int, search: str, max_length: int) -> None:
    """Warn of translations that the length limit has cut off, if any; `max_length` is that of the model."""
    from translate.model.positions import NO_LIMIT

    if truncated:
        log.warning(
            "%d of %d translations truncated at the length limit; if they repeat themselves, train longer%s, otherwise "
            "raise it with --max-ratio%s",
            truncated,
            translations,
            " or try --search beam" if search == "greedy" else "",
            "" if max_length == NO_LIMIT else f", up to the model's {max_length} positions",
        )


def settings_of(translator: "Translator", args: argparse.Namespace) -> "DecodingConfig":
    """How to search: the model's own settings, except for those given as options. ConfigError if one is invalid."""
    known = type(translator.config.decoding).model_fields
    return translator.settings(**{name: value for name, value in vars(args).items() if name in known})
