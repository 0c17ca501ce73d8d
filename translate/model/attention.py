"""Scaled dot-product attention with several heads (Vaswani et al., 2017, section 3.2).

Dimension letters in names: B sentences, T queries, S keys, D model width, H heads, K width of a query or key in one
head, V width of a value in one head, X either of these two; M rows of a matrix product: B · T positions, padded (see
`PaddedRows`); I the width of all heads together.
Masks are boolean and True where a query may attend.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from translate.model.dropout import Dropout
from translate.model.positions import RotaryEmbedding
from translate.model.rows import PaddedRows, positions_of

# Added to the scores of masked positions, so that they get no weight. With minus infinity, the weights of a query whose
# positions are all masked would be NaN.
MASKED = -1e9

VECTOR = 16  # numbers of float32 in a vector of 512 bits
MAX_KEPT = 256**2  # weights of a head for one sentence


class KeysValues(NamedTuple):
    """What queries attend to: one key and one value per head and position."""

    keys_BHSK: Tensor
    values_BHSV: Tensor

    @property
    def length(self) -> int:
        """The number of positions."""
        return self.keys_BHSK.shape[2]

    def append(self, later: "KeysValues", parents: Tensor | None = None) -> "KeysValues":
        """The same with further positions appended, for decoding token by token.

        `parents` (int64) says which row each row of `later` continues; by default, the one in its place.
        """
        if parents is None:
            return KeysValues(
                torch.cat([self.keys_BHSK, later.keys_BHSK], dim=2),
                torch.cat([self.values_BHSV, later.values_BHSV], dim=2),
            )
        return KeysValues(
            _select_and_append(self.keys_BHSK, parents, later.keys_BHSK),
            _select_and_append(self.values_BHSV, parents, later.values_BHSV),
        )

    def select(self, rows: Tensor) -> "KeysValues":
        """The same for other rows of the batch; `rows` holds one index for each row wanted."""
        return KeysValues(self.keys_BHSK.index_select(0, rows), self.values_BHSV.index_select(0, rows))


def _select_and_append(earlier_BHSX: Tensor, parents: Tensor, later_BHTX: Tensor) -> Tensor:
    """Rows of one tensor followed by another, written at once. Not differentiable."""
    length = earlier_BHSX.shape[2]
    batch, heads, more, width = later_BHTX.shape
    both = earlier_BHSX.new_empty(batch, heads, length + more, width)
    torch.index_select(earlier_BHSX, 0, parents, out=both[:, :, :length])
    both[:, :, length:] = later_BHTX
    return both


class MultiHeadAttention(nn.Module):
    """Attention of queries over keys and values, in several heads.

    Keys and values are made by a separate call, so that decoding can keep them instead of making them again.

    Args:
        d_qk, d_v: width of queries and keys, and of values, in each head; by default d_model / heads ("narrow" heads,
            which together are as wide as the model). "Wide" heads have d_model each.
        qkv_bias: whether queries, keys and values have a bias; the output projection always has one.
        qk_norm: whether a layer norm without a bias follows the projections to queries and to keys in each head, so
            that no score can grow with the weights of these projections (Dehghani et al., 2023; the idea is from
            Henry et al., 2020, with a different norm).
        rotary: whether queries and keys are rotated by their positions, after that norm.
    """

    def __init__(
        self,
        *,
        d_model: int,
        heads: int,
        dropout: float,
        d_qk: int | None = None,
        d_v: int | None = None,
        qkv_bias: bool = True,
        qk_norm: bool = False,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = Dropout(dropout)
        self.explicit = True  # whether training on CPUs uses `_attend` in place of PyTorch's operator
        self.as_rows = PaddedRows()
        d_qk, d_v = d_qk or d_model // heads, d_v or d_model // heads
        self.has_fused_kernel = d_qk == d_v and not dropout  # on CPUs
        self.query = nn.Linear(d_model, heads * d_qk, bias=qkv_bias)
        self.key = nn.Linear(d_model, heads * d_qk, bias=qkv_bias)
        self.value = nn.Linear(d_model, heads * d_v, bias=qkv_bias)
        self.output = nn.Linear(heads * d_v, d_model)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)
        self.query_norm = nn.LayerNorm(d_qk, bias=False) if qk_norm else nn.Identity()
        self.key_norm = nn.LayerNorm(d_qk, bias=False) if qk_norm else nn.Identity()
        self.rotation = RotaryEmbedding(d_qk) if rotary else None

    def keys_values(self, x_BSD: Tensor, *, start: int = 0) -> KeysValues:
        """Keys and values of every position of `x_BSD`, whose first position is `start`."""
        x_MD = self.as_rows(x_BSD)
        keys_BHSK = self._split(self.key(x_MD), x_BSD.shape[:2])
        values_BHSV = self._split(self.value(x_MD), x_BSD.shape[:2])
        return KeysValues(self._placed(keys_BHSK, self.key_norm, start), values_BHSV)

    def forward(
        self, x_BTD: Tensor, kv: KeysValues, *, mask_B1TS: Tensor | None = None, causal: bool = False, start: int = 0
    ) -> Tensor:
        """Attention of every position of `x_BTD`, whose first position is `start`, to the positions of `kv`: (B, T, D).

        `kv` and the mask may have fewer rows than x: then each of their rows serves the same number of consecutive
        rows of x (the hypotheses of a beam). `mask_B1TS` is True where a query may attend to a key; T may be 1 if it is
        the same for all queries. With `causal`, which excludes a mask, query t attends to keys 0 to t. If all keys of a
        query are masked, its heads give zeros, not NaN.
        """
        # PyTorch's operator takes numbers, too, and adds them to the scores.
        assert mask_B1TS is None or (mask_B1TS.dtype is torch.bool and not causal), "a mask of bool, or causal"
        q_BHTK = self._queries(x_BTD, kv, start)
        if self.explicit and self.training and x_BTD.device.type == "cpu":
            attended_BHTV = self._attend(q_BHTK, *kv, mask_B1TS=mask_B1TS, causal=causal)
        else:
            attended_BHTV = F.scaled_dot_product_attention(
                q_BHTK,
                *kv,
                attn_mask=mask_B1TS,
                dropout_p=self.dropout.p if self.training else 0.0,
                is_causal=causal,
            )
        attended_BTI = attended_BHTV.transpose(1, 2).reshape(*x_BTD.shape[:2], -1)
        return positions_of(self.output(self.as_rows(attended_BTI)), x_BTD.shape[:2])

    @property
    def max_kept_weights(self) -> float:
        """If a head has more weights for one sentence, training does not keep them for the backward pass."""
        if self.query.weight.device.type != "cpu":
            return 0
        if not self.has_fused_kernel:
            return math.inf
        return MAX_KEPT if self.explicit else 0

    def weights(
        self, x_BTD: Tensor, kv: KeysValues, *, mask_B1TS: Tensor | None = None, causal: bool = False, start: int = 0
    ) -> Tensor:
        """The attention weights of every position of `x_BTD` on the positions of `kv`, in each head: (B, H, T, S).

        For inspection: `forward`, which takes the same arguments, mostly does not compute weights. Here, `kv` must have
        as many rows as x, and a query whose keys are all masked has equal weights (in float32).
        """
        return self._weights(self._queries(x_BTD, kv, start), kv.keys_BHSK, mask_B1TS=mask_B1TS, causal=causal)

    def _queries(self, x_BTD: Tensor, kv: KeysValues, start: int) -> Tensor:
        q_BHTK = self._split(self.query(self.as_rows(x_BTD)), x_BTD.shape[:2])
        q_BHTK = self._placed(q_BHTK, self.query_norm, start)
        sentences = len(kv.keys_BHSK)
        if len(q_BHTK) == sentences:
            return q_BHTK
        # In beam search, several hypotheses attend to one source. Their queries are put one after the other, as if they
        # were those of one row, so that its keys need not be repeated.
        return q_BHTK.unflatten(0, (sentences, -1)).transpose(1, 2).flatten(2, 3)

    def _attend(
        self, q_BHTK: Tensor, k_BHSK: Tensor, v_BHSV: Tensor, *, mask_B1TS: Tensor | None, causal: bool
    ) -> Tensor:
        """What `scaled_dot_product_attention` does, for training on CPUs: for short sentences, operation by operation.

        PyTorch's kernels are made for GPUs and long sequences: in bfloat16, the fused one made whole updates take 1.4
        to 3.6 times as long. With long sentences, however, weights would take most of the memory, and more time than
        the fused kernel, which keeps none.

        This computes in float32: in bfloat16, oneDNN would write machine code for almost every batch (see rows.py),
        because hardly two have as many sentences, queries and keys.
        """
        dtype = v_BHSV.dtype
        with torch.autocast("cpu", enabled=False):
            q_BHTK, k_BHSK, v_BHSV = (_at_least_float32(tensor) for tensor in (q_BHTK, k_BHSK, v_BHSV))
            if q_BHTK.shape[2] * k_BHSK.shape[2] > self.max_kept_weights:
                attended_BHTV = F.scaled_dot_product_attention(
                    q_BHTK, k_BHSK, v_BHSV, attn_mask=mask_B1TS, is_causal=causal
                )
                return attended_BHTV.to(dtype)
            weights_BHTS = self._weights(q_BHTK, k_BHSK, mask_B1TS=mask_B1TS, causal=causal)
            attended_BHTV = self.dropout(weights_BHTS) @ v_BHSV
        if mask_B1TS is not None and not (attends_B1T1 := mask_B1TS.any(-1, keepdim=True)).all():
            attended_BHTV = attended_BHTV * attends_B1T1
        return attended_BHTV.to(dtype)

    def _weights(self, q_BHTK: Tensor, k_BHSK: Tensor, *, mask_B1TS: Tensor | None, causal: bool) -> Tensor:
        scores_BHTS = _at_least_float32(q_BHTK @ k_BHSK.transpose(2, 3))
        scores_BHTS *= q_BHTK.shape[-1] ** -0.5
        if causal:
            masked_TS = torch.full(scores_BHTS.shape[2:], MASKED, dtype=scores_BHTS.dtype, device=scores_BHTS.device)
            scores_BHTS += masked_TS.triu_(1)
        if mask_B1TS is not None:
            scores_BHTS += torch.where(mask_B1TS, 0.0, MASKED).to(scores_BHTS.dtype)
        return _softmax(scores_BHTS)

    def _placed(self, x_BHTK: Tensor, norm: nn.Module, start: int) -> Tensor:
        """Queries or keys, the first of which is at position `start`, after `norm` and rotation: at least in float32.

        If there is neither, they are returned as they are.
        """
        if isinstance(norm, nn.Identity) and self.rotation is None:
            return x_BHTK
        # Both compute in float32, and faster where each head's numbers lie together, as those that are converted do. On
        # CPUs, attention needs such a copy anyway.
        x_BHTK = norm(_at_least_float32(x_BHTK))
        return x_BHTK if self.rotation is None else self.rotation(x_BHTK, start)

    def _split(self, x_MI: Tensor, sizes: Sequence[int]) -> Tensor:
        """Heads that lie side by side in one vector (I = H x K or H x V wide), apart: (B, H, T, K) or (B, H, T, V)."""
        return positions_of(x_MI, sizes).unflatten(2, (self.heads, -1)).transpose(1, 2)


def _at_least_float32(x: Tensor) -> Tensor:
    # What is converted becomes contiguous, too, because batches of matrix products make a copy of what is not. What is
    # float32 already stays as it is: to copy it here instead of there gains nothing.
    return x.to(torch.promote_types(x.dtype, torch.float32), memory_format=torch.contiguous_format)


def _softmax(scores_BHTS: Tensor) -> Tensor:
    """The weights: exponentials divided by their sum, over the last dimension."""
    # PyTorch's softmax on CPUs computes many scores at once, but rows of fewer than a vector one by one.
    length = scores_BHTS.shape[-1]
    if length < VECTOR:
        scores_BHTS = F.pad(scores_BHTS, (0, VECTOR - length), value=-math.inf)
    return scores_BHTS.softmax(-1)[..., :length]
