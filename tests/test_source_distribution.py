"""What a source distribution holds: all that the pages speak of, and nobody's runs or downloads."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_source_distribution_holds_the_repository_and_nothing_else(tmp_path: Path) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or git is not installed")
    pytest.importorskip("setuptools", minversion="77", reason="needs setuptools")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    copy = tmp_path / "copy"
    for name in files:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name)
    for name in ("checkpoints/demo/model.safetensors", "data/multi30k/train.de", "tests/__pycache__/x.pyc"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).touch()
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=copy, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        held = {member.name.partition("/")[2] for member in packed if member.isfile()}
    made = {name for name in held if name in ("PKG-INFO", "setup.cfg") or name.startswith("translate.egg-info/")}
    assert held - made == {name for name in files if not name.startswith(".")}
