"""Scaled dot-product attention with several heads (Vaswani et al., 2017, section 3.2).

Dimension letters in names: B sentences, T queries, S keys, D model width, H heads, K width of one head.
Masks are boolean and True where a query may look.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class KeysValues(NamedTuple):
    """What attention looks at: one key and one value per head and position."""

    keys_BHSK: Tensor
    values_BHSK: Tensor

    def append(self, later: "KeysValues") -> "KeysValues":
        """The same with further positions behind, for decoding token by token."""
        return KeysValues(*(torch.cat(pair, dim=2) for pair in zip(self, later, strict=True)))

    def select(self, rows: Tensor) -> "KeysValues":
        """The same for other rows of the batch; `rows` holds one index for each row wanted."""
        return KeysValues(*(tensor.index_select(0, rows) for tensor in self))


class MultiHeadAttention(nn.Module):
    """Attention of queries over keys and values, in `heads` sub-spaces of width d_model / heads.

    Keys and values are made by a call of their own, so that decoding can keep them instead of making them again.
    """

    def __init__(self, *, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def keys_values(self, x_BSD: Tensor) -> KeysValues:
        """Keys and values of every position of `x_BSD`."""
        return KeysValues(self._split(self.key(x_BSD)), self._split(self.value(x_BSD)))

    def forward(
        self, x_BTD: Tensor, seen: KeysValues, *, mask_B1TS: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """What every position of `x_BTD` gathers from `seen`: (B, T, D).

        `mask_B1TS` may have size 1 where it is the same for all queries. With `causal`, query t sees keys 0 to t.
        A row that may look nowhere gathers zeros, never NaN.
        """
        q_BHTK = self._split(self.query(x_BTD))
        gathered_BHTK = F.scaled_dot_product_attention(
            q_BHTK,
            *seen,
            attn_mask=mask_B1TS,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
        )
        return self.output(gathered_BHTK.transpose(1, 2).flatten(2))

    def _split(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.unflatten(2, (self.heads, -1)).transpose(1, 2)
