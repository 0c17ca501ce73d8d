"""The projection to the target vocabulary, with rows of logits that are aligned to cache lines.

The size of a vocabulary is an arbitrary number, which would be a bad length for them.

Dimension letters in names: M rows, D model width, V target vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn

COLUMNS = 16  # As many numbers of float32 fill a cache line.


class Projection(nn.Linear):
    """A linear layer from (..., D) to (..., V).

    Its weight may have more rows than V, as that of a joint embedding, where those of the target come first.

    In float32 on CPUs, each row of the result begins a multiple of `columns` numbers after the one before; what is
    between them is unused. If each began somewhere else in its cache lines, MKL's product would take up to twice as
    long on CPUs with AVX2.
    """

    def __init__(self, d_model: int, size: int) -> None:
        super().__init__(d_model, size)
        self.columns = COLUMNS

    def forward(self, x: Tensor) -> Tensor:
        weight_VD = self.weight if len(self.weight) == self.out_features else self.weight[: self.out_features]
        aligned = self.out_features % self.columns == 0
        if aligned or x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return nn.functional.linear(x, weight_VD, self.bias)
        product_MV: Tensor = _AlignedProduct.apply(x.flatten(0, -2), weight_VD, self.bias, self.columns)  # type: ignore[no-untyped-call]
        return product_MV.unflatten(0, x.shape[:-1])


class _AlignedProduct(torch.autograd.Function):
    """Autograd has no gradient for an operator that is told where to put its result."""

    @staticmethod
    def forward(ctx: Any, x_MD: Tensor, weight_VD: Tensor, bias_V: Tensor, columns: int) -> Tensor:
        ctx.save_for_backward(x_MD, weight_VD)
        size = len(weight_VD)
        product_MV = x_MD.new_empty(len(x_MD), size + -size % columns)[:, :size]
        return torch.addmm(bias_V, x_MD, weight_VD.t(), out=product_MV)

    @staticmethod
    def backward(ctx: Any, gradient_MV: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x_MD, weight_VD = ctx.saved_tensors
        return gradient_MV @ weight_VD, gradient_MV.t() @ x_MD, gradient_MV.sum(0), None
