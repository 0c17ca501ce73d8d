"""Blocks that check whether an update should go on."""

import pytest
import torch
from torch import Tensor

from translate.config.model import ClassifierConfig, TransformerConfig
from translate.model.build import Model, build_model
from translate.optimization.recompute import recompute_blocks
from translate.optimization.threaded import view_of
from translate.training.abandon import let_blocks_check

SIZES = {"d_model": 16, "ffn": 16, "heads": 2, "encoder_layers": 2}
CONFIGS = {
    "translation": TransformerConfig.model_validate({**SIZES, "decoder_layers": 1}),
    "labels": ClassifierConfig.model_validate(SIZES),
}
BLOCKS = {"translation": 3, "labels": 2}


class Enough(Exception):
    pass


def checked(kind: str, checks: list[int], most: int) -> Model:
    """A model of which every check is noted, and the one after `most` raises."""

    def check() -> None:
        if len(checks) == most:
            raise Enough
        checks.append(len(checks))

    model = build_model(CONFIGS[kind], source_size=9, target_size=9)
    let_blocks_check(model, check)
    return model.train()


def loss(model: Model) -> Tensor:
    source_BS = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]])
    target_BT = torch.tensor([[2], [2]]) if model.max_length == 1 else torch.tensor([[2, 5, 6], [2, 7, 7]])
    return model(source_BS, source_BS != 0, target_BT, None).float().sum()


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_block_checks_in_both_passes(kind: str) -> None:
    checks: list[int] = []
    model = checked(kind, checks, most=99)
    result = loss(model)
    assert len(checks) == BLOCKS[kind]
    result.backward()
    assert len(checks) == 2 * BLOCKS[kind]
    with torch.no_grad():
        loss(model.eval())
    assert len(checks) == 3 * BLOCKS[kind]


@pytest.mark.parametrize("kind", CONFIGS)
def test_any_check_may_end_the_pass(kind: str) -> None:
    for most in range(2 * BLOCKS[kind]):
        checks: list[int] = []
        model = checked(kind, checks, most)
        with pytest.raises(Enough):
            loss(model).backward()
        assert len(checks) == most


@pytest.mark.parametrize("kind", CONFIGS)
def test_views_and_blocks_that_recompute_check_too(kind: str) -> None:
    checks: list[int] = []
    model = checked(kind, checks, most=99)
    loss(view_of(model)).backward()
    assert len(checks) == 2 * BLOCKS[kind]
    recompute_blocks(model)
    loss(model).backward()
    assert len(checks) == 4 * BLOCKS[kind]
