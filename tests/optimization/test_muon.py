"""Muon: PyTorch's own, matrix by matrix, and the singular values that it evens out."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from translate.optimization.muon import Muon, orthogonalize

SHAPES = [(16, 16), (24, 16), (16, 16), (16, 24), (24, 16), (3, 40)]


def matrices() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


@pytest.mark.skipif(not hasattr(optim, "Muon"), reason="this PyTorch has no Muon of its own")
def test_equals_the_one_of_pytorch() -> None:
    ours, theirs = matrices(), matrices()
    optimizers = [
        Muon(ours, lr=0.1, momentum=0.9, weight_decay=0.2, dtype=torch.bfloat16),
        optim.Muon(theirs, lr=0.1, momentum=0.9, weight_decay=0.2, adjust_lr_fn="match_rms_adamw"),
    ]
    generator = torch.Generator().manual_seed(2)
    for rate in (0.1, 0.05, 0.2):
        for pair in zip(ours, theirs, strict=True):
            gradient = torch.randn(pair[0].shape, generator=generator)
            for parameter in pair:
                parameter.grad = gradient.clone()
        ours[2].grad = theirs[2].grad = None  # not used in this update
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
    for number, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        torch.testing.assert_close(own, other, rtol=0.0, atol=2e-3, msg=f"matrix {number}")
        assert (own - matrices()[number]).abs().max() > 0.05 or number == 2
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert states[0].keys() == states[1].keys()
    for place, state in states[0].items():
        torch.testing.assert_close(state["momentum_buffer"], states[1][place]["momentum_buffer"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("shape", [(5, 16, 16), (1, 40, 8), (3, 8, 40)])
def test_singular_values_become_about_one_and_their_directions_stay(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    matrices_NRC = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    evened = orthogonalize(matrices_NRC, dtype).float()
    values = torch.linalg.svdvals(evened)
    assert values.min() > 0.3
    assert values.max() < 1.4
    # In exact arithmetic the product with the original is symmetric: both have the same singular vectors.
    product = evened @ matrices_NRC.mT
    assert (product - product.mT).norm() < (0.05 if dtype is torch.bfloat16 else 1e-5) * product.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_products_are_made_in_the_arithmetic_asked_for(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    made, product = set(), torch.baddbmm

    def seen(added: Tensor, left: Tensor, right: Tensor, **options: Any) -> Tensor:
        made.update({added.dtype, left.dtype, right.dtype})
        return product(added, left, right, **options)

    monkeypatch.setattr(torch, "baddbmm", seen)
    parameters = matrices()
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    Muon(parameters, lr=0.1, momentum=0.9, weight_decay=0.2, dtype=dtype).step()
    assert made == {dtype}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_gradient_of_zero_moves_nothing(dtype: torch.dtype) -> None:
    assert torch.equal(orthogonalize(torch.zeros(2, 3, 4), dtype), torch.zeros(2, 3, 4, dtype=dtype))
