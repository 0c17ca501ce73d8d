"""Train a model: translate-train --config FILE [section.key=value ...] [--resume | --overwrite].

torchrun starts several processes of it, which train one model together and speak with one voice.
"""

import argparse
import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from translate.commands.run import complain, run

if TYPE_CHECKING:
    from translate.training.distributed import Group

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
    together: Group | None = None

    def work() -> None:
        nonlocal together
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            from translate.training.distributed import Group

            together = Group()
        with together or nullcontext():
            train_together()

    def train_together() -> None:
        from translate.config.loading import load_config

        config = load_config(asked.config, asked.overrides)

        from translate.pipeline import train
        from translate.training.distributed import ALONE
        from translate.training.interrupt import Interrupted

        try:
            folder = train(config, resume=asked.resume, overwrite=asked.overwrite, processes=together or ALONE)
        except Interrupted as stop:
            nonlocal interrupted
            interrupted = stop.exit_code
            log.info("%s; all is saved. Go on with the same command and --resume", stop)
            return
        log.info("the best model is %s", folder.model)

    def complain_once(message: str) -> None:
        if together is None or together.tells(message):
            complain(message)

    exit_code = run(work, complain_once) or interrupted
    if together is not None:
        together.leave()
    return exit_code
