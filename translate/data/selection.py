"""Which pairs of a text are trained on, and how often in an epoch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from translate.config.data import LabelledFilterConfig, ParallelFilterConfig
from translate.data.corpus import TextPair
from translate.data.dataset import Dataset
from translate.errors import DataError

NOTABLE_SHARE = 0.1  # of all tokens: the report says so if a few long lines that are dropped have as many


def select_pairs(dataset: Dataset, config: ParallelFilterConfig, text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
    """The indices of the pairs to train on, and one line of the report for each reason to drop others.

    Raises:
        DataError: no pair is left.
    """
    longer = np.maximum(dataset.source.lengths, dataset.target.lengths)
    shorter = np.minimum(dataset.source.lengths, dataset.target.lengths)
    reasons = [("an empty side", shorter == 0)]
    if config.untranslated:
        wordless = (not (_has_word(s) and _has_word(t)) for s, t in zip(text.source, text.target, strict=True))
        reason = "no letter or digit on one side (data.filter.untranslated)"
        reasons.append((reason, np.fromiter(wordless, bool, len(dataset))))
    if config.identical:
        identical = (source == target for source, target in zip(text.source, text.target, strict=True))
        reason = "the same text on both sides (data.filter.identical)"
        reasons.append((reason, np.fromiter(identical, bool, len(dataset))))
    if config.repeated:
        reasons.append(("repeats another one (data.filter.repeated)", _repeated(text)))
    reasons.append(
        (f"over {config.max_tokens} tokens on one side (data.filter.max_tokens)", longer > config.max_tokens)
    )
    if config.max_ratio is not None:
        reason = f"one side over {config.max_ratio:g} times the other (data.filter.max_ratio)"
        # Divided, not multiplied: 63 / 45 is 1.4, but 1.4 * 45 is slightly less than 63. Empty sides are dropped above.
        reasons.append((reason, longer / np.maximum(shorter, 1) > config.max_ratio))
    return _drop(reasons, text, longer + shorter)


def select_texts(dataset: Dataset, config: LabelledFilterConfig, text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
    """The same for labelled text."""
    lengths = dataset.source.lengths
    too_long = f"over {config.max_tokens} tokens (data.filter.max_tokens)"
    reasons = [("empty", lengths == 0), (too_long, lengths > config.max_tokens)]
    return _drop(reasons, text, lengths)


def _drop(
    reasons: Sequence[tuple[str, NDArray[np.bool_]]], text: TextPair, tokens: NDArray[np.integer]
) -> tuple[NDArray[np.int32], list[str]]:
    kept = np.ones(len(text.source), dtype=bool)
    report = []
    for reason, applies in reasons:
        dropped = np.flatnonzero(kept & applies)
        kept[dropped] = False
        if dropped.size:
            share = tokens[dropped].sum(dtype=np.int64) / max(1, tokens.sum(dtype=np.int64))
            few = 2 * dropped.size <= share * len(kept)
            much = f"; {share:.0%} of all tokens" if few and share >= NOTABLE_SHARE else ""
            report.append(f"dropped {text.counted(dropped.size)}: {reason}, first {text.place(dropped[0])}{much}")
    if not kept.any():
        # The first reason, an empty side, is no setting.
        remedy = "check the text" if reasons[0][1].all() else "change data.filter"
        raise DataError(f"{text.name}: nothing is left to train on ({'; '.join(report)}); {remedy}")
    return np.flatnonzero(kept).astype(np.int32), report  # half the memory of int64


def _repeated(text: TextPair) -> NDArray[np.bool_]:
    """Which pairs to drop so that each is kept once: where its weight is greatest, or else where it occurs first.

    Numbers of 8 bytes stand for them, because there may be millions.
    """
    hashes = np.fromiter(map(hash, zip(text.source, text.target, strict=True)), np.int64, len(text.source))
    repeated = np.ones(len(hashes), dtype=bool)
    heaviest_first = np.arange(len(hashes))
    if text.parts:
        weights = np.repeat([part.weight for part in text.parts], [part.pairs for part in text.parts])
        heaviest_first = np.argsort(-weights, kind="stable")
    _, firsts = np.unique(hashes[heaviest_first], return_index=True)
    repeated[heaviest_first[firsts]] = False
    return repeated


def _has_word(line: str) -> bool:
    return line[:1].isalnum() or any(map(str.isalnum, line))  # The first character settles it for most lines.


def upsample_pairs(pairs: NDArray[np.int32], text: TextPair) -> NDArray[np.int32]:
    """The indices of the pairs to train on, each as often as the weight of its corpus says (upsampling)."""
    if not text.parts:
        return pairs
    ends = np.cumsum([part.pairs for part in text.parts])
    weights = np.array([part.weight for part in text.parts])
    return np.repeat(pairs, weights[np.searchsorted(ends, pairs, side="right")])
