"""Models that this project is compared with: PyTorch's own, and those of toolkits that are installed.

They know nothing of this project: loops.py trains them, and translators.py gives them weights.

Dimension letters in names: B sentences, S source positions, T target positions, D width, V target vocabulary.
"""

import importlib
import math
import sys
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

UNK, PAD, BOS, EOS = range(4)  # In this project, and in JoeyNMT.


class Sizes(Protocol):
    """What a model is made for: dimensions, by the names that they have in a config, and sizes of the vocabularies."""

    @property
    def model(self) -> SimpleNamespace: ...

    @property
    def source_words(self) -> int: ...

    @property
    def target_words(self) -> int: ...


class PlainTransformer(nn.Module):
    """torch.nn.Transformer with embeddings, learned positions and a projection, as tutorials put them together."""

    def __init__(self, job: Sizes) -> None:
        super().__init__()
        sizes = job.model
        self.source = nn.Embedding(job.source_words, sizes.d_model)
        self.target = nn.Embedding(job.target_words, sizes.d_model)
        self.source_positions = nn.Embedding(sizes.max_positions, sizes.d_model)
        self.target_positions = nn.Embedding(sizes.max_positions, sizes.d_model)
        self.dropout = nn.Dropout(sizes.dropout)
        self.transformer = nn.Transformer(
            sizes.d_model,
            sizes.heads,
            sizes.encoder_layers,
            sizes.decoder_layers,
            sizes.ffn,
            sizes.dropout,
            batch_first=True,
        )
        self.projection = nn.Linear(sizes.d_model, job.target_words)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        ahead_TT = nn.Transformer.generate_square_subsequent_mask(target_BT.shape[1], target_BT.device).isinf()
        out_BTD = self.transformer(
            self.embed_source(source_BS),
            self.embed_target(target_BT),
            tgt_mask=ahead_TT,
            src_key_padding_mask=source_BS == PAD,
            tgt_key_padding_mask=target_BT == PAD,
            memory_key_padding_mask=source_BS == PAD,
        )
        logits_BTV: Tensor = self.projection(out_BTD)
        return logits_BTV

    def embed_source(self, source_BS: Tensor) -> Tensor:
        return self._embed(self.source, self.source_positions, source_BS)

    def embed_target(self, target_BT: Tensor) -> Tensor:
        return self._embed(self.target, self.target_positions, target_BT)

    def _embed(self, tokens: nn.Embedding, positions: nn.Embedding, ids_BT: Tensor) -> Tensor:
        places_T = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        embedded: Tensor = self.dropout(tokens(ids_BT) * math.sqrt(tokens.embedding_dim) + positions(places_T))
        return embedded


def marian_model(job: Sizes) -> nn.Module:
    """The toolkit's model, with fresh weights."""
    transformers = importlib.import_module("transformers")
    sizes = job.model
    config = transformers.MarianConfig(
        vocab_size=job.source_words,
        decoder_vocab_size=job.target_words,
        share_encoder_decoder_embeddings=False,
        tie_word_embeddings=False,
        d_model=sizes.d_model,
        encoder_layers=sizes.encoder_layers,
        decoder_layers=sizes.decoder_layers,
        encoder_attention_heads=sizes.heads,
        decoder_attention_heads=sizes.heads,
        encoder_ffn_dim=sizes.ffn,
        decoder_ffn_dim=sizes.ffn,
        activation_function="relu",
        dropout=sizes.dropout,
        attention_dropout=sizes.dropout,
        activation_dropout=sizes.dropout,
        max_position_embeddings=sizes.max_positions,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=BOS,
    )
    model: nn.Module = transformers.MarianMTModel(config)
    return model


def joey_model(job: Sizes) -> Any:
    """The toolkit's model, with fresh weights."""
    models, vocabularies = (importlib.import_module(f"joeynmt.{name}") for name in ("model", "vocabulary"))
    special = SimpleNamespace(
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        sep_token=None,
        unk_id=UNK,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        lang_tags=[],
    )
    sizes = job.model

    def stack(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": sizes.heads,
            "embeddings": {"embedding_dim": sizes.d_model, "scale": True, "dropout": sizes.dropout},
            "hidden_size": sizes.d_model,
            "ff_size": sizes.ffn,
            "dropout": sizes.dropout,
            "layer_norm": sizes.norm,
        }

    return models.build_model(
        {"encoder": stack(sizes.encoder_layers), "decoder": stack(sizes.decoder_layers)},
        *(
            vocabularies.Vocabulary([f"w{number}" for number in range(EOS + 1, words)], special)
            for words in (job.source_words, job.target_words)
        ),
    )


def joey_batch(source_BS: Tensor, framed_BT: Tensor | None) -> Any:
    """A batch as the toolkit's own: source with EOS, and target between BOS and EOS, or none."""
    return importlib.import_module("joeynmt.batch").Batch(
        src=source_BS,
        src_length=(source_BS != PAD).sum(1),
        src_prompt_mask=None,
        trg=framed_BT,
        trg_prompt_mask=None,
        indices=torch.arange(len(source_BS), device=source_BS.device),
        device=source_BS.device,
        pad_index=PAD,
        eos_index=EOS,
    )


if __name__ == "__main__":
    sys.exit("benchmarks/peer_models.py is no program: loops.py and translators.py import it")
