"""Which commit of the project this is."""

from pathlib import Path

import pytest

from translate import paths


def test_an_installed_package_is_of_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever repository it is used in."""
    monkeypatch.chdir(paths.project_root())
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages" / "translate" / "paths.py"))
    assert paths.commit() is None
