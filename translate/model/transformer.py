"""The encoder-decoder transformer (Vaswani et al., 2017): token ids in, logits of the next token out.

Dimension letters in names: B sentences, K hypotheses of each, R = B x K rows, in which the hypotheses of a sentence
are consecutive, S source positions, T target positions, D model width, V target vocabulary, N real target positions of
a batch, without padding, M the same and rows of padding. Masks are boolean and True at real tokens.
"""

from typing import cast

import torch
from torch import Tensor, nn

from translate.model.attention import KeysValues
from translate.model.dropout import Dropout
from translate.model.layers import DecoderLayer, EncoderLayer
from translate.model.positions import LearnedPositions, NoPositions, SinusoidalPositions
from translate.model.projection import Projection
from translate.model.rows import PaddedRows, positions_of


class Embedding(nn.Module):
    """Token vectors, scaled by the square root of the width, plus the vectors of their positions; then `norm`."""

    def __init__(
        self,
        *,
        tokens: nn.Embedding,
        positions: SinusoidalPositions | LearnedPositions | NoPositions,
        norm: nn.Module,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.scale = tokens.embedding_dim**0.5

    def forward(self, ids_BT: Tensor, start: int = 0) -> Tensor:
        """Vectors (B, T, D) of tokens, the first of which is at position `start`."""
        places_TD = self.positions(start, start + ids_BT.shape[1])
        return self.dropout(self.norm(self.tokens(ids_BT) * self.scale + places_TD))


class DecoderState:
    """What decoding keeps between two steps, for B sentences with K hypotheses each; at first K is 1.

    For each hypothesis, the self-attention keys and values so far, in rows sentence by sentence; for each sentence,
    once for all its hypotheses, the cross-attention keys and values and the source mask.
    """

    def __init__(self, source: list[KeysValues], source_mask_B11S: Tensor) -> None:
        self.length = 0
        self.hypotheses = 1  # K
        self.past: list[KeysValues | None] = [None] * len(source)
        self.parents: Tensor | None = None  # the rows of `past` that the next step continues; None for all, in order
        self.source = source
        self.source_mask_B11S = source_mask_B11S

    def reorder(self, parents_BK: Tensor) -> None:
        """Let hypothesis k of sentence b continue what was hypothesis `parents_BK[b, k]` of that sentence."""
        sentences_B1 = torch.arange(len(parents_BK), device=parents_BK.device).unsqueeze(1)
        self._select((sentences_B1 * self.hypotheses + parents_BK).flatten())
        self.hypotheses = parents_BK.shape[1]

    def keep(self, sentences_B: Tensor) -> None:
        """Keep these sentences and forget the others."""
        places_K = torch.arange(self.hypotheses, device=sentences_B.device)
        self._select((sentences_B.unsqueeze(1) * self.hypotheses + places_K).flatten())
        self.source = [layer.select(sentences_B) for layer in self.source]
        self.source_mask_B11S = self.source_mask_B11S.index_select(0, sentences_B)

    def _select(self, rows: Tensor) -> None:
        """Continue only these rows, which the next step copies anyway, to append to them."""
        self.parents = rows if self.parents is None else self.parents[rows]


class SourceEncoder(nn.Module):
    """The encoder of a model.

    Each model registers these parts among its own, in its own order: that of the parameters is also the order of the
    optimizer's state in files of training states.
    """

    source_embedding: Embedding
    encoder: nn.ModuleList
    encoder_norm: nn.Module

    @property
    def max_length(self) -> int:
        """Maximum number of tokens in a source, including eos, and in a target, including bos or eos."""
        return self.source_embedding.positions.max_length

    def encode(self, source_BS: Tensor, source_mask_B11S: Tensor) -> Tensor:
        """The encoder's output for every source position: (B, S, D)."""
        x_BSD = self.source_embedding(source_BS)
        for layer in self.encoder:
            x_BSD = layer(x_BSD, source_mask_B11S)
        return self.encoder_norm(x_BSD)


class Transformer(SourceEncoder):
    """Encoder, decoder and the projection to the target vocabulary."""

    def __init__(
        self,
        *,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: list[EncoderLayer],
        encoder_norm: nn.Module,
        decoder: list[DecoderLayer],
        decoder_norm: nn.Module,
        projection: Projection,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = nn.ModuleList(encoder)
        self.encoder_norm = encoder_norm
        self.decoder = nn.ModuleList(decoder)
        self.decoder_norm = decoder_norm
        self.as_rows = PaddedRows()
        self.projection = projection

    @property
    def _decoder_layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.decoder))

    def forward(
        self,
        source_BS: Tensor,
        source_mask_BS: Tensor,
        target_BT: Tensor,
        target_mask_BT: Tensor | None,
        padding_rows: bool = False,
    ) -> Tensor:
        """Teacher forcing: the logits of the token after each real target position, (N, V), row by row.

        Target padding follows the real tokens, so no real position attends to it. Without a target mask, there are
        logits after padding, too. With `padding_rows`, logits of the rows that `PaddedRows` adds may follow: to slice
        them off costs time and memory.
        """
        source_mask_B11S = source_mask_BS[:, None, None, :]
        memory_BSD = self.encode(source_BS, source_mask_B11S)
        x_BTD = self.target_embedding(target_BT)
        for layer in self._decoder_layers:
            x_BTD, _ = layer(x_BTD, None, layer.cross_attention.keys_values(memory_BSD), source_mask_B11S)
        x_ND = x_BTD.flatten(0, 1) if target_mask_BT is None else x_BTD[target_mask_BT]
        logits_MV = self.projection(self.as_rows(self.decoder_norm(x_ND)))
        return logits_MV if padding_rows else positions_of(logits_MV, [len(x_ND)])

    def start(self, source_BS: Tensor, source_mask_BS: Tensor) -> DecoderState:
        """Read the sources and get ready to decode their translations token by token."""
        source_mask_B11S = source_mask_BS[:, None, None, :]
        memory_BSD = self.encode(source_BS, source_mask_B11S)
        keys_values = [layer.cross_attention.keys_values(memory_BSD) for layer in self._decoder_layers]
        return DecoderState(keys_values, source_mask_B11S)

    def step(self, last_BK: Tensor, state: DecoderState) -> Tensor:
        """Log-probabilities (B, K, V) of what follows `last_BK`, the newest token of each; advances `state`.

        Not differentiable after `reorder` or `keep`.
        """
        x_R1D = self.target_embedding(last_BK.reshape(-1, 1), start=state.length)
        for i, layer in enumerate(self._decoder_layers):
            x_R1D, state.past[i] = layer(x_R1D, state.past[i], state.source[i], state.source_mask_B11S, state.parents)
        state.length += 1
        state.parents = None
        logits_RV = self.projection(self.decoder_norm(x_R1D.squeeze(1)))
        return logits_RV.float().log_softmax(-1).unflatten(0, last_BK.shape)
