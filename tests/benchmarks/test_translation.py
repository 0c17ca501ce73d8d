"""What benchmarks/translation.py compares translates alike. How fast it is is no matter of tests."""

import json
import re
import sys
from argparse import Namespace
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

import pytest
import torch
import translation
import translators
from saved_models import save_model
from translators import OF_JOEY, OF_MARIAN, TRANSLATORS, SearchJob, in_batches, renamed, up_to_the_end
from turns import Contender

LIKE_THE_TUTORIAL = {"norm": "post", "positions": "learned", "max_positions": 100}
LINES = ["ein Hund schläft .", "ein Hund , ein Hund , eine Katze bellt .", "Katze", "Hund bellt"] * 5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_model(tmp_path / "model.safetensors", **LIKE_THE_TUTORIAL)


@pytest.fixture
def job(model: Path, tmp_path: Path) -> SearchJob:
    for language, line in (("de", "{}\n"), ("en", "a dog\n")):
        text = "".join(line.format(source) for source in LINES)
        (tmp_path / f"val.{language}").write_text(text, encoding="utf-8")
    args = Namespace(checkpoint=model, data=tmp_path, beam=1, lines=len(LINES) - 1, threads=1)
    return replace(translation.make_job(args, tmp_path), batch=3)


def test_the_job(job: SearchJob) -> None:
    assert len(job.source) == len(LINES) - 1
    assert job.source[0] == job.source[4] != job.source[1]


def test_the_plain_loop_finds_the_translations_of_this_project(
    job: SearchJob, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translators, "PART", 2)
    warming_up, ours = islice(translation.this_project(job, model), 2)
    assert len(warming_up["translations"]) == translators.WARM_UP < len(ours["translations"]) == len(job.source)
    assert 1 < max(map(len, ours["translations"])) <= job.max_tokens
    _, plain = islice(TRANSLATORS["plain"](job), 2)
    assert plain["part"] == 2
    assert plain["translations"] == ours["translations"][::2]


def test_the_plain_loop_has_no_beam(job: SearchJob) -> None:
    with pytest.raises(ImportError, match="greedy search only"):
        next(TRANSLATORS["plain"](replace(job, beam=2)))


@pytest.mark.parametrize("names", [OF_MARIAN, OF_JOEY], ids=["Marian", "JoeyNMT"])
def test_every_weight_has_a_name_of_its_own_elsewhere(names: translators.Names, job: SearchJob) -> None:
    own = job.own_weights()
    assert len(renamed(own, names)) == len(own)
    left = re.compile("self_attention|cross_attention|query|residual|feed_forward.(expand|contract)|weight_TD")
    assert [name for name in renamed(own, names) if left.search(name)] == []


def test_batches_hold_lines_of_similar_length_and_come_back_in_order(job: SearchJob) -> None:
    widths = []

    def echo(source_BS: torch.Tensor) -> list[list[int]]:
        widths.append(source_BS.shape[1])
        return source_BS.tolist()

    assert in_batches(job, job.source, echo) == job.source
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]


def test_a_translation_ends_at_its_end() -> None:
    assert up_to_the_end([7, 8, translators.EOS, translators.PAD, 9]) == [7, 8]
    assert up_to_the_end([7, 8, translators.PAD]) == [7, 8]


@pytest.mark.parametrize("installed", [True, False])
def test_the_report(
    installed: bool, job: SearchJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answering(title: str, figures: dict[str, object]) -> Contender:
        program = f"import sys\nfor _ in sys.stdin: print({json.dumps(figures)!r}, flush=True)"
        return Contender(title, "float32", [sys.executable, "-c", program], install="pip install it")

    ours = {"seconds": 1.0, "translations": [[4], [5], [6], [7]], "part": 1, "peak": 2**20}
    part = {"seconds": 4.0, "translations": [[4], [7]], "part": 2, "peak": 2**21}
    other = answering("other", part if installed else {"missing": "No module named 'other'"})
    monkeypatch.setattr(translation, "make_job", lambda *_: job)
    monkeypatch.setattr(translation, "contenders", lambda *_: [answering("this project", ours), other])
    given = ["--checkpoint", "model", "--data", "data", "--rounds", "2", "--beam", "1"]
    monkeypatch.setattr(sys, "argv", ["translation.py", *given])
    translation.main()
    lines = capsys.readouterr().out.splitlines()
    if installed:
        assert lines[0].startswith(f"{len(job.source)} lines; greedy search; 2 passes; ")
        assert lines[2].split() == ["this", "project", "4.0", "1.00", "(1.00-1.00)", "100.0%", "1", "MiB"]
        assert lines[3].split() == ["other", "0.5", "8.00", "(8.00-8.00)", "50.0%", "2", "MiB"]
    else:
        assert lines[0] == "other is left out: No module named 'other'; to install it: pip install it"
        assert lines[-1].startswith("this project")


def test_a_model_that_others_do_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_model(tmp_path / "model.safetensors", positions="rotary")
    monkeypatch.setattr(sys, "argv", ["translation.py", "--checkpoint", str(model), "--data", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        translation.main()
    assert end.value.code == 2
    assert f"error: {model} has model.norm: pre, not post, which not all toolkits have; give" in capsys.readouterr().err


@pytest.mark.parametrize("beam", [1, 3])
def test_who_is_compared(beam: int, tmp_path: Path) -> None:
    args = Namespace(checkpoint=tmp_path, data=tmp_path, beam=beam, peers_python=Path("python"))
    titles = [each.title for each in translation.contenders(args, tmp_path / "job.json")]
    assert titles[0] == "this project"
    assert ("plain nn.Transformer" in titles) == (beam == 1)


@pytest.mark.slow
def test_a_process_of_its_own(job: SearchJob, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    args = Namespace(checkpoint=model, data=tmp_path, beam=1, peers_python=Path(sys.executable))
    ours, plain, *_ = translation.contenders(args, path)
    translation.take_turns([ours, plain], [ours, plain], 2, 1, tmp_path)
    translation.report(job, ours, [plain])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split()[-3] for row in rows] == ["100.0%", "100.0%"]
