"""The reports of scripts/evaluate.py: which files are reports, and where the translations are that they are about."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any


def read_report(path: Path) -> dict[str, Any] | None:
    """A report by scripts/evaluate.py; None if this file is none."""
    with suppress(OSError, ValueError, RecursionError):
        report = json.loads(path.read_bytes())
        if isinstance(report, dict) and {"model", "decoding", "sentences_per_second"} <= report.keys():
            return report
    return None


def translations_beside(report: Path) -> Path:
    """The file of the translations that a report is about."""
    return report.with_suffix(".txt")
