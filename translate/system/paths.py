"""Paths that may be odd (links to themselves, no access, not UTF-8), the project's own folder, and its commit."""

import os
import stat
import subprocess
from pathlib import Path

from translate.errors import DataError

# Folders in which names mean open files, such as /dev/stdin: in each process its own.
OPEN_FILES = tuple(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))


def resolved(path: Path) -> Path:
    """The absolute path without symbolic links; unlike `Path.resolve`, it works for a link to itself."""
    return Path(os.path.realpath(path))


def exists(path: Path) -> bool:
    """Whether anything has this path; False if that cannot be seen, as in a folder without access."""
    return os.path.exists(path)  # noqa: PTH110 - `Path.exists` may raise


def is_folder(path: Path) -> bool:
    """Whether there is such a folder. DataError if that cannot be known, as inside one that may not be entered."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)  # Since Python 3.14, `is_dir` is False in that case.
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise DataError(f"The folder {path} cannot be read: {error.strerror}.") from None


def is_for_one_process(path: Path) -> bool:
    """Whether no other process can read the same there: a pipe, or what this process has open."""
    return not path.is_file() or path.parent in OPEN_FILES


def is_utf8(text: str) -> bool:
    """Whether this is text, and not the undecodable bytes of a file's name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def project_root() -> Path:
    """The checkout that holds this package, or the working directory where the package is installed without one."""
    return _checkout() or Path.cwd()


def checkpoints() -> Path:
    """The folder of all runs, unless their configs name others."""
    return project_root() / "checkpoints"


def demo_corpus() -> Path | None:
    """The folder of the demo corpus; None if the package is installed without a checkout."""
    checkout = _checkout()
    return None if checkout is None else checkout / "data"


def commit() -> str | None:
    """The commit of this checkout, marked if files differ from it; None if there is no checkout, or no git."""
    checkout = _checkout()
    if checkout is None:
        return None
    try:
        # Both are named, so that git takes no other repository: that of GIT_DIR, as in a hook, or of a folder above.
        git = ["git", f"--git-dir={checkout / '.git'}", f"--work-tree={checkout}"]
        command = [*git, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, UnicodeDecodeError, subprocess.CalledProcessError):
        return None


def _checkout() -> Path | None:
    folder = Path(__file__).resolve().parents[2]
    return folder if (folder / "pyproject.toml").is_file() else None
