"""Which commit of the project this is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from translate.system import paths


def test_an_installed_package_is_of_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever repository it is used in."""
    monkeypatch.chdir(paths.project_root())
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages" / "translate" / "system" / "paths.py"))
    assert paths.commit() is None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_checkout_is_of_a_commit_and_says_whether_it_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pyproject.toml"
    file.touch()

    def git(*arguments: str) -> None:
        nobody = ("-c", "user.name=nobody", "-c", "user.email=nobody", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *nobody, *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    git("tag", "--no-sign", "--annotate", "v1", "--message", "a name, which may be given to another commit")
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "translate" / "system" / "paths.py"))
    commit = paths.commit()
    assert commit is not None
    assert re.fullmatch("[0-9a-f]{12}", commit)
    file.write_text("[project]", encoding="utf-8")
    assert paths.commit() == f"{commit}-dirty"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "of another repository, as in a hook"))
    assert paths.commit() == f"{commit}-dirty"
    inside = tmp_path / "no checkout, but unpacked in one"
    inside.mkdir()
    (inside / "pyproject.toml").touch()
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.setattr(paths, "__file__", str(inside / "translate" / "system" / "paths.py"))
    assert paths.commit() is None
