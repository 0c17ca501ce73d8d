"""PyTorch's optimizers and DDP, without the import of `torch._dynamo`, its compiler.

They import it only to exclude themselves from compilation. But nothing here is compiled, and the import takes a second
or more and 70 MiB. They do so in wrappers around some methods; these classes have the wrapped methods themselves.
"""

import importlib
import sys
from contextlib import contextmanager
from inspect import unwrap
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn, optim


def import_compiler() -> None:
    """Import it where PyTorch will in any case, but before there are tensors.

    Whatever frames are below that import stay, with their tensors, until Python searches for garbage, which it seldom
    does in the commands.
    """
    importlib.import_module("torch._dynamo")


class Optimizer(optim.Optimizer):
    """The base class of all optimizers here."""

    add_param_group = unwrap(optim.Optimizer.add_param_group)
    state_dict = unwrap(optim.Optimizer.state_dict)
    load_state_dict = unwrap(optim.Optimizer.load_state_dict)


class Adam(Optimizer, optim.Adam):
    """Adam (Kingma and Ba, 2015): `torch.optim.Adam`."""

    step = torch.no_grad()(unwrap(optim.Adam.step))


class AdamW(Optimizer, optim.AdamW):
    """AdamW (Loshchilov and Hutter, 2019): `torch.optim.AdamW`."""

    step = torch.no_grad()(unwrap(optim.AdamW.step))


class DistributedDataParallel(nn.parallel.DistributedDataParallel):
    """`torch.nn.parallel.DistributedDataParallel` (Li et al., 2020)."""

    def __init__(self, model: nn.Module, **settings: Any) -> None:
        if "torch._dynamo" not in sys.modules:
            torch._dynamo = _NoCompiler()  # type: ignore[assignment]
        try:
            super().__init__(model, **settings)
        finally:
            _NoCompiler.withdraw()

    _inside_ddp_forward = contextmanager(unwrap(nn.parallel.DistributedDataParallel._inside_ddp_forward))


class _NoCompiler:
    """A stand-in for `torch._dynamo` that only says how DDP is optimized: not. Asked for more, it gives way to it."""

    utils = SimpleNamespace(get_optimize_ddp_mode=lambda: "no_optimization")

    def __getattr__(self, name: str) -> Any:  # Older versions of PyTorch ask something else.
        self.withdraw()
        return getattr(importlib.import_module("torch._dynamo"), name)

    @classmethod
    def withdraw(cls) -> None:
        """Remove the stand-in, so that PyTorch imports its compiler when it next needs it."""
        if isinstance(vars(torch).get("_dynamo"), cls):
            del torch._dynamo
