"""Classification of texts by self-attention: the encoder, the mean over its output, a linear layer.

A label is a translation of one token. So this answers step by step, as the transformer does: first with the label, then
with the end.

Dimension letters in names: B texts, K hypotheses of each, S source positions, T target positions, D model width,
L labels, V target vocabulary: the specials and then the labels. Masks are boolean and True at real tokens.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from translate.model.layers import EncoderLayer
from translate.model.transformer import Embedding, SourceEncoder


class LabelState:
    """What is known of B texts: the log-probabilities of their labels, and whether these have been answered."""

    def __init__(self, log_probs_BV: Tensor) -> None:
        self.length = 0
        self.log_probs_BV = log_probs_BV

    def reorder(self, parents_BK: Tensor) -> None:
        """Nothing to do: all hypotheses of a text share one state."""

    def keep(self, sentences_B: Tensor) -> None:
        """Keep these texts and forget the others."""
        self.log_probs_BV = self.log_probs_BV.index_select(0, sentences_B)


class Classifier(SourceEncoder):
    """Encoder, mean over the real tokens, and the projection to the labels.

    Args:
        specials: how many ids of the target vocabulary come before the first label, and are never answered.
        eos: the one of them that ends a target.
    """

    def __init__(
        self,
        *,
        source_embedding: Embedding,
        encoder: list[EncoderLayer],
        encoder_norm: nn.Module,
        projection: nn.Linear,
        specials: int,
        eos: int,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.encoder = nn.ModuleList(encoder)
        self.encoder_norm = encoder_norm
        self.projection = projection
        self.specials = specials
        self.eos = eos

    def forward(
        self,
        source_BS: Tensor,
        source_mask_BS: Tensor,
        target_BT: Tensor,
        target_mask_BT: Tensor | None,
        padding_rows: bool = False,
    ) -> Tensor:
        """The logits of the labels of each text, (B, L). The target is ignored: it is the label itself.

        `padding_rows` is ignored, too, because labels are few.
        """
        return self._logits(source_BS, source_mask_BS)

    def start(self, source_BS: Tensor, source_mask_BS: Tensor) -> LabelState:
        """Read the texts, and find the probabilities of their labels."""
        log_probs_BL = self._logits(source_BS, source_mask_BS).float().log_softmax(-1)
        return LabelState(F.pad(log_probs_BL, (self.specials, 0), value=-torch.inf))

    def step(self, last_BK: Tensor, state: LabelState) -> Tensor:
        """Log-probabilities (B, K, V) of what follows `last_BK`: a label, and after it the end; advances `state`."""
        state.length += 1
        if state.length == 1:
            log_probs_BV = state.log_probs_BV
        else:
            log_probs_BV = torch.full_like(state.log_probs_BV, -torch.inf)
            log_probs_BV[:, self.eos] = 0.0
        # A copy, because search overwrites what it gets.
        return log_probs_BV.unsqueeze(1).repeat(1, last_BK.shape[1], 1)

    def _logits(self, source_BS: Tensor, source_mask_BS: Tensor) -> Tensor:
        x_BSD = self.encode(source_BS, source_mask_BS[:, None, None, :])
        real_BS1 = source_mask_BS.unsqueeze(2)
        # A text without any token has the mean 0, not NaN.
        mean_BD = (x_BSD * real_BS1).sum(1) / real_BS1.sum(1).clamp(min=1)
        return self.projection(mean_BD)
