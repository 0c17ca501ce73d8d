"""Dropout (Srivastava et al., 2014) that draws its random numbers fast."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STEPS = 2**16  # of the probability, which is rounded to a multiple of 1 / STEPS
ONE_IN_BFLOAT16 = 0x3F80  # its 16 bits
FINEST = 0.99  # With a greater probability, such coarse steps would leave too few elements, or too many.


class Dropout(nn.Module):
    """Zeroes each element with probability `p` while training, and scales the others by 1 / (1 - p).

    The same as `torch.nn.Dropout`, but on CPUs three times as fast: PyTorch draws 53 random bits for every element, one
    element after the other, where 16 are enough.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.p * STEPS)
        if not self.training or dropped == 0:
            return x
        if x.device.type != "cpu" or self.p > FINEST:
            return F.dropout(x, self.p)
        drawn = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        drawn = drawn.view(torch.int16)[: x.numel()].view(x.shape)
        least_kept = dropped - STEPS // 2
        # 0 or 1 by arithmetic of int16, then 0.0 or 1.0: PyTorch makes and converts booleans one by one.
        kept = drawn.clamp_(least_kept - 1, least_kept).sub_(least_kept - 1)
        kept = kept.mul_(ONE_IN_BFLOAT16).view(torch.bfloat16).to(x.dtype)
        return x * kept.mul_(1 / (1 - self.p))
