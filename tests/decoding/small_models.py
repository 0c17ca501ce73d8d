"""Small transformers to search with, their sources and settings, and what they say without a cache."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.config.model import TransformerConfig
from translate.model.build import build_transformer
from translate.model.transformer import Transformer
from translate.text.vocabulary import BOS, EOS, PAD, UNK

VOCABULARY = 17
FORBIDDEN = [UNK, PAD, BOS]


def random_model(seed: int = 0, **settings: Any) -> Transformer:
    """A transformer with matrices so large that it says something else for each source."""
    sizes = {"d_model": 32, "ffn": 32, "encoder_layers": 1, "decoder_layers": 2, "heads": 2, "tie": "none"}
    torch.manual_seed(seed)
    config = TransformerConfig.model_validate(sizes | settings)
    model = build_transformer(config, source_size=VOCABULARY, target_size=VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.add_(torch.randn(parameter.shape), alpha=0.6)
    return model.eval()


def random_sources(count: int, longest: int = 12) -> list[list[int]]:
    """Sources of 0 to `longest` tokens, in no order."""
    rng = np.random.default_rng(1)
    return [rng.integers(4, VOCABULARY, length).tolist() for length in rng.integers(0, longest + 1, count)]


def config(**settings: Any) -> DecodingConfig:
    return DecodingConfig.model_validate({"max_ratio": 1.0, "max_extra": 2} | settings)


@torch.inference_mode()
def next_log_probs(model: Transformer, source: list[int], prefix: tuple[int, ...]) -> Tensor:
    """Log-probabilities of what may follow a prefix, from the whole of it."""
    source_1S, target_1T = torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *prefix]])
    logits_TV = model(source_1S, torch.ones_like(source_1S).bool(), target_1T, torch.ones_like(target_1T).bool())
    log_probs_V: Tensor = logits_TV[-1].log_softmax(0)
    log_probs_V[FORBIDDEN] = -torch.inf
    return log_probs_V
