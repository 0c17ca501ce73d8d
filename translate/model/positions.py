"""How a token knows its place: two modules with one interface.

Each maps a range of positions to vectors of the model's width; the embedding adds them. `longest` is the longest
sequence that has places for all its tokens, or None where there is no limit. T positions, D model width.
"""

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Sines and cosines of geometrically growing wavelengths (Vaswani et al., 2017, section 3.5).

    position p, dimension 2i: sin(p / 10000^(2i/D)); dimension 2i + 1: the cosine. The table grows on demand.
    """

    longest: int | None = None
    table_TD: Tensor

    def __init__(self, *, d_model: int, max_positions: int = 512) -> None:
        super().__init__()
        self.register_buffer("table_TD", sinusoids(max_positions, d_model), persistent=False)

    def forward(self, start: int, stop: int) -> Tensor:
        """Vectors of the positions `start` to `stop - 1`: (stop - start, D)."""
        if stop > len(self.table_TD):
            longer = sinusoids(2 * stop, self.table_TD.shape[1])
            self.table_TD = longer.to(self.table_TD)
        return self.table_TD[start:stop]


def sinusoids(positions: int, d_model: int) -> Tensor:
    """The table of the first `positions` position vectors, (positions, d_model) float32; made in float64."""
    place_T1 = torch.arange(positions, dtype=torch.float64).unsqueeze(1)
    frequency_D = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    table_TD = torch.empty(positions, d_model, dtype=torch.float64)
    table_TD[:, 0::2] = torch.sin(place_T1 * frequency_D)
    table_TD[:, 1::2] = torch.cos(place_T1 * frequency_D)
    return table_TD.float()


class LearnedPositions(nn.Module):
    """One trained vector for each of `max_positions` positions (Gehring et al., 2017)."""

    def __init__(self, *, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.longest = max_positions
        self.weight_TD = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight_TD, std=2**-0.5)  # as strong as a sinusoid

    def forward(self, start: int, stop: int) -> Tensor:
        """Vectors of the positions `start` to `stop - 1`: (stop - start, D). ValueError past the last one."""
        if stop > len(self.weight_TD):
            raise ValueError(f"a sequence of {stop} tokens is longer than the {len(self.weight_TD)} learned positions")
        return self.weight_TD[start:stop]
