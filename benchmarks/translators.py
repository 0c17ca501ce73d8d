"""Programs that translate with weights of this project, which it is compared with by benchmarks/translation.py.

    python benchmarks/translators.py JOB.json NAME

is one of them in a process of its own: each line of standard input asks for one pass over the lines, and is answered by
a line of JSON. It needs PyTorch and its toolkit, and knows nothing of this project: toolkits may live in another
environment.

Dimension letters in names: B sentences, S source positions, T target positions, D width, V target vocabulary.
"""

import argparse
import importlib
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from peer_models import BOS, EOS, PAD, UNK, PlainTransformer, joey_batch, joey_model, marian_model
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from turns import Pass, serve

Lines = list[list[int]]
Weights = dict[str, Tensor]

WARM_UP = 16  # lines of the first pass
PART = 8  # The plain loop translates one line out of so many.
LENGTH_PENALTY = 1.0


@dataclass(frozen=True)
class SearchJob:
    """What all of them translate, and how.

    Args:
        settings: the section `model` of this project's config.
        weights: a file of them, by their names in this project, for torch.load.
        source_words, target_words: sizes of the vocabularies.
        source: ids of each line, without EOS.
        max_tokens: tokens that a translation has at most, including EOS.
        beam: hypotheses of each line; 1 is greedy search.
        batch: lines that are translated at a time.
    """

    settings: dict[str, Any]
    weights: str
    source_words: int
    target_words: int
    source: Lines
    max_tokens: int
    beam: int
    batch: int
    threads: int

    @classmethod
    def read(cls, path: Path) -> "SearchJob":
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def model(self) -> SimpleNamespace:
        """The dimensions, by the names that they have in a config."""
        return SimpleNamespace(**self.settings)

    def own_weights(self) -> Weights:
        weights: Weights = torch.load(self.weights, weights_only=True)
        return weights


def passes(source: Lines, translate: Callable[[Lines], Lines], part: int = 1) -> Iterator[Pass]:
    """One pass after the other; the first is over few lines. Translations are without EOS."""
    lines = source[:WARM_UP]
    while True:
        started = time.perf_counter()
        found = translate(lines[::part])
        yield {"seconds": time.perf_counter() - started, "translations": found, "part": part}
        lines = source


def in_batches(job: SearchJob, lines: Lines, translate: Callable[[Tensor], Lines]) -> Lines:
    """All translations, by a function of padded batches (B, S) with EOS, each of sentences of similar length."""
    found: Lines = [[] for _ in lines]
    order = sorted(range(len(lines)), key=lambda row: -len(lines[row]))
    for start in range(0, len(order), job.batch):
        rows = order[start : start + job.batch]
        source_BS = pad_sequence([torch.tensor([*lines[row], EOS]) for row in rows], True, PAD)
        for row, ids in zip(rows, translate(source_BS), strict=True):
            found[row] = up_to_the_end(ids)
    return found


def up_to_the_end(ids: list[int]) -> list[int]:
    """The ids before EOS, or all of a translation without one, but no padding."""
    return ids[: ids.index(EOS)] if EOS in ids else [each for each in ids if each != PAD]


Names = Sequence[tuple[str, str | Callable[[re.Match[str]], str]]]


def renamed(weights: Weights, names: Names) -> Weights:
    """`weights` by the names that they have elsewhere; in these, each pattern is replaced in turn."""
    found = {}
    for name, weight in weights.items():
        for pattern, replacement in names:
            name = re.sub(pattern, replacement, name)
        found[name] = weight
    return found


# --- PyTorch ---------------------------------------------------------------------------------------------------------

OF_PYTORCH = (
    (r"^(source|target)_embedding\.tokens", r"\1"),
    (r"^(source|target)_embedding\.positions\.weight_TD", r"\1_positions.weight"),
    (r"^(en|de)coder", r"transformer.\1coder.layers"),
    (r"self_attention\.output", "self_attn.out_proj"),
    (r"cross_attention\.output", "multihead_attn.out_proj"),
    (r"self_residual\.norm", "norm1"),
    (r"cross_residual\.norm", "norm2"),
    (r"(encoder\..+)feed_residual\.norm", r"\1norm2"),
    (r"(decoder\..+)feed_residual\.norm", r"\1norm3"),
    (r"self_attention", "self_attn"),
    (r"cross_attention", "multihead_attn"),
    (r"feed_forward\.expand", "linear1"),
    (r"feed_forward\.contract", "linear2"),
)


def plain_model(job: SearchJob) -> PlainTransformer:
    """The module of the plain training loop."""
    weights = job.own_weights()
    for name in [name for name in weights if ".query." in name]:
        parts = [name.replace("query", part) for part in ("query", "key", "value")]
        weights[name.replace("query.", "in_proj_")] = torch.cat([weights.pop(part) for part in parts])
    model = PlainTransformer(job)
    model.transformer.encoder.norm = model.transformer.decoder.norm = None  # After post-norm, none is needed.
    model.load_state_dict(renamed(weights, OF_PYTORCH))
    return model.eval()


