"""The versions in constraints.txt can be installed with every Python that pyproject.toml promises."""

import importlib.metadata
import re
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]


def requires_python(pin: Requirement) -> str:
    """What the package says, if this very version is installed here."""
    try:
        installed = importlib.metadata.distribution(pin.name)
    except importlib.metadata.PackageNotFoundError:
        return ""
    return installed.metadata.get("Requires-Python", "") if installed.version in pin.specifier else ""


def test_each_version_suits_the_oldest_python_that_it_is_for() -> None:
    (oldest,) = re.findall(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    for_all = [pin for pin in pins if pin.marker is None or pin.marker.evaluate({"python_version": oldest})]
    too_new = [pin for pin in for_all if not SpecifierSet(requires_python(pin)).contains(f"{oldest}.99")]
    assert too_new == []
    assert any(map(requires_python, for_all))
