"""Positions as rows of a matrix: how many there are, and that the further ones change nothing."""

import pytest
import torch
from torch import Tensor, nn

from translate.model.layers import FeedForward
from translate.model.rows import ROWS, PaddedRows, positions_of
from translate.system.precision import autocast

CPU = torch.device("cpu")


def in_bfloat16(module: nn.Module, x: Tensor) -> Tensor:
    with autocast(torch.bfloat16, CPU):
        found: Tensor = module(x)
    return found


@pytest.mark.parametrize("sizes", [(3, 5), (1, 1), (ROWS + 1,), (2, ROWS // 2), (0, 5), (2, 3, 4)])
def test_rows_are_a_multiple_in_bfloat16_alone(sizes: tuple[int, ...]) -> None:
    x = torch.randn(*sizes, 7)
    positions = x.flatten(0, -2)
    assert PaddedRows()(x).equal(positions)
    x_MD = in_bfloat16(PaddedRows(), x)
    assert len(x_MD) == len(positions) + -len(positions) % ROWS
    assert x_MD[: len(positions)].equal(positions.bfloat16())
    assert not x_MD[len(positions) :].any()
    assert positions_of(x_MD, sizes).equal(x.bfloat16())


def test_padding_rows_have_no_part_in_any_gradient() -> None:
    torch.manual_seed(1)
    gradients = []
    for multiple in (1, ROWS):
        layer = FeedForward(d_model=8, hidden=16, activation=nn.GELU(), dropout=0.0)
        for number, parameter in enumerate(layer.parameters()):  # Biases, too: they alone reach the further rows.
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(number))
        layer.as_rows.multiple = multiple
        x_BTD = torch.linspace(-1, 1, 3 * 5 * 8).view(3, 5, 8).requires_grad_()
        in_bfloat16(layer, x_BTD).float().square().sum().backward()
        gradients.append([x_BTD.grad, *(parameter.grad for parameter in layer.parameters())])
    torch.testing.assert_close(*gradients, rtol=0.02, atol=1e-3)
