"""The optimizers that turn gradients into updates, built from their settings."""

import torch
from torch import nn, optim

from translate.config.schema import AdamConfig, AdamWConfig, MuonConfig
from translate.model.positions import LearnedPositions
from translate.training.muon import Muon

OptimizerConfig = AdamConfig | AdamWConfig | MuonConfig


def build_optimizers(
    config: OptimizerConfig, model: nn.Module, dtype: torch.dtype = torch.float32
) -> list[optim.Optimizer]:
    """Optimizers that together update each parameter of the model once. The schedule sets the rate at each update.

    `dtype` is the arithmetic of Muon's matrix products; all else is done in that of the parameters.
    """
    matrices, others = split_parameters(model)
    match config:
        case AdamConfig():
            return [optim.Adam(model.parameters(), lr=config.lr, betas=config.betas, eps=config.eps, fused=True)]
        case AdamWConfig():
            groups = [
                {"params": matrices, "weight_decay": config.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ]
            return [optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)]
        case MuonConfig():
            settings = {"lr": config.lr, "momentum": config.momentum, "weight_decay": config.weight_decay}
            muon = Muon(matrices, **settings, dtype=dtype)
            adamw = optim.AdamW(others, lr=config.lr, betas=config.betas, eps=config.eps, weight_decay=0.0, fused=True)
            return [muon, adamw]


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The matrices between layers, and the rest: embeddings (an output projection tied to one, too), norms, biases."""
    embeddings = [
        parameter
        for module in model.modules()
        if isinstance(module, nn.Embedding | LearnedPositions)
        for parameter in module.parameters()
    ]

    def is_matrix(parameter: nn.Parameter) -> bool:
        return parameter.ndim == 2 and not any(parameter is embedding for embedding in embeddings)

    parameters = list(model.parameters())
    return [p for p in parameters if is_matrix(p)], [p for p in parameters if not is_matrix(p)]
