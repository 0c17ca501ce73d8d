"""The settings of `model`."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from translate.config.section import MIN_EPSILON, Conflict, Depth, Fraction, Section, Size, Width


class EncoderConfig(Section):
    """The embedding and the encoder, with the settings that they share with a decoder."""

    kind: str
    d_model: Width = Field(
        256, description="Width of the model (hidden size): length of the vector of each token between the blocks."
    )
    ffn: Size = Field(1024, description="Width of the hidden layer in the feed-forward sub-layers.")
    encoder_layers: Depth = Field(3, description="Number of layers (blocks) of the encoder.")
    heads: Size = Field(
        8, description="Number of attention heads. Must divide d_model unless both d_qk and d_v are given."
    )
    d_qk: Width | None = Field(None, description="Width of queries and keys in each head. Default: d_model / heads.")
    d_v: Width | None = Field(None, description="Width of values in each head. Default: d_model / heads.")
    qkv_bias: bool = Field(
        True,
        description="Whether the projections to queries, keys and values have a bias. The output projection always has "
        "one.",
    )
    qk_norm: bool = Field(
        False, description="Apply a layer norm to queries and keys in each head, which allows a higher learning rate."
    )
    dropout: Fraction = Field(0.1, description="Dropout on the embeddings and on the output of every sub-layer.")
    attention_dropout: Fraction = Field(
        0.0,
        description="Dropout on the attention weights. On a CPU, those of long lines take memory only if some are "
        "dropped.",
    )
    ffn_dropout: Fraction = Field(0.0, description="Dropout inside the feed-forward sub-layer, after the activation.")
    norm: Literal["pre", "post"] = Field(
        "pre", description="pre: layer norm before each sub-layer. post: layer norm after its residual sum."
    )
    activation: Literal["relu", "gelu"] = Field(
        "relu", description="Activation in the feed-forward sub-layers. gelu: Hendrycks and Gimpel (2016)."
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal",
        description="How positions are encoded. sinusoidal, learned: a vector, fixed or learned, is added to each "
        "embedding. rotary: queries and keys are rotated by angles that grow with their positions (Su et al., 2021), "
        "in cross-attention, too.",
    )
    max_positions: Size = Field(
        512,
        description="Longest sentence for learned positions, in tokens, including the end token. The other kinds have "
        "no limit.",
    )
    embedding_norm_eps: float | None = Field(
        None,
        ge=MIN_EPSILON,
        description="Apply a layer norm with this epsilon to the embeddings. Default: no norm.",
    )
    embedding_init: Literal["normal", "xavier"] = Field(
        "normal",
        description="Initial values of embeddings and of learned positions. normal: drawn so that embeddings are about "
        "as large as position encodings. xavier: Xavier's uniform distribution, as for all other matrices; embeddings "
        "start smaller, and change faster.",
    )

    def conflicts(self) -> Iterator[Conflict]:
        uneven = self.d_model % self.heads != 0
        if uneven and None in (self.d_qk, self.d_v):
            divisors = [n for n in range(1, min(64, self.d_model) + 1) if self.d_model % n == 0]
            yield Conflict(
                f"heads: {self.heads} does not divide d_model: {self.d_model}; possible: {divisors}, or any "
                "with d_qk and d_v set",
                ("heads", "d_model"),
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            yield Conflict(f"sinusoidal positions need an even d_model, not {self.d_model}", ("d_model", "positions"))
        d_qk = self.d_qk or (0 if uneven else self.d_model // self.heads)
        if self.positions == "rotary" and d_qk % 2:
            yield Conflict(
                f"rotary positions need an even d_qk (by default d_model / heads), not {d_qk}", ("d_qk", "positions")
            )


class TransformerConfig(EncoderConfig):
    """The encoder-decoder transformer."""

    kind: Literal["transformer"] = Field("transformer", description="Encoder and decoder; translates.")
    decoder_layers: Depth = Field(3, description="Number of layers (blocks) of the decoder.")
    tie: Literal["none", "target", "all"] = Field(
        "target",
        description="Which weights are shared. target: the target embedding is the output projection. all: the source "
        "embedding, too, which needs a joint vocabulary.",
    )


class ClassifierConfig(EncoderConfig):
    """The encoder alone, with the mean over its output and a linear layer; finds the label of a text."""

    kind: Literal["classifier"] = Field("classifier", description="Encoder, mean and a linear layer; labels text.")
