"""Which kind of parallel model several processes get."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from translate.distributed import parallel
from translate.distributed.parallel import Replicated, build_parallel
from translate.distributed.processes import Processes
from translate.errors import ConfigError


class TwoProcesses(Processes):
    count = 2


@pytest.mark.parametrize("version", ["2.6.0", "2.8.0+cu128"])
def test_a_pytorch_that_cannot_share_out_a_model_on_a_cpu(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ConfigError) as caught:
        build_parallel("fsdp", nn.Linear(2, 2), TwoProcesses())
    assert str(caught.value) == (
        f"training.parallel: fsdp does not work on CPUs with PyTorch {version}; "
        "install 2.9 or later, or use training.parallel: ddp"
    )


@pytest.mark.parametrize(
    ("version", "device"), [("2.9.0", "cpu"), ("2.9.0+cu128", "cpu"), ("2.10.0", "cpu"), ("2.6.0", "meta")]
)
def test_a_pytorch_that_can(version: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, each one can; a device without memory stands for it here."""

    class Goes(Exception):
        pass

    def go() -> None:
        raise Goes

    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(parallel, "import_compiler", go)
    with pytest.raises(Goes):
        build_parallel("fsdp", nn.Linear(2, 2, device=device), TwoProcesses())


def test_ddp_averages_gradients_once_in_each_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last pass, which every process has; of those before it, one of them may have more."""
    without = nullcontext()
    ddp = SimpleNamespace(no_sync=lambda: without)
    monkeypatch.setattr(parallel, "DistributedDataParallel", lambda *_, **__: ddp)
    replicated = build_parallel("ddp", nn.Linear(2, 2), TwoProcesses())
    assert replicated.backward_pass(last=False) is without
    assert replicated.backward_pass(last=True) is not without


def test_ddp_copies_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharding it would lead to the same weights. A table of positions has grown in each process by itself."""
    copied: list[bool] = []

    def ddp(model: nn.Module, *, broadcast_buffers: bool = True, **_: object) -> nn.Module:
        copied.append(broadcast_buffers)
        return model

    monkeypatch.setattr(parallel, "DistributedDataParallel", ddp)
    assert type(build_parallel("ddp", nn.Linear(2, 2), TwoProcesses())) is Replicated
    assert copied == [False]
