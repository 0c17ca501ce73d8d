"""Where and in which arithmetic to compute: the device, bfloat16 or float32, and how CPUs are made quick."""

import ctypes
import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from translate.errors import ConfigError

log = logging.getLogger("translate")

# How much faster a bfloat16 matrix product must be before rounding to bfloat16 is worth it. It is slower than float32
# on a CPU without instructions for it, and was 2.0 to 2.3 times as fast on the one of docs/results.md, which has them.
WORTHWHILE = 1.5

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def name_of(dtype: torch.dtype) -> str:
    """The name of an arithmetic in configs and reports."""
    return str(dtype).removeprefix("torch.")


def resolve_device(name: str, threads: int | None = None) -> torch.device:
    """The device that `auto`, `cpu` or `cuda` stands for; also sets the number of CPU threads, where one is given.

    Raises:
        ConfigError: CUDA is asked for and not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: cuda asked for, but PyTorch finds no CUDA device; use device: auto or device: cpu")
    if threads is not None:
        torch.set_num_threads(threads)
    # Read by oneDNN and by PyTorch's layer over it, at their first operation. Almost every batch has its own shape,
    # whose matrix products only the layers of the same batch share: more entries than one update needs, as both keep by
    # default, are never used again, and hold 200 MiB after 100 updates in bfloat16.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """The arithmetic that `auto`, `float32` or `bfloat16` stands for on this device."""
    if name != "auto":
        return PRECISIONS[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    gain = _speed_up_of_bfloat16()
    chosen = torch.bfloat16 if gain > WORTHWHILE else torch.float32
    log.info("bfloat16 matrix products run %.1f times as fast as float32 here: training in %s", gain, name_of(chosen))
    return chosen


def _speed_up_of_bfloat16() -> float:
    """How many matrix products of one thread this CPU does in bfloat16 while it does one in float32.

    Both are tried in turn, and the best of each counts, so that other work on the machine does not decide. For the same
    reason it is one thread, which waits for no other.
    """
    threads, best = torch.get_num_threads(), {torch.float32: math.inf, torch.bfloat16: math.inf}
    torch.set_num_threads(1)
    for _ in range(15):
        for dtype in best:
            a = torch.ones(512, 512, dtype=dtype)
            start = time.perf_counter()
            torch.mm(a, a)
            best[dtype] = min(best[dtype], time.perf_counter() - start)
    torch.set_num_threads(threads)
    return best[torch.float32] / best[torch.bfloat16]


def keep_memory() -> None:
    """Let glibc keep the memory of tensors that are gone for those to come, until `release_memory`.

    Otherwise it hands every large tensor back to the operating system, which clears each page before it gives it out
    again: a sixth of the CPU time of small models. Other C libraries do without.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TOP_PAD, 2**26)


def release_memory() -> None:
    """Give the memory that is free back to the operating system.

    Batches of ever new shapes leave holes of ever new sizes, and glibc keeps them all: without this a process that
    works on 500 MB grows to 2 GB. Other C libraries do without.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


@contextmanager
def arithmetic(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Compute in `dtype` inside: PyTorch's autocast, weights stay float32."""
    if dtype is torch.float32:
        yield
    else:
        with torch.autocast(device.type, dtype):
            yield
