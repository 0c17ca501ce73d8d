"""From settings to a model: the one place that knows both the schema and the layers."""

from collections.abc import Callable

from torch import nn

from translate.config.model import ClassifierConfig, EncoderConfig, TransformerConfig
from translate.model.attention import MultiHeadAttention
from translate.model.classifier import Classifier
from translate.model.layers import DecoderLayer, EncoderLayer, FeedForward, PostNorm, PreNorm, Residual
from translate.model.positions import LearnedPositions, NoPositions, SinusoidalPositions
from translate.model.projection import Projection
from translate.model.transformer import Embedding, Transformer
from translate.text.vocabulary import EOS, PAD, SPECIALS

Model = Transformer | Classifier

NORMS: dict[str, type[PreNorm] | type[PostNorm]] = {"pre": PreNorm, "post": PostNorm}
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU}
POSITIONS: dict[str, type[SinusoidalPositions] | type[LearnedPositions] | type[NoPositions]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": NoPositions,
}


def build_model(config: TransformerConfig | ClassifierConfig, *, source_size: int, target_size: int) -> Model:
    """A model with fresh weights for vocabularies of the given sizes."""
    if isinstance(config, ClassifierConfig):
        return build_classifier(config, source_size=source_size, labels=target_size - len(SPECIALS))
    return build_transformer(config, source_size=source_size, target_size=target_size)


def build_transformer(config: TransformerConfig, *, source_size: int, target_size: int) -> Transformer:
    """A transformer with fresh weights for vocabularies of the given sizes."""
    source_tokens = token_embedding(source_size, config)
    target_tokens = source_tokens if config.tie == "all" else token_embedding(target_size, config)
    projection = Projection(config.d_model, target_size)
    nn.init.zeros_(projection.bias)
    if config.tie == "none":
        nn.init.xavier_uniform_(projection.weight)
    else:
        projection.weight = target_tokens.weight
    return Transformer(
        source_embedding=embedding(source_tokens, config),
        target_embedding=embedding(target_tokens, config),
        encoder=[encoder_layer(config) for _ in range(config.encoder_layers)],
        encoder_norm=final_norm(config),
        decoder=[decoder_layer(config) for _ in range(config.decoder_layers)],
        decoder_norm=final_norm(config),
        projection=projection,
    )


def build_classifier(config: ClassifierConfig, *, source_size: int, labels: int) -> Classifier:
    """A classifier with fresh weights for a source vocabulary of the given size and this number of labels."""
    projection = nn.Linear(config.d_model, labels)
    nn.init.xavier_uniform_(projection.weight)
    nn.init.zeros_(projection.bias)
    return Classifier(
        source_embedding=embedding(token_embedding(source_size, config), config),
        encoder=[encoder_layer(config) for _ in range(config.encoder_layers)],
        encoder_norm=final_norm(config),
        projection=projection,
        specials=len(SPECIALS),
        eos=EOS,
    )


def token_embedding(size: int, config: EncoderConfig) -> nn.Embedding:
    """Fresh token vectors; the one for padding is zero."""
    tokens = nn.Embedding(size, config.d_model, padding_idx=PAD)
    if config.embedding_init == "xavier":
        nn.init.xavier_uniform_(tokens.weight)
    else:
        # Of length about 1, so that after scaling by the square root of the width they weigh as much as positions.
        nn.init.normal_(tokens.weight, std=config.d_model**-0.5)
    nn.init.zeros_(tokens.weight.data[PAD])
    return tokens


def embedding(tokens: nn.Embedding, config: EncoderConfig) -> Embedding:
    """`tokens` with fresh positions."""
    positions = POSITIONS[config.positions](d_model=config.d_model, max_positions=config.max_positions)
    if config.embedding_init == "xavier":
        for weight in positions.parameters():
            nn.init.xavier_uniform_(weight)
    eps = config.embedding_norm_eps
    norm = nn.Identity() if eps is None else nn.LayerNorm(config.d_model, eps=eps)
    return Embedding(tokens=tokens, positions=positions, norm=norm, dropout=config.dropout)


def encoder_layer(config: EncoderConfig) -> EncoderLayer:
    """One block of the encoder."""
    return EncoderLayer(
        self_attention=attention(config),
        self_residual=residual(config),
        feed_forward=feed_forward(config),
        feed_residual=residual(config),
    )


def decoder_layer(config: TransformerConfig) -> DecoderLayer:
    """One block of the decoder."""
    return DecoderLayer(
        self_attention=attention(config),
        self_residual=residual(config),
        cross_attention=attention(config),
        cross_residual=residual(config),
        feed_forward=feed_forward(config),
        feed_residual=residual(config),
    )


def attention(config: EncoderConfig) -> MultiHeadAttention:
    """One attention sub-layer."""
    return MultiHeadAttention(
        d_model=config.d_model,
        heads=config.heads,
        dropout=config.attention_dropout,
        d_qk=config.d_qk,
        d_v=config.d_v,
        qkv_bias=config.qkv_bias,
        qk_norm=config.qk_norm,
        rotary=config.positions == "rotary",
    )


def feed_forward(config: EncoderConfig) -> FeedForward:
    """One feed-forward sub-layer."""
    activation = ACTIVATIONS[config.activation]()
    return FeedForward(d_model=config.d_model, hidden=config.ffn, activation=activation, dropout=config.ffn_dropout)


def residual(config: EncoderConfig) -> Residual:
    """The norm and residual connection around a sub-layer."""
    return NORMS[config.norm](d_model=config.d_model, dropout=config.dropout)


def final_norm(config: EncoderConfig) -> nn.Module:
    """What follows the last block: pre-norm needs a norm there, post-norm already has one."""
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
