"""Activation checkpointing: blocks discard what they have computed, and recompute it for the gradient."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from translate.model.layers import blocks_of
from translate.system.uncompiled import import_compiler


def recompute_blocks(model: nn.Module) -> None:
    """Let each block of encoder and decoder keep only its inputs for the backward pass (Chen et al., 2016).

    Gradients stay the same to the bit, dropout included; so do the names of parameters, and passes without a gradient.
    """
    import_compiler()
    for block in blocks_of(model):
        # Replaces the method, because a wrapper around the module would rename all parameters.
        block.__dict__["forward"] = partial(checkpoint, block.forward, use_reentrant=False)
