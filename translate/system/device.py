"""Where to compute, and how CPUs and GPUs are prepared for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from translate.errors import ConfigError
from translate.system.pool import cores


def default_threads() -> int:
    """As many CPU threads as PyTorch has chosen, but, unless the environment says how many, none without a core.

    PyTorch does not see a container's limit of CPU time. With more threads than that, all of them stand still for a
    part of every tenth of a second.
    """
    threads = torch.get_num_threads()
    return threads if "OMP_NUM_THREADS" in os.environ else min(threads, cores())


def prepare_cpu(threads: int | None = None) -> None:
    """Set the number of CPU threads, and how much oneDNN caches; before PyTorch's first operation."""
    torch.set_num_threads(threads or default_threads())
    # Sizes of two caches for the machine code that oneDNN generates for each matrix product, a third of a megabyte: its
    # own, and another in PyTorch's layer over it. Both are read at the first operation. Training needs a few dozen
    # entries again and again (see model/rows.py), but by default each cache keeps 1,024.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")


@contextmanager
def subnormals_are_zero() -> Iterator[None]:
    """Let the CPU take numbers below 1.2e-38 for zero, in this thread and in those that are started inside.

    Computing with such numbers takes some 40 times as long. Adam's mean of the gradient becomes as small as that for
    every word that has not occurred for some 700 updates, and stays so: rounding keeps it from becoming zero.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def resolve_device(name: str) -> torch.device:
    """The device that `auto`, `cpu` or `cuda` stands for.

    Raises:
        ConfigError: the name is none of these, or CUDA is asked for and not available.
    """
    if name not in ("auto", "cpu", "cuda"):
        choice = ", and CUDA_VISIBLE_DEVICES in the environment chooses a GPU" if name.startswith("cuda:") else ""
        raise ConfigError(f"device: given {name!r}, allowed: auto, cpu or cuda{choice}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda requested, but PyTorch finds no CUDA device; use device: auto or device: cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def avoid_cudnn_attention() -> None:
    """Let PyTorch's other kernels do attention on GPUs where it prefers cuDNN's.

    cuDNN builds an execution plan for every new shape, which takes a third of a second for forward and backward pass,
    and batches keep having new shapes.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
