"""Where the project lies on disk, and which commit of it this is."""

import subprocess
from pathlib import Path


def project_root() -> Path:
    """The checkout that holds this package, or the working directory where the package is installed without one."""
    checkout = Path(__file__).resolve().parents[1]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def commit() -> str | None:
    """The commit of this checkout, marked where files differ from it; None outside of git."""
    try:
        command = ["git", "-C", str(project_root()), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()
    except (OSError, UnicodeDecodeError, subprocess.CalledProcessError):
        return None
