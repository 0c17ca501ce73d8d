"""Which pairs of a text are trained on, and how often in an epoch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from translate.config.schema import FilterConfig, LabelledFilterConfig
from translate.data.corpus import TextPair
from translate.data.dataset import Dataset
from translate.errors import DataError

WORDLESS = "no letter or digit on one side"


def select_pairs(dataset: Dataset, config: FilterConfig, text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
    """The indices of the pairs to train on, and one line of the report for each reason to drop others.

    Raises:
        DataError: no pair is left.
    """
    longer = np.maximum(dataset.source.lengths, dataset.target.lengths)
    shorter = np.minimum(dataset.source.lengths, dataset.target.lengths)
    reasons = [("an empty side", shorter == 0)]
    if config.untranslated:
        wordless = (not (_has_word(s) and _has_word(t)) for s, t in zip(text.source, text.target, strict=True))
        reasons.append((WORDLESS, np.fromiter(wordless, bool, len(dataset))))
    reasons.append((f"more than {config.max_tokens} tokens on one side", longer > config.max_tokens))
    if config.max_ratio is not None:
        reasons.append((f"one side over {config.max_ratio:g} times the other", longer > config.max_ratio * shorter))
    return _drop(reasons, text)


def select_texts(dataset: Dataset, config: LabelledFilterConfig, text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
    """The same for labelled text."""
    lengths = dataset.source.lengths
    reasons = [("empty", lengths == 0), (f"more than {config.max_tokens} tokens", lengths > config.max_tokens)]
    return _drop(reasons, text)


def _drop(reasons: Sequence[tuple[str, NDArray[np.bool_]]], text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
    kept = np.ones(len(text.source), dtype=bool)
    report = []
    for reason, applies in reasons:
        dropped = np.flatnonzero(kept & applies)
        kept[dropped] = False
        if dropped.size:
            report.append(f"dropped {text.counted(dropped.size)}: {reason} (first: {text.place(dropped[0])})")
    if not kept.any():
        hint = ", where `untranslated: false` keeps text without letters" if WORDLESS in " ".join(report) else ""
        raise DataError(f"{text.name}: nothing is left to train on ({'; '.join(report)}); see data.filter{hint}")
    return np.flatnonzero(kept).astype(np.int32), report  # half the memory of int64


def _has_word(line: str) -> bool:
    return line[:1].isalnum() or any(map(str.isalnum, line))  # The first character settles it for most lines.


def repeat_pairs(pairs: NDArray[np.int32], text: TextPair) -> NDArray[np.int32]:
    """The indices of the pairs to train on, each as often as the weight of its corpus says."""
    if not text.parts:
        return pairs
    ends = np.cumsum([part.pairs for part in text.parts])
    weights = np.array([part.weight for part in text.parts])
    return np.repeat(pairs, weights[np.searchsorted(ends, pairs, side="right")])
