"""Which parameters each optimizer updates, and with which settings."""

from typing import get_args

import pytest
import torch
from kinds_of_optimizers import KINDS, settings_of
from torch import nn

from translate.config.model import TransformerConfig
from translate.config.training import TrainingConfig
from translate.model.build import build_transformer
from translate.optimization.optimizer import build_optimizers, split_parameters

TIES = get_args(TransformerConfig.model_fields["tie"].annotation)
POSITIONS = get_args(TransformerConfig.model_fields["positions"].annotation)


def small_model(tie: str = "none", positions: str = "sinusoidal") -> nn.Module:
    config = TransformerConfig.model_validate(
        {"d_model": 8, "ffn": 12, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "max_positions": 10}
        | {"tie": tie, "positions": positions}
    )
    return build_transformer(config, source_size=9, target_size=9)


def is_matrix(name: str) -> bool:
    """By name: the weights of the linear layers, but not of the projection to the vocabulary."""
    return name.endswith("weight") and not any(part in name for part in ("norm", "embedding", "projection"))


def test_every_optimizer_of_the_schema_is_covered() -> None:
    in_schema = get_args(TrainingConfig.model_fields["optimizer"].annotation)
    assert {get_args(config.model_fields["kind"].annotation)[0] for config in in_schema} == set(KINDS)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tie", TIES)
def test_embeddings_norms_and_biases_are_no_matrices(tie: str, positions: str) -> None:
    model = small_model(tie, positions)
    matrices, others = split_parameters(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert sorted(names[id(p)] for p in matrices) == sorted(name for name in names.values() if is_matrix(name))
    assert sorted(names[id(p)] for p in [*matrices, *others]) == sorted(names.values())


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_updated_by_one_group(kind: str, tie: str, positions: str) -> None:
    model = small_model(tie, positions)
    optimizers = build_optimizers(settings_of(kind), model)
    assert tuple(map(type, optimizers)) == KINDS[kind]
    updated = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    assert sorted(updated) == sorted(map(id, model.parameters()))


@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_only_matrices_decay(kind: str, tie: str) -> None:
    """With no gradient at all an update is the decay alone: 1 - 0.1 * 0.5 of the weight is left."""
    model = small_model(tie, "learned")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in build_optimizers(settings_of(kind, lr=0.1, weight_decay=0.5), model):
        optimizer.step()
    for name, parameter in model.named_parameters():
        left = 0.95 if is_matrix(name) else 1.0
        torch.testing.assert_close(parameter.detach(), left * before[name], msg=name)


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_settings_reach_the_optimizer(kind: str) -> None:
    (optimizer,) = build_optimizers(settings_of(kind, lr=0.02, betas=(0.8, 0.9), eps=1e-5), small_model())
    for group in optimizer.param_groups:
        assert (group["lr"], group["betas"], group["eps"]) == (0.02, (0.8, 0.9), 1e-5)
        assert kind == "adamw" or group["weight_decay"] == 0.0


def test_settings_reach_both_optimizers_of_muon() -> None:
    settings = settings_of("muon", lr=0.02, momentum=0.5, betas=(0.8, 0.9), eps=1e-5, weight_decay=0.25)
    (muon,), (adamw,) = (optimizer.param_groups for optimizer in build_optimizers(settings, small_model()))
    assert (muon["lr"], muon["momentum"], muon["weight_decay"]) == (0.02, 0.5, 0.25)
    assert (adamw["lr"], adamw["betas"], adamw["eps"], adamw["weight_decay"]) == (0.02, (0.8, 0.9), 1e-5, 0.0)