def plain(job: SearchJob) -> Iterator[Pass]:
    """What a tutorial writes: greedy search, one line at a time, with the whole translation read anew for each word."""
    if job.beam > 1:
        raise ImportError("it has greedy search only")
    model = plain_model(job)

    @torch.inference_mode()
    def translated(line: list[int]) -> list[int]:
        memory_BSD = model.transformer.encoder(model.embed_source(torch.tensor([[*line, EOS]])))
        ids = [BOS]
        while ids[-1] != EOS and len(ids) <= job.max_tokens:
            ahead_TT = nn.Transformer.generate_square_subsequent_mask(len(ids)).isinf()
            out_BTD = model.transformer.decoder(model.embed_target(torch.tensor([ids])), memory_BSD, ahead_TT)
            logits_V = model.projection(out_BTD[0, -1])
            logits_V[[UNK, PAD, BOS]] = -torch.inf
            ids.append(int(logits_V.argmax()))
        return up_to_the_end(ids[1:])

    yield from passes(job.source, lambda lines: [translated(line) for line in lines], PART)


# --- toolkits --------------------------------------------------------------------------------------------------------

OF_MARIAN = (
    (r"^(en|de)coder", r"model.\1coder.layers"),
    (r"self_attention", "self_attn"),
    (r"cross_attention", "encoder_attn"),
    (r"(query|key|value)\.", lambda found: f"{found[1][0]}_proj."),
    (r"\.output\.", ".out_proj."),
    (r"self_residual\.norm", "self_attn_layer_norm"),
    (r"cross_residual\.norm", "encoder_attn_layer_norm"),
    (r"feed_residual\.norm", "final_layer_norm"),
    (r"feed_forward\.expand", "fc1"),
    (r"feed_forward\.contract", "fc2"),
    (r"^source_embedding\.", "model.encoder.embed_"),
    (r"^target_embedding\.", "model.decoder.embed_"),
    (r"weight_TD", "weight"),
    (r"^projection\.weight", "lm_head.weight"),
    (r"^projection\.bias", "final_logits_bias"),
)


def marian(job: SearchJob) -> Iterator[Pass]:
    """`generate` of Hugging Face's transformers, for its MarianMTModel."""
    weights = job.own_weights()
    weights["projection.bias"] = weights["projection.bias"].unsqueeze(0)
    model: Any = marian_model(job)
    model.load_state_dict(renamed(weights, OF_MARIAN))
    model.eval()
    how: dict[str, Any] = {"length_penalty": LENGTH_PENALTY} if job.beam > 1 else {}

    @torch.inference_mode()
    def translated(source_BS: Tensor) -> Lines:
        found_BT = model.generate(
            input_ids=source_BS,
            attention_mask=(source_BS != PAD).long(),
            num_beams=job.beam,
            do_sample=False,
            max_new_tokens=job.max_tokens,
            suppress_tokens=[UNK, PAD, BOS],
            forced_eos_token_id=None,
            **how,
        )
        lines: Lines = found_BT[:, 1:].tolist()  # without BOS
        return lines

    yield from passes(job.source, lambda lines: in_batches(job, lines, translated))


OF_JOEY = (
    (r"^source_embedding\.tokens", "src_embed.lut"),
    (r"^target_embedding\.tokens", "trg_embed.lut"),
    (r"^source_embedding\.positions\.weight_TD", "encoder.pe.pe"),
    (r"^target_embedding\.positions\.weight_TD", "decoder.pe.pe"),
    (r"^(en|de)coder\.(\d)", r"\1coder.layers.\2"),
    (r"(encoder\..+)self_attention", r"\1src_src_att"),
    (r"(decoder\..+)self_attention", r"\1trg_trg_att"),
    (r"cross_attention", "src_trg_att"),
    (r"(query|key|value)\.", lambda found: f"{found[1][0]}_layer."),
    (r"\.output\.", ".output_layer."),
    (r"(encoder\..+)self_residual\.norm", r"\1layer_norm"),
    (r"(decoder\..+)self_residual\.norm", r"\1x_layer_norm"),
    (r"cross_residual\.norm", "dec_layer_norm"),
    (r"feed_residual\.norm", "feed_forward.layer_norm"),
    (r"feed_forward\.expand", "feed_forward.pwff_layer.0"),
    (r"feed_forward\.contract", "feed_forward.pwff_layer.3"),
    (r"^projection", "decoder.output_layer"),
)


