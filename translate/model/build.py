"""From settings to a transformer: the one place that knows both the schema and the layers."""

from collections.abc import Callable

from torch import nn

from translate.config.schema import ModelConfig
from translate.model.attention import MultiHeadAttention
from translate.model.layers import DecoderLayer, EncoderLayer, FeedForward, PostNorm, PreNorm, Residual
from translate.model.positions import LearnedPositions, SinusoidalPositions
from translate.model.transformer import Embedding, Transformer

NORMS: dict[str, type[PreNorm] | type[PostNorm]] = {"pre": PreNorm, "post": PostNorm}
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}
POSITIONS: dict[str, type[SinusoidalPositions] | type[LearnedPositions]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
}


def build_transformer(config: ModelConfig, *, source_size: int, target_size: int, pad: int) -> Transformer:
    """A transformer with fresh weights for vocabularies of the given sizes; `pad` is the id of padding in both."""
    source_tokens = token_embedding(source_size, config, pad)
    target_tokens = source_tokens if config.tie == "all" else token_embedding(target_size, config, pad)
    projection = nn.Linear(config.d_model, target_size)
    nn.init.zeros_(projection.bias)
    if config.tie == "none":
        nn.init.xavier_uniform_(projection.weight)
    else:
        projection.weight = target_tokens.weight

    def embedding(tokens: nn.Embedding) -> Embedding:
        positions = POSITIONS[config.positions](d_model=config.d_model, max_positions=config.max_positions)
        if config.embedding_init == "xavier":
            for weight in positions.parameters():
                nn.init.xavier_uniform_(weight)
        eps = config.embedding_norm_eps
        norm = nn.Identity() if eps is None else nn.LayerNorm(config.d_model, eps=eps)
        return Embedding(tokens=tokens, positions=positions, norm=norm, dropout=config.dropout)

    def attention() -> MultiHeadAttention:
        return MultiHeadAttention(
            d_model=config.d_model,
            heads=config.heads,
            dropout=config.attention_dropout,
            d_qk=config.d_qk,
            d_v=config.d_v,
            qkv_bias=config.qkv_bias,
        )

    def feed_forward() -> FeedForward:
        activation = ACTIVATIONS[config.activation]()
        return FeedForward(d_model=config.d_model, hidden=config.ffn, activation=activation, dropout=config.ffn_dropout)

    def residual() -> Residual:
        return NORMS[config.norm](d_model=config.d_model, dropout=config.dropout)

    def final_norm() -> nn.Module:
        return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()

    def encoder_layer() -> EncoderLayer:
        return EncoderLayer(
            self_attention=attention(),
            self_residual=residual(),
            feed_forward=feed_forward(),
            feed_residual=residual(),
        )

    def decoder_layer() -> DecoderLayer:
        return DecoderLayer(
            self_attention=attention(),
            self_residual=residual(),
            cross_attention=attention(),
            cross_residual=residual(),
            feed_forward=feed_forward(),
            feed_residual=residual(),
        )

    return Transformer(
        source_embedding=embedding(source_tokens),
        target_embedding=embedding(target_tokens),
        encoder=[encoder_layer() for _ in range(config.encoder_layers)],
        encoder_norm=final_norm(),
        decoder=[decoder_layer() for _ in range(config.decoder_layers)],
        decoder_norm=final_norm(),
        projection=projection,
    )


def token_embedding(size: int, config: ModelConfig, pad: int) -> nn.Embedding:
    """Fresh token vectors; that of padding is zero."""
    tokens = nn.Embedding(size, config.d_model, padding_idx=pad)
    if config.embedding_init == "xavier":
        nn.init.xavier_uniform_(tokens.weight)
    else:
        # Of length about 1, so that scaled by the square root of the width they weigh like positions.
        nn.init.normal_(tokens.weight, std=config.d_model**-0.5)
    nn.init.zeros_(tokens.weight.data[pad])
    return tokens
