"""Small models, and batches of a few updates for them."""

from typing import Any

import torch

from translate.config.model import ClassifierConfig, TransformerConfig
from translate.data.batching import Batch
from translate.model.build import Model, build_model
from translate.text.vocabulary import PAD

CPU, SIZE = torch.device("cpu"), 30
# Without biases of keys, whose gradients are rounding alone.
SMALL: dict[str, Any] = {"d_model": 16, "ffn": 24, "heads": 2, "encoder_layers": 1, "dropout": 0.0, "qkv_bias": False}


def batch(*lengths: tuple[int, int], seed: int) -> Batch:
    """Of random tokens; one row for each pair of lengths."""
    generator = torch.Generator().manual_seed(seed)
    source_B, target_B = torch.tensor(lengths).T
    masks = [torch.arange(int(side.max())) < side[:, None] for side in (source_B, target_B)]
    source_BS, target_BT = (torch.randint(4, SIZE, mask.shape, generator=generator) * mask for mask in masks)
    source_BS[~masks[0]], target_BT[~masks[1]] = PAD, PAD
    labels_BT = torch.randint(4, SIZE, target_BT.shape, generator=generator)
    return Batch(source_BS, masks[0], target_BT, masks[1], labels_BT[masks[1]])


def labelled(*lengths: int, seed: int) -> Batch:
    made = batch(*((length, 1) for length in lengths), seed=seed)
    return Batch(**(vars(made) | {"labels_N": made.labels_N - 4}))


UPDATES = [
    [batch((5, 3), (2, 9), (4, 4), seed=1), batch((11, 8), (1, 1), seed=2)],
    [batch((5, 3), (3, 8), (4, 4), seed=3), batch((5, 9), (2, 3), (2, 2), seed=4)],
    [batch((9, 7), (10, 8), seed=5)],
    [batch((5, 3), (2, 9), (1, 4), seed=6), batch((9, 7), (1, 2), seed=7)],
]
LABELLED = [[labelled(5, 2, 3, seed=1)], [labelled(7, 1, 2, seed=2), labelled(8, seed=3)], [labelled(3, 3, 5, seed=4)]]


def small_model(labels: bool = False) -> Model:
    if not labels:
        return build_translator(**SMALL, positions="rotary")
    return build_model(ClassifierConfig(**SMALL), source_size=SIZE, target_size=SIZE)


def build_translator(**settings: Any) -> Model:
    model = TransformerConfig(decoder_layers=1, **settings)
    return build_model(model, source_size=SIZE, target_size=SIZE)
