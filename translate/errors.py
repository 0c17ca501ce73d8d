"""The errors a user can cause.

Each carries one complete message: what is wrong, where, and what to do about it. The commands print that message
without a traceback and exit with status 2. Anything else that goes wrong is a bug and keeps its traceback.
"""

import errno

# The numbers of an OSError because of a full disk, or of a quota (not on Windows).
DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", None))


class TranslateError(Exception):
    """Base of all errors that a user can cause and fix."""


class ConfigError(TranslateError):
    """A setting is unknown, of the wrong type, out of range, contradicts another, or asks for something unavailable."""


class DataError(TranslateError):
    """Text cannot be found, read, written, downloaded or tokenized, its sides differ, or a sentence is too long."""


class CheckpointError(TranslateError):
    """A model file or a training state is missing, damaged, or belongs to another run."""


class TrainingError(TranslateError):
    """The loss is no longer a number, a process of several has died, or the device has no memory left."""


def first_line(error: BaseException) -> str:
    """The first line of what an error says; PyTorch appends its own call stack."""
    return str(error).partition("\n")[0]
