"""Train a model: translate-train --config FILE [section.key=value ...] [--resume | --resume-or-start | --overwrite].

Several processes, started by torchrun or by the first of them, train one model together; each message is printed once.
"""

import argparse
import atexit
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from translate.commands.options import Once
from translate.commands.run import complain, run
from translate.commands.signals import leaving_cleanly
from translate.errors import CheckpointError, ConfigError
from translate.system.interrupt import (
    Interrupted,
    InterruptGuard,
    must_exit_at_once,
    second_signal_ends,
    under_torchrun,
)
from translate.system.paths import is_folder, is_for_one_process, resolved

if TYPE_CHECKING:
    from translate.config.schema import Config
    from translate.distributed.group import Group
    from translate.distributed.processes import Processes
    from translate.runs.folder import RunFolder

log = logging.getLogger("translate")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, and the settings that override those of the file. Ends the process if one is unknown."""
    parser = argparse.ArgumentParser(description="Train a model as described by a config file.")
    parser.add_argument(
        "--config", type=Path, action=Once, required=True, help="YAML file; docs/configuration.md explains every key"
    )
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="override settings of the file")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="continue an interrupted run")
    again.add_argument(
        "--resume-or-start", action="store_true", help="resume if there is a saved training state, otherwise start"
    )
    again.add_argument("--overwrite", action="store_true", help="start over in a folder that already holds a run")
    args, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown:
        settings = [option.lstrip("-") for option in unknown if option[0] == "-" and set(option) & {"=", "."}]
        shown = " ".join(setting if "=" in setting else f"{setting}=…" for setting in settings)
        hint = f"have no dashes: {shown}" if settings else "are given as section.key=value"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; settings {hint}")
    return args


class Command:
    """What this process does for the command; of several processes that train one model, one prints each message."""

    def __init__(self, given: Sequence[str]) -> None:
        self.given, self.args = given, parse(given)
        self.group: Group | None = None
        self.cleanup = ExitStack()  # what to undo or end after the last message

    def work(self) -> int:
        """Train; returns the exit code."""
        if not under_torchrun():
            self.cleanup.enter_context(second_signal_ends())
        from translate.config.loading import load_config

        self.group = group_of_launcher()  # Before anything can go wrong, so that only one of them reports it.
        config = load_config(self.args.config, self.args.overrides)
        warn_of_idle_folder(self.args, config)
        if self.group is None and not under_torchrun() and (count := config.processes or 1) > 1:
            from translate.commands.spawn import spawn_group

            if is_for_one_process(self.args.config):
                raise ConfigError(f"{self.args.config} is a pipe, but each process has to read it; save it as a file")
            self.group = self.cleanup.enter_context(spawn_group(count, self.given))
        from translate.distributed.processes import SINGLE_PROCESS

        with self.group or nullcontext():
            return train_as(self.args, config, self.group or SINGLE_PROCESS)

    def complain(self, message: str) -> None:
        """Say what went wrong, unless another process does."""
        if self.group is None or self.group.is_first_to_report(message):
            complain(message)

    def end(self, exit_code: int) -> None:
        """Wait for the last message of the other processes, if there are any, and let go of them."""
        if self.group is not None:
            with InterruptGuard():  # A traceback would follow the last message.
                self.group.await_last_message()
                self.cleanup.close()
        connected = "WORLD_SIZE" in os.environ if self.group is None else self.group.failed
        if exit_code and (connected or must_exit_at_once()):
            # It is still connected or connecting to others, or is still learning a vocabulary. While Python shuts down,
            # threads for that can end it by SIGABRT.
            atexit.register(os._exit, exit_code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    command = Command(sys.argv[1:] if arguments is None else arguments)
    with leaving_cleanly(), command.cleanup:  # before there is something to save, and after
        exit_code = run(command.work, command.complain)
        command.end(exit_code)
    return exit_code


def group_of_launcher() -> "Group | None":
    """This process among those that torchrun, or another launcher, has started; None if it is alone."""
    if "WORLD_SIZE" not in os.environ:
        return None
    from translate.distributed.group import Group
    from translate.distributed.rendezvous import number_in_environment

    return None if number_in_environment("WORLD_SIZE") == 1 else Group.of_environment()


def train_as(args: argparse.Namespace, config: "Config", processes: "Processes") -> int:
    """Train in the folder of the run, which no other training may use meanwhile; returns the exit code."""
    from translate.config.loading import dump_config
    from translate.pipeline import train_together
    from translate.runs.folder import RunFolder, is_found

    # What each process asks of the others below depends on them.
    if not processes.agree_on(args.resume + 2 * args.resume_or_start + 4 * args.overwrite):
        raise ConfigError(
            "the processes of this run were started with different options; give all of them --resume, "
            "--resume-or-start, --overwrite, or none of these"
        )
    run_folder = RunFolder.of(config)
    check_folder(args, run_folder)
    try:
        with run_folder.exclusive() if processes.rank == 0 else nullcontext():
            if args.resume and not run_folder.has_model_or_states():
                raise nothing_to_resume(run_folder)
            # The first process decides for all: others might look only after it has begun to write.
            resume = args.resume or (args.resume_or_start and processes.on_first(run_folder.has_states))
            written, anew, again = dump_config(config), args.overwrite, args.resume or args.resume_or_start
            if args.resume_or_start and not resume:
                anew = processes.on_first(lambda: run_folder.was_cut_off(written))
            if again and processes.on_first(lambda: run_folder.has_only_result(written)):
                log.info("%s is finished: there is nothing to resume", run_folder.path)
            else:
                train_together(config, resume=resume, overwrite=anew, processes=processes)
    except Interrupted as stop:
        how = " and --resume in place of --overwrite" if args.overwrite else " and --resume"
        log.info("%s; the run is saved. Continue with the same command%s", stop, "" if args.resume_or_start else how)
        return stop.exit_code
    outside = "" if is_found(run_folder) else " (outside checkpoints/: name it with --checkpoint)"
    log.info("the best model is %s%s", run_folder.model, outside)
    return 0


def is_overridden(args: argparse.Namespace, key: str) -> bool:
    """Whether the command line sets this key."""
    return any(override.partition("=")[0].strip() == key for override in args.overrides)


def warn_of_idle_folder(args: argparse.Namespace, config: "Config") -> None:
    """Warn if the command line names a folder of text, but the config names all its text file by file."""
    if is_overridden(args, "data.root") and config.data.kind == "parallel" and not config.data.splits:
        log.warning(
            "training does not read data.root (%s), because data.train and data.valid name files; name the new ones "
            "there, or splits of that folder: data.train=train data.valid=val",
            config.data.root,
        )


def nothing_to_resume(run_folder: "RunFolder") -> CheckpointError:
    """What is wrong where --resume finds no run."""
    return CheckpointError(
        f"there is no run to resume in {run_folder.path}; leave out --resume to start one or, if the run was moved, "
        "name its folder: output=FOLDER"
    )


def check_folder(args: argparse.Namespace, run_folder: "RunFolder") -> None:
    """CheckpointError if there is no folder to resume, or if it may not be the one that is meant.

    DataError if that cannot be seen.
    """
    from translate.runs.folder import RunFolder, would_be_replaced

    if args.resume and not is_folder(run_folder.path):
        raise nothing_to_resume(run_folder)
    if resolved(args.config) == resolved(run_folder.config) and not run_folder.has_any_trace():
        raise would_be_replaced(run_folder.config)
    # A resolved config names the folder of its run. If that folder was copied, the copy's config would change the
    # original run.
    own = RunFolder(args.config.parent)
    is_of_a_run = args.config == own.config and own.has_any_trace()
    if is_of_a_run and not is_overridden(args, "output") and resolved(own.path) != resolved(run_folder.path):
        raise CheckpointError(
            f"{args.config} is in one run's folder, but its output is another, {run_folder.path}; choose one: "
            f"output={own.path} or output={run_folder.path}"
        )


if __name__ == "__main__":
    sys.exit(main())
