"""The optimizers that turn gradients into updates, built from their settings."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn, optim

from translate.config.training import AdamConfig, AdamWConfig, MuonConfig, OptimizerConfig
from translate.model.positions import LearnedPositions
from translate.optimization.muon import Muon
from translate.system.uncompiled import Adam, AdamW


def build_optimizers(
    config: OptimizerConfig, model: nn.Module, dtype: torch.dtype = torch.float32, *, recorded: bool = False
) -> list[optim.Optimizer]:
    """Optimizers that together update each parameter of the model once. `set_rate` is called before each update.

    Args:
        dtype: the dtype of Muon's matrix products; everything else is computed in the dtype of the parameters.
        recorded: whether a CUDA graph will replay updates, with changing rates.
    """
    matrices, others = split_parameters(model)
    rate: Any = torch.tensor(config.lr, device=next(model.parameters()).device) if recorded else config.lr
    settings = {"lr": rate, "betas": config.betas, "eps": config.eps, "fused": True, "capturable": recorded}
    match config:
        case AdamConfig():
            return [Adam(model.parameters(), **settings)]
        case AdamWConfig():
            groups = [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ]
            return [AdamW(groups, **settings)]
        case MuonConfig():
            muon = Muon(matrices, lr=rate, momentum=config.momentum, weight_decay=config.weight_decay, dtype=dtype)
            return [muon, AdamW(others, **settings, weight_decay=0.0)]


def set_rate(optimizers: Iterable[optim.Optimizer], rate: float) -> None:
    """Set the learning rate of the next update."""
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The weight matrices of hidden layers, and the rest: embeddings, the output projection, norms and biases."""
    ends = {
        parameter
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding | LearnedPositions) or name == "projection"
        for parameter in module.parameters()
    }
    matrices = [p for p in model.parameters() if p.ndim == 2 and p not in ends]
    others = [p for p in model.parameters() if p.ndim != 2 or p in ends]
    return matrices, others
