"""Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/): momentum with orthogonal steps.

It works on all matrices of one shape at once.

The mean gradient of a matrix, with singular value decomposition G = U S Vᵀ, is dominated by a few directions. A step
along U Vᵀ is equally long in all directions, so that those which are weak in the gradient are learned as fast.
`orthogonalize` approximates U Vᵀ with matrix products alone.

Dimension letters in names: N matrices, R rows, C columns.
"""

from collections.abc import Iterable
from itertools import groupby

import torch
from torch import Tensor, nn

from translate.distributed.parallel import replicated
from translate.system.uncompiled import Optimizer

# From Jordan et al.: they lift small singular values fastest, and leave large ones near 1.
COEFFICIENTS = (3.4445, -4.775, 2.0315)
STEPS = 5


class Muon(Optimizer):
    """Moves matrices along their mean gradient with all singular values made about equal, in steps of AdamW's size.

    The same as `torch.optim.Muon(…, adjust_lr_fn="match_rms_adamw")`, which came with PyTorch 2.9 and takes one matrix
    at a time: for matrices of 128 x 128 that is twice as slow.

    Args:
        parameters: matrices.
        lr: AdamW's learning rate; updates are scaled to the size of AdamW's (Liu et al., 2025). As a tensor, it can
            change between replays of a CUDA graph.
        momentum: decay of the running mean of gradients, also used for Nesterov's look-ahead.
        weight_decay: decoupled weight decay.
        dtype: the dtype in which `orthogonalize` computes. Bfloat16, as in PyTorch's Muon, is exact enough, but twenty
            times as slow as float32 on a CPU without instructions for it.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float | Tensor,
        momentum: float,
        weight_decay: float,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient; gradients are overwritten."""
        assert closure is None
        for group in self.param_groups:
            matrices = sorted((p for p in group["params"] if p.grad is not None), key=_shape)
            for _, alike in groupby(matrices, _shape):
                self._step(list(alike), lr=group["lr"], momentum=group["momentum"], weight_decay=group["weight_decay"])

    def _step(self, matrices: list[Tensor], *, lr: float | Tensor, momentum: float, weight_decay: float) -> None:
        """The same for matrices of one shape."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix, gradient in zip(matrices, gradients, strict=True):
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(gradient)
        means = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        # In place, and `steps` split instead of unbound, because older versions of PyTorch cannot do these with FSDP.
        torch._foreach_lerp_(gradients, means, momentum)
        ahead = torch.stack(gradients)
        torch._foreach_mul_(matrices, 1 - lr * weight_decay)
        # All rows of a matrix depend on each other. Left to itself, PyTorch may divide the stack among processes by
        # matrices, and then cannot take it apart.
        size = 0.2 * max(_shape(matrices[0])) ** 0.5 * lr
        steps = size * orthogonalize(replicated(ahead), self.dtype).to(ahead.dtype)
        torch._foreach_sub_(matrices, [step.squeeze(0) for step in steps.split(1)])


def orthogonalize(matrices_NRC: Tensor, dtype: torch.dtype) -> Tensor:
    """N matrices of R rows and C columns with singular values between about 0.7 and 1.2, in `dtype`: (N, R, C).

    Very small ones stay smaller. Uses fifth-order Newton-Schulz iterations in place of the exact but slow singular
    value decomposition.
    """
    a, b, c = COEFFICIENTS
    tall = matrices_NRC.shape[1] > matrices_NRC.shape[2]
    x_NRC = matrices_NRC.to(dtype)
    x_NRC = x_NRC.mT if tall else x_NRC
    x_NRC = x_NRC / x_NRC.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(STEPS):
        gram_NRR = x_NRC @ x_NRC.mT
        change_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        x_NRC = torch.baddbmm(x_NRC, change_NRR, x_NRC, beta=a)
    return x_NRC.mT if tall else x_NRC


def _shape(matrix: Tensor) -> tuple[int, ...]:
    return tuple(matrix.shape)
