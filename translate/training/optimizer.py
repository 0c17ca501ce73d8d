"""The optimizers that turn gradients into updates, PyTorch's own, built from their settings."""

from torch import nn, optim

from translate.config.schema import AdamConfig, AdamWConfig


def build_optimizer(config: AdamConfig | AdamWConfig, model: nn.Module) -> optim.Optimizer:
    """An optimizer for all of the model's parameters. The schedule sets the rate at each update."""
    match config:
        case AdamConfig():
            return optim.Adam(model.parameters(), lr=config.lr, betas=config.betas, eps=config.eps, fused=True)
        case AdamWConfig():
            groups = [
                {"params": [p for p in model.parameters() if decays(model, p)], "weight_decay": config.weight_decay},
                {"params": [p for p in model.parameters() if not decays(model, p)], "weight_decay": 0.0},
            ]
            return optim.AdamW(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def decays(model: nn.Module, parameter: nn.Parameter) -> bool:
    """Whether weight decay applies: to the matrices between layers, not to norms, biases and embeddings."""
    embeddings = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    return parameter.ndim > 1 and not any(parameter is embedding for embedding in embeddings)
