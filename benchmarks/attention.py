"""Draws where a model looks while it translates a sentence: the attention of every block and head.

    python benchmarks/attention.py MODEL "SENTENCE" --output PICTURE.png [--part cross|encoder|decoder]

By default, this is the decoder's attention to the source: each row is a token of the translation, the end included; the
darker a cell, the more weight its source token has. The other parts are self-attention, of the source to itself, and of
what has been written to what was written before. Needs matplotlib: pip install -e '.[dev]'. If DejaVu Sans lacks the
script, as for Chinese, name a font that has it in the environment variable FONT.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import matplotlib as mpl
import numpy as np
import torch
from torch import Tensor

from translate import Translator
from translate.data.batching import pad_rows
from translate.decoding.limits import max_source_length
from translate.decoding.search import search
from translate.errors import TranslateError
from translate.model.transformer import Transformer
from translate.text.vocabulary import BOS, EOS

mpl.use("Agg")
mpl.rcParams["font.family"] = [name for name in (os.environ.get("FONT"), "DejaVu Sans") if name]
mpl.rcParams["text.parse_math"] = False  # What stands between two dollar signs is text, too.
from matplotlib import pyplot as plt

ROWS = {"cross": "token about to be written", "encoder": "source token", "decoder": "token just read"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("sentence", metavar="SENTENCE")
    parser.add_argument("--output", type=Path, required=True, metavar="PICTURE")
    parser.add_argument("--part", choices=ROWS, default="cross")
    args = parser.parse_args()
    try:
        translator = Translator.load(args.model, device="cpu")
    except TranslateError as error:
        parser.error(str(error))
    model = translator.model
    if not isinstance(model, Transformer):
        parser.error(f"{args.model} predicts labels; only the attention of models that translate is drawn")
    [source] = translator.saved.source.encode([args.sentence])
    if not source:
        parser.error("the sentence is empty")
    source = source[: max_source_length(model, translator.config.decoding)]
    [[best]] = search(model, [source], translator.config.decoding)
    said = [*best.tokens, *([EOS] if best.finished else [])]
    weights = attention(model, args.part, source, said)

    sources = translator.saved.source.vocabulary.strings([*source, EOS])
    written = translator.saved.target.vocabulary.strings([BOS, *said])
    # What the decoder has read is one token behind what it is about to write.
    rows = {"cross": written[1:], "encoder": sources, "decoder": written[:-1]}[args.part]
    columns = rows if args.part == "decoder" else sources
    blocks, heads = len(weights), len(weights[0])
    width, height = 1 + 0.2 * len(columns), 1 + 0.2 * len(rows)
    figure, axes = plt.subplots(
        blocks, heads, figsize=(width * heads, height * blocks), layout="constrained", squeeze=False
    )
    for block, weights_HTS in enumerate(weights):
        for head, axis in enumerate(axes[block]):
            axis.imshow(weights_HTS[head].numpy(), cmap="Blues", vmin=0, vmax=1)
            axis.set_xticks(range(len(columns)), columns, rotation=90)
            axis.set_yticks(range(len(rows)), rows)
            axis.tick_params(length=0)
            axis.set_title(f"block {block + 1}, head {head + 1}")
    figure.supxlabel("token read so far" if args.part == "decoder" else "source token")
    figure.supylabel(ROWS[args.part])
    try:
        figure.savefig(args.output, dpi=100, metadata={"Software": None})
    except (OSError, ValueError) as error:  # the latter for an unknown kind of picture
        parser.error(f"{args.output} cannot be written: {error}")


@torch.inference_mode()
def attention(model: Transformer, part: str, source: Sequence[int], target: Sequence[int]) -> list[Tensor]:
    """The weights of each block while `target` (T) is written from `source` and its end (S).

    (H, T, S) for the part "cross", (H, S, S) for "encoder" and (H, T, T) for "decoder".
    """
    found: list[Tensor] = []

    def look(module: Any, inputs: tuple[Any, ...], named: dict[str, Any], _: Tensor) -> None:
        found.append(module.weights(*inputs, **named)[0])

    blocks: list[Any] = list(model.encoder if part == "encoder" else model.decoder)
    modules = [block.cross_attention if part == "cross" else block.self_attention for block in blocks]
    hooks = [module.register_forward_hook(look, with_kwargs=True) for module in modules]
    model(*pad_rows([np.array([*source, EOS])]), *pad_rows([np.array([BOS, *target[:-1]])]))
    for hook in hooks:
        hook.remove()
    return found


if __name__ == "__main__":
    main()
