"""Train a model: translate-train --config FILE [section.key=value ...] [--resume | --overwrite]."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

from translate.commands.run import run

log = logging.getLogger("translate")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description="Train a translation model as a config file says.")
    parser.add_argument(
        "--config", type=Path, required=True, help="YAML file; docs/configuration.md explains every key"
    )
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="settings that replace the file's")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    again.add_argument("--overwrite", action="store_true", help="start anew in a folder that already holds a run")
    asked = parser.parse_intermixed_args(arguments)
    interrupted = 0

    def work() -> None:
        from translate.config.loading import load_config

        config = load_config(asked.config, asked.overrides)

        from translate.pipeline import train
        from translate.training.interrupt import Interrupted

        try:
            folder = train(config, resume=asked.resume, overwrite=asked.overwrite)
        except Interrupted as stop:
            nonlocal interrupted
            interrupted = stop.exit_code
            log.info("%s; all is saved. Go on with the same command and --resume", stop)
            return
        log.info("the best model is %s", folder.model)

    return run(work) or interrupted
