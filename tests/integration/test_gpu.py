"""Training on a GPU, where there is one: updates are replayed there, and do what they do elsewhere."""

import json

import pytest
import torch
from tiny_runs import TinyProject, sigterm, stop, update

from translate.pipeline import train
from translate.runs import RunFolder
from translate.training.recorded import CudaGraphs, Work

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
OFF = "training.plain=[graphs]"


def losses(run: RunFolder) -> list[float]:
    rows = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    return [row["loss" if row["kind"] == "train" else "nll"] for row in rows]


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[Work]:
    """All that is recorded."""
    found: list[Work] = []
    record = CudaGraphs.__call__

    def noted(self: CudaGraphs, work: Work) -> Work:
        found.append(record(self, work))
        return found[-1]

    monkeypatch.setattr(CudaGraphs, "__call__", noted)
    return found


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("settings", [(), ("training.r_drop=2.0",), ("training.batch.accumulate=2",)], ids=str)
def test_replayed_updates_are_those_of_a_cpu(
    settings: tuple[str, ...], optimizer: str, tiny: TinyProject, recordings: list[Work]
) -> None:
    settings = (*settings, f"training.optimizer.kind={optimizer}", "model.dropout=0")
    runs = [
        train(tiny.config(*settings, *more, f"output={tiny.folder}/{number}"))
        for number, more in enumerate([["device=cuda"], ["device=cuda", OFF], ["device=cpu"]])
    ]
    replayed, launched, on_cpu = map(losses, runs)
    assert recordings
    assert replayed == pytest.approx(launched, rel=2e-3)
    assert replayed == pytest.approx(on_cpu, rel=5e-3)


def test_each_replay_draws_new_random_numbers(tiny: TinyProject, recordings: list[Work]) -> None:
    train(tiny.config("device=cuda", "model.dropout=0.5"))
    sums = [recordings[0]()[0].item() for _ in range(3)]
    assert len(set(sums)) == 3


def test_a_stopped_run_goes_on(tiny: TinyProject) -> None:
    whole = losses(train(tiny.config("device=cuda", f"output={tiny.folder}/whole")))
    stop(sigterm, update(9), tiny, "device=cuda")
    assert losses(train(tiny.config("device=cuda"), resume=True)) == pytest.approx(whole, rel=2e-3)


def test_bfloat16_is_the_default_and_learns(tiny: TinyProject) -> None:
    run = train(tiny.config("device=cuda", "training.precision=auto", "training.max_epochs=6"))
    found = losses(run)
    assert found[-1] < found[0]
    assert json.loads(run.finished.read_bytes())["dtype"] == "bfloat16"
