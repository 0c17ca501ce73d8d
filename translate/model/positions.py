"""How a token knows its place: vectors that the embedding adds, or the rotation of queries and keys in attention.

`SinusoidalPositions` and `LearnedPositions` map a range of positions to vectors of the model's width, `NoPositions`,
which goes with a `RotaryEmbedding`, to 0. `max_length` is the length of the longest sequence that they can place, or
NO_LIMIT.

Dimension letters in names: B sentences, T positions, D model width, H heads, K width of a query or key in one head,
P pairs of its numbers, or of those of a position vector.
"""

import math
import sys

import torch
from torch import Tensor, nn

NO_LIMIT = sys.maxsize
FIRST_ROWS = 512  # of a table of sinusoids, before it grows


class SinusoidalPositions(nn.Module):
    """Sines and cosines of geometrically growing wavelengths (Vaswani et al., 2017, section 3.5).

    position p, dimension 2i: sin(p / 10000^(2i/D)); dimension 2i + 1: the cosine. The table grows on demand, from
    `FIRST_ROWS` positions, or `max_positions` if these are fewer.
    """

    max_length = NO_LIMIT
    table_TD: Tensor

    def __init__(self, *, d_model: int, max_positions: int = FIRST_ROWS) -> None:
        super().__init__()
        self.register_buffer("table_TD", sinusoids(min(max_positions, FIRST_ROWS), d_model), persistent=False)

    def forward(self, start: int, stop: int) -> Tensor:
        """Vectors of the positions `start` to `stop - 1`: (stop - start, D)."""
        table_TD = self.table_TD
        if stop > len(table_TD):
            # Other threads may do the same: each returns rows of the table that it has made.
            table_TD = sinusoids(2 * stop, table_TD.shape[1]).to(table_TD)
            self.table_TD = table_TD
        return table_TD[start:stop]


def sinusoids(positions: int, d_model: int) -> Tensor:
    """The table of the first `positions` position vectors, (positions, d_model) float32; made in float64."""
    place_T1 = torch.arange(positions, dtype=torch.float64).unsqueeze(1)
    frequency_P = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model))
    table_TD = torch.empty(positions, d_model, dtype=torch.float64)
    table_TD[:, 0::2] = torch.sin(place_T1 * frequency_P)
    table_TD[:, 1::2] = torch.cos(place_T1 * frequency_P)
    return table_TD.float()


class LearnedPositions(nn.Module):
    """One trained vector for each of `max_positions` positions (Gehring et al., 2017)."""

    def __init__(self, *, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.max_length = max_positions
        self.weight_TD = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.weight_TD, std=2**-0.5)  # as strong as a sinusoid

    def forward(self, start: int, stop: int) -> Tensor:
        """Vectors of the positions `start` to `stop - 1`: (stop - start, D). ValueError past the last one."""
        if stop > len(self.weight_TD):
            raise ValueError(f"a sequence of {stop} tokens is longer than the {len(self.weight_TD)} learned positions")
        return self.weight_TD[start:stop]


class NoPositions(nn.Module):
    """Nothing to add: with rotary positions, attention itself tells places apart, by a `RotaryEmbedding`."""

    max_length = NO_LIMIT

    def __init__(self, *, d_model: int, max_positions: int) -> None:
        super().__init__()

    def forward(self, start: int, stop: int) -> Tensor:
        """Zero, whatever the positions; a scalar: ()."""
        return torch.zeros(())


class RotaryEmbedding(nn.Module):
    """Rotates queries and keys by angles that grow with their positions (RoFormer: Su et al., 2021, equation 34).

    Each pair of neighbouring numbers is a point in a plane, which rotates at its own speed: the angle of position p and
    pair i is that of the sinusoids, p / 10000^(2i/K). So the product of a query and a key depends on how far apart they
    are, but not on where.

    Args:
        width: of a query or a key in one head; even.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.sinusoids = SinusoidalPositions(d_model=width)

    def forward(self, x_BHTK: Tensor, start: int) -> Tensor:
        """The queries or keys of the positions from `start` on, rotated: (B, H, T, K), of the same type."""
        sin_cos_TK = self.sinusoids(start, start + x_BHTK.shape[2])
        # Sine and cosine swap places: multiplying by cos + i sin rotates.
        turn_TP = torch.view_as_complex(sin_cos_TK.unflatten(1, (-1, 2)).flip(2))
        points_BHTP = torch.view_as_complex(x_BHTK.to(sin_cos_TK.dtype).unflatten(3, (-1, 2)))
        return torch.view_as_real(points_BHTP * turn_TP).flatten(3).to(x_BHTK.dtype)
