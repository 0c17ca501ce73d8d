"""Which device is chosen, and how CPUs are prepared."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest
import torch
from torch import nn
from torch.optim import Adam

from translate.errors import ConfigError
from translate.system import device
from translate.system.device import prepare_cpu, resolve_device, subnormals_are_zero


def smallest_mean_of_adam() -> float:
    """Of the gradient of a weight whose gradient has been 0 for 1,000 updates."""
    weight = nn.Parameter(torch.ones(1))
    adam = Adam([weight])
    for gradient in (1e-3, *repeat(0.0, 1000)):
        weight.grad = torch.full_like(weight, gradient)
        adam.step()
    return float(adam.state[weight]["exp_avg"])


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this CPU cannot take subnormals for zero")
def test_subnormals_are_zero_inside_and_in_threads_that_are_started_there() -> None:
    assert 0.0 < smallest_mean_of_adam() < torch.finfo(torch.float32).tiny
    with ThreadPoolExecutor(1) as pool:
        with subnormals_are_zero():
            assert smallest_mean_of_adam() == 0.0
            assert pool.submit(smallest_mean_of_adam).result() == 0.0
        assert smallest_mean_of_adam() > 0.0


@pytest.mark.parametrize("name", ["banana", "cuda:0", ""])
def test_no_such_device(name: str) -> None:
    choice = ", and CUDA_VISIBLE_DEVICES in the environment chooses a GPU" if ":" in name else ""
    message = f"device: given {name!r}, allowed: auto, cpu or cuda{choice}"
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        resolve_device(name)


def test_cuda_asked_for_and_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = "device: cuda requested, but PyTorch finds no CUDA device; use device: auto or device: cpu"
    with pytest.raises(ConfigError, match=f"^{message}$"):
        resolve_device("cuda")


@pytest.mark.parametrize(("name", "most"), [("ONEDNN_PRIMITIVE_CACHE_CAPACITY", 128), ("LRU_CACHE_CAPACITY", 1)])
def test_onednn_keeps_little_machine_code(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default 1,024 entries, a third of a megabyte each."""
    monkeypatch.setenv(name, "77")  # so that it is as before afterwards
    monkeypatch.delenv(name)
    prepare_cpu()
    assert int(os.environ[name]) <= most


@pytest.mark.parametrize("name", ["ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"])
def test_sizes_of_caches_that_a_user_has_set_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "77")
    prepare_cpu()
    assert os.environ[name] == "77"


@pytest.mark.parametrize(("omp", "cores", "threads"), [(None, 3, 3), (None, 9, 5), ("5", 3, 5)])
def test_pytorchs_threads_have_a_core_each_unless_the_environment_says_how_many(
    omp: str | None, cores: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", omp or "")
    if omp is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(device, "cores", lambda: cores)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    chosen: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    prepare_cpu()
    prepare_cpu(7)
    assert chosen == [threads, 7]
