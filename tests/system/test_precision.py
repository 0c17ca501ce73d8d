"""Which arithmetic is chosen, and by which measurement."""

import logging
import math
from collections import defaultdict
from itertools import chain, count, repeat
from typing import Any
from unittest.mock import MagicMock, call

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from translate.system import precision
from translate.system.device import resolve_device
from translate.system.precision import autocast, resolve_precision

CPU = torch.device("cpu")


class Products(TorchDispatchMode):
    """The shapes of all matrix products inside, by arithmetic, as (rows, inner size, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[torch.dtype, list[tuple[int, int, int]]] = defaultdict(list)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.mm.default:
            self.shapes[args[0].dtype].append((*args[0].shape, args[1].shape[1]))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("has_it", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_a_gpu_trains_in_bfloat16_if_it_has_it(
    has_it: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: has_it or including_emulation)
    assert [resolve_device(name).type for name in ("auto", "cpu", "cuda")] == ["cuda", "cpu", "cuda"]
    assert resolve_precision("auto", torch.device("cuda"), rows=1, width=1) is dtype
    assert resolve_precision("float32", torch.device("cuda"), rows=1, width=1) is torch.float32


@pytest.mark.parametrize(
    ("dtype", "asked"),
    [(torch.bfloat16, call("cuda", torch.bfloat16)), (torch.float32, call("cuda", enabled=False))],
)
def test_a_gpu_casts_what_it_computes(dtype: torch.dtype, asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    casts = MagicMock()
    monkeypatch.setattr(torch, "autocast", casts)
    with autocast(dtype, torch.device("cuda")):
        assert casts.call_args_list == [asked]


def test_float32_is_not_what_a_caller_casts_to() -> None:
    numbers = torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16), autocast(torch.float32, CPU):
        assert (numbers @ numbers).dtype is torch.float32


def test_inside_a_callers_autocast_weights_are_cast_anew_after_each_update() -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", enabled=False):  # PyTorch forgets cast weights at its end only.
        for value in (1.0, 3.0):
            with torch.no_grad():
                weight.fill_(value)
            with autocast(torch.bfloat16, CPU):
                assert (torch.ones(2, 2) @ weight).unique().tolist() == [2 * value]
            with torch.autocast("cpu", torch.bfloat16):  # as where activations are recomputed for the backward pass
                assert (torch.ones(2, 2) @ weight).unique().tolist() == [2 * value]
    with torch.autocast("cpu", enabled=False):  # The caller's own products are those of the new weights, too.
        with autocast(torch.bfloat16, CPU):
            torch.ones(2, 2) @ weight
        with torch.no_grad():
            weight.fill_(5.0)
        with torch.autocast("cpu", torch.bfloat16):
            assert (torch.ones(2, 2) @ weight).unique().tolist() == [10.0]


def test_float32_by_name_is_not_measured() -> None:
    with Products() as products:
        assert resolve_precision("float32", CPU, rows=100, width=16) is torch.float32
    assert not products.shapes


@pytest.mark.parametrize(("gain", "warned"), [(0.04, True), (0.9, False)])
def test_bfloat16_by_name_is_taken_and_a_slow_one_warned_of(
    gain: float, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "_speed_up_of_bfloat16", lambda rows, width: gain)
    assert resolve_precision("bfloat16", CPU, rows=100, width=16) is torch.bfloat16
    assert caplog.messages == warned * [
        "on this CPU, bfloat16 matrix products of width 16 are 0.04 times as fast as float32; "
        "a new run with training.precision: float32 would be faster"
    ]


@pytest.mark.parametrize(("gain", "chosen"), [(0.8, "float32"), (1.2, "float32"), (1.4, "bfloat16")])
def test_the_quicker_one_is_chosen_and_said(
    gain: float, chosen: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "_speed_up_of_bfloat16", lambda rows, width: gain)
    with caplog.at_level(logging.INFO, "translate"):
        assert resolve_precision("auto", CPU, rows=100, width=16) is getattr(torch, chosen)
    assert caplog.messages == [
        f"on this CPU, bfloat16 matrix products of width 16 are {gain} times as fast as float32: training in {chosen}"
    ]


def test_what_is_measured_are_products_of_the_models_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "MAX_SECONDS", math.inf)
    monkeypatch.setattr(precision, "HOPELESS", 0.0)
    monkeypatch.setattr(precision, "SMALL", 10 * 16 * 16)
    with Products() as products:
        resolve_precision("auto", CPU, rows=100, width=16)
    tried = products.shapes[torch.bfloat16]
    assert tried == products.shapes[torch.float32]
    first = 2 * 3 * precision.MAX_USES
    assert set(tried[:first]) == {(10, 16, 16), (16, 10, 16)}  # forward and for the input; for the weights
    assert set(tried[first:]) == {(100, 16, 16), (16, 100, 16)}


def test_machine_code_for_the_first_product_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    # With AMX, oneDNN writes it for a narrow model's products in more time than all of them take.
    bfloat16 = chain([1.0], repeat(0.05))
    seconds = {torch.float32: repeat(0.1), torch.bfloat16: bfloat16}
    monkeypatch.setattr(precision, "_seconds_of_products", lambda x, weight: next(seconds[x.dtype]))
    assert resolve_precision("auto", CPU, rows=100, width=16) is torch.bfloat16


def test_slow_products_are_made_no_more_often_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    # A CPU without an instruction for bfloat16 took half a second for one product, and half a minute for all.
    seconds = count()
    monkeypatch.setattr(precision.time, "thread_time", lambda: next(seconds))
    with Products() as products:
        resolve_precision("auto", CPU, rows=100, width=16)
    assert len(products.shapes[torch.float32]) == len(products.shapes[torch.bfloat16]) == 3 * 2 * 2


def test_a_clock_that_stands_still_for_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # On Windows it goes on 64 times a second.
    calls = count()
    monkeypatch.setattr(precision.time, "thread_time", lambda: next(calls) // 50 / 64)
    tensor = torch.ones(2, 2)
    with Products() as products:
        seconds = precision._seconds_of_products(tensor, tensor)
    uses = len(products.shapes[torch.float32]) / 3
    assert (uses, seconds) == (50, 1 / 64 / 50)


@pytest.mark.parametrize(("seconds", "rows"), [(0.9, {10}), (0.2, {10, 100})])  # without an instruction; hardly slower
def test_a_hopeless_arithmetic_is_tried_with_few_rows(
    seconds: float, rows: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: set[int] = set()

    def products(x: torch.Tensor, weight: torch.Tensor) -> float:
        tried.add(len(x))
        return seconds if x.dtype is torch.bfloat16 else 0.1

    monkeypatch.setattr(precision, "SMALL", 10 * 16 * 16)
    monkeypatch.setattr(precision, "_seconds_of_products", products)
    assert resolve_precision("auto", CPU, rows=100, width=16) is torch.float32
    assert tried == rows


@pytest.mark.parametrize(("rows", "width"), [(10**6, 4), (4, 10**6)])
def test_a_huge_model_or_batch_is_not_measured_whole(rows: int, width: int) -> None:
    with Products() as products:
        resolve_precision("auto", CPU, rows=rows, width=width)
    assert max(max(shape) for shape in products.shapes[torch.float32]) <= 2048


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", ["auto", "bfloat16"])
def test_a_measurement_uses_one_thread_and_leaves_the_threads_as_they_were(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: set[int] = set()
    measured = precision._seconds_of_products

    def products(x: torch.Tensor, weight: torch.Tensor) -> float:
        used.add(torch.get_num_threads())
        return measured(x, weight)

    monkeypatch.setattr(precision, "_seconds_of_products", products)
    resolve_precision(name, CPU, rows=4, width=4)
    assert used == {1}
    assert torch.get_num_threads() == 2
