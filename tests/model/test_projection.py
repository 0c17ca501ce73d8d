"""The projection to the vocabulary: what PyTorch's own linear layer computes, in rows that begin at cache lines."""

import pytest
import torch
from torch import Tensor, nn

from translate.model.projection import COLUMNS, Projection
from translate.system.precision import autocast

CPU = torch.device("cpu")


def with_gradients(layer: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """The result, and the gradients of the input and of each parameter."""
    x = x.clone().requires_grad_()
    found = layer(x)
    inputs = [x, *layer.parameters()]
    return found.detach(), *torch.autograd.grad(found.square().sum(), inputs)


def random_layer(size: int) -> Projection:
    torch.manual_seed(1)
    return Projection(8, size).double()


@pytest.mark.parametrize("size", [1, COLUMNS - 1, COLUMNS, COLUMNS + 1, 100])
@pytest.mark.parametrize("rows", [(0,), (1,), (5,), (2, 3)])
def test_it_is_a_linear_layer(size: int, rows: tuple[int, ...]) -> None:
    layer = random_layer(size)
    linear = nn.Linear(8, size).double()
    linear.load_state_dict(layer.state_dict())
    x = torch.randn(*rows, 8, dtype=torch.float64)
    torch.testing.assert_close(with_gradients(layer, x), with_gradients(linear, x))
    with torch.no_grad():
        torch.testing.assert_close(layer(x), linear(x))


@pytest.mark.parametrize("size", [COLUMNS - 1, COLUMNS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_of_a_larger_weight_it_takes_the_first_rows(size: int, dtype: torch.dtype) -> None:
    layer, linear = random_layer(size), nn.Linear(8, size).double()
    linear.load_state_dict(layer.state_dict())
    layer.weight = nn.Parameter(torch.cat([layer.weight, torch.randn(5, 8)]))
    x = torch.randn(3, 8, dtype=dtype)
    found, of_x, of_weight, of_bias = with_gradients(layer.to(dtype), x)
    torch.testing.assert_close((found, of_x, of_weight[:size], of_bias), with_gradients(linear.to(dtype), x))
    assert of_weight.shape == (size + 5, 8)
    assert not of_weight[size:].any()


@pytest.mark.parametrize("size", [1, COLUMNS - 1, COLUMNS, COLUMNS + 1, 100])
def test_rows_begin_at_cache_lines_in_float32_alone(size: int) -> None:
    layer = random_layer(size).float()
    x_MD = torch.randn(3, 8)
    assert layer(x_MD).shape == (3, size)
    assert layer(x_MD).stride() == (size + -size % COLUMNS, 1)
    with autocast(torch.bfloat16, CPU):
        assert layer(x_MD).is_contiguous()
