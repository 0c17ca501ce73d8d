"""The positions of a batch as rows of one matrix, for linear layers, padded so that few numbers of rows occur.

In bfloat16 on CPUs, oneDNN computes matrix products. For each new number of rows it first generates machine code: on a
CPU with AMX in 1 to 3 ms, for a product that then takes 0.1 to 0.4. Nearly every batch would have a new number.

Dimension letters in names: N positions, M the same and rows of padding, D their width.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Numbers of rows are multiples of it: so few that their machine code can be kept (see `device.prepare_cpu`).
ROWS = 256


class PaddedRows(nn.Module):
    """Makes all positions rows of one matrix, (..., D) to (M, D).

    In bfloat16 on CPUs, rows of zeros follow until their number is a multiple of `multiple`; otherwise M is N.
    """

    def __init__(self) -> None:
        super().__init__()
        self.multiple = ROWS

    def forward(self, x: Tensor) -> Tensor:
        x_ND = x.flatten(0, -2)
        if not torch.is_autocast_enabled("cpu"):
            return x_ND
        x_ND = x_ND.to(torch.get_autocast_dtype("cpu"))  # Linear layers would do so, each of them again.
        missing = -len(x_ND) % self.multiple
        return F.pad(x_ND, (0, 0, 0, missing)) if missing else x_ND


def positions_of(x_MD: Tensor, sizes: Sequence[int]) -> Tensor:
    """The rows as positions of a batch again, without the padding: (*sizes, D)."""
    count = math.prod(sizes)
    # The gradient of a slice, even of all, is a copy.
    return (x_MD[:count] if count < len(x_MD) else x_MD).unflatten(0, sizes)