def joey(job: SearchJob) -> Iterator[Pass]:
    """JoeyNMT's search, which reads the whole translation anew for each word."""
    find = importlib.import_module("joeynmt.search").search
    weights = renamed(job.own_weights(), OF_JOEY)
    model = joey_model(job)
    # What its own models do not have: a bias after the last layer, and learned positions.
    model.decoder.output_layer = nn.Linear(job.model.d_model, job.target_words)
    for stack, name in ((model.encoder, "encoder.pe.pe"), (model.decoder, "decoder.pe.pe")):
        stack.pe.pe = weights[name] = weights[name].unsqueeze(0)
    model.load_state_dict(weights)
    model.eval()
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5

    def translated(source_BS: Tensor) -> Lines:
        found, _, _ = find(
            model,
            joey_batch(source_BS, None),
            max_output_length=job.max_tokens,
            beam_size=job.beam,
            beam_alpha=LENGTH_PENALTY,
            generate_unk=False,
            min_output_length=0,
        )
        lines: Lines = found.tolist()
        return lines

    yield from passes(job.source, lambda lines: in_batches(job, lines, translated))


def ctranslate(job: SearchJob) -> Iterator[Pass]:
    """CTranslate2: an engine in C++ that translates with models which others have trained."""
    toolkit = importlib.import_module("ctranslate2")
    common, transformer = (
        importlib.import_module(f"ctranslate2.specs.{name}_spec") for name in ("common", "transformer")
    )
    sizes, weights = job.model, job.own_weights()
    spec = transformer.TransformerSpec.from_config(
        (sizes.encoder_layers, sizes.decoder_layers), sizes.heads, pre_norm=False, activation=common.Activation.RELU
    )

    def linear(place: Any, *names: str) -> None:
        """One linear layer, or several packed into one."""
        place.weight = torch.cat([weights[f"{name}.weight"] for name in names]).numpy()
        place.bias = torch.cat([weights[f"{name}.bias"] for name in names]).numpy()

    def norm(place: Any, name: str) -> None:
        place.gamma, place.beta = weights[f"{name}.weight"].numpy(), weights[f"{name}.bias"].numpy()

    for side, name, embeddings in (
        (spec.encoder, "source", spec.encoder.embeddings[0]),
        (spec.decoder, "target", spec.decoder.embeddings),
    ):
        side.scale_embeddings = True
        embeddings.weight = weights[f"{name}_embedding.tokens.weight"].numpy()
        side.position_encodings.encodings = weights[f"{name}_embedding.positions.weight_TD"].numpy()
    for side, stack in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        for number, layer in enumerate(side.layer):
            block = f"{stack}.{number}"
            query, key, value, output = (
                f"{block}.self_attention.{part}" for part in ("query", "key", "value", "output")
            )
            linear(layer.self_attention.linear[0], query, key, value)
            linear(layer.self_attention.linear[1], output)
            norm(layer.self_attention.layer_norm, f"{block}.self_residual.norm")
            if stack == "decoder":
                query, key, value, output = (
                    f"{block}.cross_attention.{part}" for part in ("query", "key", "value", "output")
                )
                linear(layer.attention.linear[0], query)
                linear(layer.attention.linear[1], key, value)
                linear(layer.attention.linear[2], output)
                norm(layer.attention.layer_norm, f"{block}.cross_residual.norm")
            linear(layer.ffn.linear_0, f"{block}.feed_forward.expand")
            linear(layer.ffn.linear_1, f"{block}.feed_forward.contract")
            norm(layer.ffn.layer_norm, f"{block}.feed_residual.norm")
    linear(spec.decoder.projection, "projection")
    special = ["<unk>", "<blank>", "<s>", "</s>"]
    source_words, target_words = (
        special + [str(number) for number in range(len(special), words)]
        for words in (job.source_words, job.target_words)
    )
    spec.register_source_vocabulary(source_words)
    spec.register_target_vocabulary(target_words)
    spec.validate()
    spec.optimize()
    number_of = {word: number for number, word in enumerate(target_words)}

    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = toolkit.Translator(folder, compute_type="float32", inter_threads=1, intra_threads=job.threads)

    def translated(lines: Lines) -> Lines:
        found = translator.translate_batch(
            [[source_words[number] for number in (*line, EOS)] for line in lines],
            max_batch_size=job.batch,
            beam_size=job.beam,
            length_penalty=LENGTH_PENALTY,
            max_decoding_length=job.max_tokens,
            disable_unk=True,
            suppress_sequences=[[special[PAD]], [special[BOS]]],
        )
        return [[number_of[word] for word in each.hypotheses[0]] for each in found]

    yield from passes(job.source, translated)


TRANSLATORS: dict[str, Callable[[SearchJob], Iterator[Pass]]] = {
    "plain": plain,
    "marian": marian,
    "joey": joey,
    "ctranslate": ctranslate,
}


def main() -> None:
    """Serve one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path, metavar="JOB.json")
    parser.add_argument("name", choices=TRANSLATORS, metavar="NAME", help=f"one of {', '.join(TRANSLATORS)}")
    args = parser.parse_args()
    try:
        job = SearchJob.read(args.job)
    except (OSError, ValueError, TypeError) as error:
        parser.error(f"{args.job} is not a job that translation.py has written: {error}")
    torch.set_num_threads(job.threads)
    serve(TRANSLATORS[args.name](job), "cpu")


if __name__ == "__main__":
    main()
