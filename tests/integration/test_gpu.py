"""Training and search on a GPU, where there is one: updates are replayed there, and do what they do elsewhere."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tiny_runs import TinyProject, sentences, sigterm, stop, update

from translate import pipeline
from translate.commands.train import main
from translate.distributed.group import Group
from translate.distributed.parallel import PARALLEL
from translate.optimization.recorded import CudaGraphs, RecordedUpdate, Work
from translate.pipeline import train, train_together
from translate.runs.folder import RunFolder
from translate.training import learner
from translate.training.model_selection import ModelSelection
from translate.translator import Translator

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


def test_bpe_dropout_by_helpers(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("text.tokenizer={kind: bpe, vocab_size: 40, dropout: 0.3}", "device=cuda", "model.dropout=0")
    with_helpers = losses(train(tiny.config(*settings)))
    monkeypatch.setattr(pipeline, "helpers_for", lambda *_: 0)
    assert losses(train(tiny.config(*settings, f"output={tiny.folder}/without"))) == pytest.approx(
        with_helpers, rel=2e-3
    )


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


@pytest.mark.parametrize("work", ["_pass", "_clip"])
@pytest.mark.parametrize("number", [1, 3])
def test_updates_go_on_without_graphs_when_memory_runs_out(
    work: str, number: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    launched = losses(train(tiny.config("device=cuda", "model.dropout=0", OFF, f"output={tiny.folder}/launched")))
    with monkeypatch.context() as patch:
        patch.setattr(RecordedUpdate, work, failing_while_recorded(getattr(RecordedUpdate, work), number, run_out))
        replayed = losses(train(tiny.config("device=cuda", "model.dropout=0")))
    assert replayed == pytest.approx(launched, rel=2e-3)
    given_up = (
        "from now on updates run without CUDA graphs, which small models notice: recording one has failed: out of"
    )
    assert (given_up in caplog.text) == (work == "_pass" or number == 1)  # Clipping is recorded once.
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def run_out(result: torch.Tensor) -> None:
    raise torch.OutOfMemoryError


def read(result: torch.Tensor) -> None:
    result.sum().item()


def failing_while_recorded(
    work: Callable[..., Any], number: int, fail: Callable[[torch.Tensor], None]
) -> Callable[..., Any]:
    """The work, of whose recordings the one with this number, counted from 1, fails after all that it does."""
    recordings = 0

    def failing(*arguments: Any) -> Any:
        nonlocal recordings
        result = work(*arguments)
        if torch.cuda.is_current_stream_capturing():
            recordings += 1
            if recordings == number:
                fail(result)
        return result

    return failing


@pytest.mark.parametrize(("work", "number"), [("_pass", 1), ("_pass", 3), ("_clip", 1)])
def test_updates_go_on_without_graphs_when_an_operation_cannot_be_recorded(
    work: str, number: int, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(RecordedUpdate, work, failing_while_recorded(getattr(RecordedUpdate, work), number, read))
    found = losses(train(tiny.config("device=cuda", "model.dropout=0.1", "training.max_epochs=6")))
    assert found[-1] < found[0]
    assert "recording one has failed" in caplog.text
    assert torch.rand(9, device="cuda").unique().numel() == 9  # The generator draws again.


def test_the_memory_of_graphs_can_be_freed(tiny: TinyProject, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = losses(train(tiny.config("device=cuda", "model.dropout=0", f"output={tiny.folder}/whole")))
    reserved: list[int] = []
    validate = ModelSelection.validate

    def freeing(self: ModelSelection) -> None:
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
        assert self.learner.update.give_up_memory() == (len(reserved) == 1)  # Nothing is recorded after that.
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
        validate(self)

    monkeypatch.setattr(ModelSelection, "validate", freeing)
    assert losses(train(tiny.config("device=cuda", "model.dropout=0"))) == pytest.approx(whole, rel=2e-3)
    assert reserved[1] < reserved[0]


def test_a_run_goes_on_elsewhere(tiny: TinyProject) -> None:
    whole = losses(train(tiny.config("device=cpu", "model.dropout=0", f"output={tiny.folder}/whole")))
    stop(sigterm, update(5), tiny, "device=cuda", "model.dropout=0")
    stop(sigterm, update(5), tiny, "device=cpu", "model.dropout=0", resume=True)
    assert losses(train(tiny.config("device=cuda", "model.dropout=0"), resume=True)) == pytest.approx(whole, rel=5e-3)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_group_of_one_with_nccl(
    kind: str, optimizer: str, tiny: TinyProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that several processes do, with the collectives of nccl, as far as one GPU allows."""
    how = (f"training.parallel={kind}", f"training.optimizer.kind={optimizer}", "training.average_last=2")
    settings = ("device=cuda", "model.dropout=0", *how)
    alone = losses(train(tiny.config(*settings, OFF, f"output={tiny.folder}/alone")))
    monkeypatch.setattr(learner, "build_parallel", lambda name, *inputs: PARALLEL[name](*inputs))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, value)
    with Group.of_environment() as processes:
        run = train_together(tiny.config(*settings), processes=processes)
    processes.close_connections()
    assert losses(run) == pytest.approx(alone, rel=2e-3)


def test_more_processes_than_devices(tiny: TinyProject, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.config()
    devices = torch.cuda.device_count()
    assert main(["--config", f"{tiny.folder}/tiny.yaml", "device=cuda", f"processes={devices + 1}"]) == 2
    (message,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error")]
    assert message.startswith(
        f"error: more processes than CUDA devices: this machine has {devices}; lower processes or"
    )


@pytest.mark.parametrize("settings", [{"search": "greedy"}, {"search": "beam", "beam_size": 5}], ids=str)
def test_translations_are_those_of_a_cpu(settings: dict[str, Any], tiny: TinyProject) -> None:
    model = train(tiny.config("device=cuda", "training.max_epochs=6")).model
    lines, _ = sentences(50, seed=7)
    on_gpu, on_cpu = (Translator.load(model, device).n_best(lines, 1, **settings) for device in ("cuda", "cpu"))
    assert [best.text for (best,) in on_gpu] == [best.text for (best,) in on_cpu]
    found, expected = (torch.tensor([best.score for (best,) in side]) for side in (on_gpu, on_cpu))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
