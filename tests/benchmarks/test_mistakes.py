"""A benchmark that is given the wrong folder says so, like a command: one error, exit code 2."""

import sys
from pathlib import Path
from types import ModuleType

import choices
import curve
import large_corpus
import loops
import peers
import pytest
import roots
import scaling
import translators

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


def test_a_study_without_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs"
    for wrong in (("--data", str(tmp_path)), ("--data", str(ROOT / "data"), "training.max_step=3")):
        monkeypatch.setattr(sys, "argv", ["choices.py", "--folder", str(folder), *wrong])
        with pytest.raises(SystemExit) as end:
            choices.main()
        assert end.value.code == 2
    said = capsys.readouterr().err
    assert f"error: No split 'train' in {tmp_path}" in said
    assert "training.max_step: unknown key" in said
    assert not folder.exists()


def test_a_seed_given_twice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One run would count as two, without any spread."""
    monkeypatch.setattr(sys, "argv", ["choices.py", "--data", str(ROOT / "data"), "--seeds", "1", "2", "1", "--report"])
    with pytest.raises(SystemExit) as end:
        choices.main()
    assert end.value.code == 2
    assert "error: argument --seeds: 1 is given twice" in capsys.readouterr().err


@pytest.mark.parametrize("named", ["run", "run/metrics.jsonl"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": "tr\n{"kind": "train"}\n', "a metrics.jsonl is damaged, or not the log of a run: "),
        ("[]\n", "a metrics.jsonl is damaged, or not the log of a run: "),
        ("{}\n", "a metrics.jsonl is damaged, or not the log of a run: KeyError('kind')"),
        ("", "there is nothing to draw in metrics.jsonl of run"),
    ],
)
def test_a_curve_of_what_is_no_log(
    text: str,
    message: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["curve.py", str(tmp_path / named), "--output", str(tmp_path / "curve.png")])
    with pytest.raises(SystemExit) as end:
        curve.main()
    assert end.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not (tmp_path / "curve.png").exists()


@pytest.mark.parametrize("text", [None, "not JSON", "{}", "[1]"])
@pytest.mark.parametrize(("benchmark", "writer"), [(loops, "peers.py"), (translators, "translation.py")])
def test_a_loop_without_a_job(
    benchmark: ModuleType,
    writer: str,
    text: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = tmp_path / "job.json"
    if text is not None:
        job.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["benchmark", str(job), "plain"])
    with pytest.raises(SystemExit) as end:
        benchmark.main()
    assert end.value.code == 2
    assert f"error: {job} is not a job that {writer} has written: " in capsys.readouterr().err


def test_an_unknown_kind_of_token_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["large_corpus.py", "--folder", str(tmp_path / "new"), "--kind", "nope"])
    with pytest.raises(SystemExit) as end:
        large_corpus.main()
    assert end.value.code == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("benchmark", "given"),
    [(choices, ["--data", str(ROOT / "data")]), (large_corpus, []), (roots, [])],
    ids=["choices", "large_corpus", "roots"],
)
def test_a_folder_that_cannot_be_written(
    benchmark: ModuleType,
    given: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "folder"
    monkeypatch.setattr(sys, "argv", ["benchmark", *given, "--folder", str(folder)])
    with pytest.raises(SystemExit) as end:
        benchmark.main()
    assert end.value.code == 2
    assert f"error: cannot write to {folder}: Not a directory" in capsys.readouterr().err


def test_no_text_in_the_folder_is_replaced_by_made_up_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "val.en").write_text("somebody's own\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["large_corpus.py", "--folder", str(tmp_path), "--pairs", "5"])
    with pytest.raises(SystemExit) as end:
        large_corpus.main()
    assert end.value.code == 2
    assert f"error: {tmp_path / 'val.en'} exists. Choose another --folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["val.en"]
    assert (tmp_path / "val.en").read_text(encoding="utf-8") == "somebody's own\n"


@pytest.mark.parametrize("pairs", [10, 10**9])
def test_pairs_that_make_no_batch_or_too_many(
    pairs: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers.py", "--data", str(ROOT / "data"), "--pairs", str(pairs), "--rounds", "1"])
    with pytest.raises(SystemExit) as end:
        peers.main()
    assert end.value.code == 2
    assert f"error: --pairs {pairs} makes 2 passes of " in capsys.readouterr().err


def test_fewer_pairs_than_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling.py", "--data", str(ROOT / "data"), "--pairs", "-5"])
    with pytest.raises(SystemExit) as end:
        scaling.main()
    assert end.value.code == 2
    assert "error: argument --pairs: -5 is less than 0" in capsys.readouterr().err
