"""A benchmark that is given the wrong folder says so, like a command: one error, exit code 2."""

import sys
from pathlib import Path
from types import ModuleType

import peers
import pytest
import scaling

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("benchmark", [peers, scaling], ids=lambda module: module.__name__)
def test_a_folder_without_the_corpus(
    benchmark: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ROOT / "configs" / "demo.yaml"  # It downloads nothing.
    monkeypatch.setattr(sys, "argv", ["benchmark", "--config", str(config), "--data", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit) as end:
        benchmark.main()
    assert end.value.code == 2
    assert f"error: No split 'train' in {tmp_path / 'nowhere'}" in capsys.readouterr().err
