"""Lets an update be abandoned halfway: one of a large model can take half a minute on a CPU."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from translate.model.layers import blocks_of


def let_blocks_check(model: nn.Module, check: Callable[[], None]) -> None:
    """Let each block of encoder and decoder call `check`, which may raise, in its forward and its backward pass."""

    def before(*_: object) -> None:
        check()

    def after(_block: nn.Module, _inputs: object, result: Tensor | tuple[Tensor, Any]) -> None:
        output = result if isinstance(result, Tensor) else result[0]
        if output.requires_grad:
            output.register_hook(before)

    for block in blocks_of(model):
        block.register_forward_pre_hook(before)
        block.register_forward_hook(after)
