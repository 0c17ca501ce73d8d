"""In which precision to compute: bfloat16 or float32, on a CPU by a measurement of which is faster."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from translate.system.threads import own_threads

log = logging.getLogger("translate")

# Limits of the measurement that decides between bfloat16 and float32, which would otherwise take seconds: size of the
# matrices; how often an attempt computes their products; number of attempts; seconds after which an attempt, or the
# series of them, stops early, as on a CPU on which bfloat16 is slow, but not hopeless.
MAX_ROWS, MAX_COLUMNS, MAX_USES = 2048, 512, 8
MAX_ATTEMPTS, MAX_SECONDS = 10, 0.5
SLOW = 0.5  # below this speed relative to float32, bfloat16 is probably a mistake
MIN_GAIN = 1.25  # above this relative speed, bfloat16 is worth it: other operations gain less, and times vary
HOPELESS = 0.2  # below this relative speed in small products, bfloat16 is not tried in larger ones
# Multiplications in a small product: enough to take far longer than a call of oneDNN does, and few enough for a CPU
# without instructions for bfloat16.
SMALL = 2**22

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype in configs and reports."""
    return str(dtype).removeprefix("torch.")


def resolve_precision(name: str, device: torch.device, *, rows: int, width: int) -> torch.dtype:
    """The dtype that `auto`, `float32` or `bfloat16` stands for on this device.

    On a CPU, `auto` measures which is faster, for batches of about this many `rows` and a model of this `width`.
    `bfloat16` measures, too, to warn of a CPU without instructions for it.
    """
    if device.type == "cuda":
        best = torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
        return PRECISIONS.get(name, best)
    if name == "float32":
        return torch.float32
    rows, width = min(rows, MAX_ROWS), min(width, MAX_COLUMNS)
    gain = _speed_up_of_bfloat16(rows, width)
    measured = f"on this CPU, bfloat16 matrix products of width {width} are {gain:.2g} times as fast as float32"
    if name == "auto":
        chosen = torch.bfloat16 if gain > MIN_GAIN else torch.float32
        log.info("%s: training in %s", measured, name_of(chosen))
        return chosen
    if gain < SLOW:
        log.warning("%s; a new run with training.precision: float32 would be faster", measured)
    return torch.bfloat16


def _speed_up_of_bfloat16(rows: int, width: int) -> float:
    """How fast one thread computes the matrix products of linear layers in bfloat16, relative to float32.

    It tries few rows first: without instructions for bfloat16, the products of many would take seconds. One thread is
    used, because it never waits for others.
    """
    few = min(rows, max(1, SMALL // width**2))
    with own_threads(1):
        gain = _relative_speed(few, width, 2)
        return _relative_speed(rows, width, MAX_ATTEMPTS) if gain > HOPELESS else gain


def _relative_speed(rows: int, width: int, attempts: int) -> float:
    """How fast the forward product of a linear layer and those for its gradients are in bfloat16, relative to float32.

    Both dtypes are tried in turn, and the best CPU time of each counts. So neither the time to generate machine code,
    which oneDNN does in the first attempt, nor other work on the machine distorts the result.
    """
    best = {torch.float32: math.inf, torch.bfloat16: math.inf}
    began = time.thread_time()
    for attempt in range(attempts):
        if attempt > 1 and time.thread_time() - began > MAX_SECONDS:
            break
        for dtype in best:
            x = torch.ones(rows, width, dtype=dtype)
            weight = torch.ones(width, width, dtype=dtype)
            best[dtype] = min(best[dtype], _seconds_of_products(x, weight))
    return best[torch.float32] / best[torch.bfloat16]


def _seconds_of_products(x: torch.Tensor, weight: torch.Tensor) -> float:
    """CPU time of the three products of a linear layer, in the forward and backward pass: the mean of several uses."""
    start, seconds, uses = time.thread_time(), 0.0, 0
    # On Windows, this clock goes on every 16 ms only.
    while (uses < MAX_USES and seconds < MAX_SECONDS) or not seconds:
        torch.mm(x, weight)
        torch.mm(x, weight.t())
        torch.mm(x.t(), x)
        seconds, uses = time.thread_time() - start, uses + 1
    return seconds / uses


@contextmanager
def autocast(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Compute in `dtype` inside, by autocast; weights stay float32. In float32, a caller's autocast is switched off."""
    full = dtype is torch.float32
    # PyTorch forgets weights that it has cast only at the end of the outermost autocast. Inside a caller's, weights
    # that have been updated would be taken for what they were, here or where activations are recomputed.
    torch.clear_autocast_cache()
    try:
        with torch.autocast(device.type, enabled=False) if full else torch.autocast(device.type, dtype):
            yield
    finally:
        torch.clear_autocast_cache()
