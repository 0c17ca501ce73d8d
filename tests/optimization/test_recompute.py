"""Activation checkpointing: the same gradients to the bit, out of less memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from translate.config.model import ClassifierConfig, TransformerConfig
from translate.data.batching import Batch, pad_rows
from translate.model.build import Model, build_model
from translate.model.classifier import Classifier
from translate.optimization.objective import CrossEntropy, Objective, RDrop
from translate.optimization.recompute import recompute_blocks
from translate.system.precision import autocast
from translate.training.memory import TensorMemory

SIZES = {"d_model": 16, "ffn": 64, "heads": 2, "encoder_layers": 2}
DROPOUT = {"dropout": 0.2, "attention_dropout": 0.3, "ffn_dropout": 0.1}
MODELS: dict[str, TransformerConfig | ClassifierConfig] = {
    "pre-norm": TransformerConfig.model_validate({**SIZES, **DROPOUT, "decoder_layers": 2, "norm": "pre"}),
    "post-norm, tied": TransformerConfig.model_validate(
        {**SIZES, **DROPOUT, "decoder_layers": 2, "norm": "post", "tie": "target"}
    ),
    "classifier": ClassifierConfig.model_validate({**SIZES, **DROPOUT}),
}
OBJECTIVES: dict[str, Objective] = {"cross-entropy": CrossEntropy(0.1), "R-Drop": RDrop(0.1, 2.0)}
CPU = torch.device("cpu")


def model_of(config: TransformerConfig | ClassifierConfig, dtype: torch.dtype) -> Model:
    torch.manual_seed(1)
    model = build_model(config, source_size=30, target_size=20)
    return model.to(torch.float64 if dtype is torch.float64 else torch.float32)


def batch_for(model: Model) -> Batch:
    rng = np.random.default_rng(2)
    source_BS, source_mask_BS = pad_rows([rng.integers(4, 30, rng.integers(1, 10)) for _ in range(6)])
    target_BT, target_mask_BT = pad_rows([rng.integers(4, 20, rng.integers(1, 10)) for _ in range(6)])
    if isinstance(model, Classifier):
        target_BT, target_mask_BT = target_BT[:, :1], target_mask_BT[:, :1]
        return Batch(source_BS, source_mask_BS, target_BT, target_mask_BT, target_BT[:, 0] - 4)
    return Batch(source_BS, source_mask_BS, target_BT, target_mask_BT, target_BT[target_mask_BT])


def train_on(model: Model, objective: Objective, dtype: torch.dtype) -> tuple[dict[str, Tensor], Tensor]:
    """The gradients of a batch, and the random state afterwards."""

    def logits(batch: Batch) -> Tensor:
        with autocast(dtype if dtype is torch.bfloat16 else torch.float32, CPU):
            return model(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)

    model.train()
    torch.manual_seed(3)
    batch = batch_for(model)
    loss, _ = objective(logits(objective.read(batch)), batch.labels_N)
    loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, torch.get_rng_state()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_the_same_to_the_bit(name: str, objective: str, dtype: torch.dtype) -> None:
    plain, recomputing = (model_of(MODELS[name], dtype) for _ in range(2))
    recompute_blocks(recomputing)
    one, state = train_on(plain, OBJECTIVES[objective], dtype)
    other, other_state = train_on(recomputing, OBJECTIVES[objective], dtype)
    assert one.keys() == other.keys() == dict(plain.named_parameters()).keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
    assert all(gradient.isfinite().all() for gradient in one.values())
    assert torch.equal(state, other_state)


def most(model: Model) -> int:
    with TensorMemory() as memory:
        train_on(model, OBJECTIVES["cross-entropy"], torch.float32)
    return memory.peak


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_deep_model_takes_much_less_memory(name: str) -> None:
    deep = {"encoder_layers": 8} | ({} if name == "classifier" else {"decoder_layers": 8})
    config = MODELS[name].model_copy(update=deep)
    plain, recomputing = (model_of(config, torch.float32) for _ in range(2))
    recompute_blocks(recomputing)
    for model in (plain, recomputing):  # What is added to gradients that are there takes no memory that stays.
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
    assert most(recomputing) < most(plain) / 2.5


@pytest.mark.parametrize("name", MODELS)
def test_translation_and_names_are_as_before(name: str) -> None:
    plain, recomputing = (model_of(MODELS[name], torch.float32).eval() for _ in range(2))
    recompute_blocks(recomputing)
    assert list(plain.state_dict()) == list(recomputing.state_dict())

    @torch.inference_mode()
    def steps(model: Model) -> list[Tensor]:
        batch = batch_for(model)
        state: Any = model.start(batch.source_BS, batch.source_mask_BS)
        step: Callable[..., Tensor] = model.step
        return [step(torch.full((len(batch.source_BS), 1), token), state) for token in (2, 7, 5)]

    assert all(torch.equal(one, other) for one, other in zip(steps(plain), steps(recomputing), strict=True))
