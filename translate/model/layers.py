"""The layers (blocks) of encoder and decoder, put together from attention, feed-forward and residual connections.

Dimension letters in names: B sentences, S source positions, T target positions, D model width, F hidden width of a
feed-forward sub-layer, M rows of a matrix product: B · T positions, padded (see `PaddedRows`).
"""

from torch import Tensor, nn

from translate.model.attention import KeysValues, MultiHeadAttention
from translate.model.dropout import Dropout
from translate.model.rows import PaddedRows, positions_of


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, for each position by itself."""

    def __init__(self, *, d_model: int, hidden: int, activation: nn.Module, dropout: float) -> None:
        super().__init__()
        self.as_rows = PaddedRows()
        self.expand = nn.Linear(d_model, hidden)
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.contract = nn.Linear(hidden, d_model)
        for projection in (self.expand, self.contract):
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden_MF = self.dropout(self.activation(self.expand(self.as_rows(x_BTD))))
        return positions_of(self.contract(hidden_MF), x_BTD.shape[:-1])


class PreNorm(nn.Module):
    """x + sublayer(norm(x)): trains without a careful warm-up (Xiong et al., 2020). Needs a norm at the end."""

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def before(self, x_BTD: Tensor) -> Tensor:
        """The input of the sub-layer."""
        return self.norm(x_BTD)

    def after(self, x_BTD: Tensor, change_BTD: Tensor) -> Tensor:
        """`x_BTD` with the sub-layer's result added."""
        return x_BTD + self.dropout(change_BTD)


class PostNorm(nn.Module):
    """norm(x + sublayer(x)): the residual connection of the original transformer (Vaswani et al., 2017)."""

    def __init__(self, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def before(self, x_BTD: Tensor) -> Tensor:
        """The input of the sub-layer."""
        return x_BTD

    def after(self, x_BTD: Tensor, change_BTD: Tensor) -> Tensor:
        """The norm of `x_BTD` with the sub-layer's result added."""
        return self.norm(x_BTD + self.dropout(change_BTD))


Residual = PreNorm | PostNorm


class EncoderLayer(nn.Module):
    """Self-attention over the source, then feed-forward, each inside its residual connection."""

    def __init__(
        self,
        *,
        self_attention: MultiHeadAttention,
        self_residual: Residual,
        feed_forward: FeedForward,
        feed_residual: Residual,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_residual = self_residual
        self.feed_forward = feed_forward
        self.feed_residual = feed_residual

    def forward(self, x_BSD: Tensor, source_mask_B11S: Tensor) -> Tensor:
        y_BSD = self.self_residual.before(x_BSD)
        kv = self.self_attention.keys_values(y_BSD)
        x_BSD = self.self_residual.after(x_BSD, self.self_attention(y_BSD, kv, mask_B1TS=source_mask_B11S))

        y_BSD = self.feed_residual.before(x_BSD)
        return self.feed_residual.after(x_BSD, self.feed_forward(y_BSD))


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention over the source, then feed-forward."""

    def __init__(
        self,
        *,
        self_attention: MultiHeadAttention,
        self_residual: Residual,
        cross_attention: MultiHeadAttention,
        cross_residual: Residual,
        feed_forward: FeedForward,
        feed_residual: Residual,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.self_residual = self_residual
        self.cross_attention = cross_attention
        self.cross_residual = cross_residual
        self.feed_forward = feed_forward
        self.feed_residual = feed_residual

    def forward(
        self,
        x_BTD: Tensor,
        past: KeysValues | None,
        source: KeysValues,
        source_mask_B11S: Tensor,
        parents: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """The block's output for the positions of `x_BTD`, and the self-attention keys and values up to there.

        Without `past`, x holds a target prefix from its start, and each position attends to itself and those before
        it. With `past`, x holds just the next position, which attends to all of the past and itself; `parents` is as in
        `KeysValues.append`. `source` may have fewer rows than x: then each serves the same number of consecutive rows
        of x (the hypotheses of a beam).
        """
        y_BTD = self.self_residual.before(x_BTD)
        start = 0 if past is None else past.length
        present = self.self_attention.keys_values(y_BTD, start=start)
        if past is not None:
            present = past.append(present, parents)
        found_BTD = self.self_attention(y_BTD, present, causal=past is None, start=start)
        x_BTD = self.self_residual.after(x_BTD, found_BTD)

        y_BTD = self.cross_residual.before(x_BTD)
        # Rotary positions apply here, too: a target word easily finds source words about as far from the start.
        found_BTD = self.cross_attention(y_BTD, source, mask_B1TS=source_mask_B11S, start=start)
        x_BTD = self.cross_residual.after(x_BTD, found_BTD)

        y_BTD = self.feed_residual.before(x_BTD)
        return self.feed_residual.after(x_BTD, self.feed_forward(y_BTD)), present


Block = EncoderLayer | DecoderLayer


def blocks_of(model: nn.Module) -> list[Block]:
    """The blocks of a model's encoder, then those of its decoder."""
    return [module for module in model.modules() if isinstance(module, Block)]
