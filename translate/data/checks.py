"""What looks wrong with encoded text: lines longer than a model reads, or was trained on, and unknown tokens."""

import logging

import numpy as np

from translate.data.corpus import TextPair
from translate.data.dataset import SIDES, Dataset
from translate.text.vocabulary import UNK

log = logging.getLogger("translate")

MAX_UNKNOWN = 0.1  # There is a warning of a larger share of unknown tokens.


def warn_of_long_lines(valid: Dataset, text: TextPair, max_tokens: int) -> None:
    """Warn of validation sources of more than `max_tokens`, which training drops.

    To translate one token by token may take longer than all others, above all by a model that has learned little yet.
    """
    which = f"longer than any trained on (data.filter.max_tokens is {max_tokens})"
    _warn_of_longer(valid, text, max_tokens, which, "; each validation may take much longer because of them")


def warn_of_truncated_sources(valid: Dataset, text: TextPair, max_tokens: int) -> None:
    """Warn of validation sources of more than `max_tokens`: only so much of them is translated, and then scored."""
    which = f"of which validations read only the first decoding.max_source ({max_tokens}) tokens"
    _warn_of_longer(valid, text, max_tokens, which)


def _warn_of_longer(valid: Dataset, text: TextPair, max_tokens: int, which: str, consequence: str = "") -> None:
    lengths = valid.source.lengths
    if (long := np.flatnonzero(lengths > max_tokens)).size:
        place, length = text.place(int(long[0])), lengths[long[0]]
        number = f"{long.size}, the first in {place}, of {length} tokens"
        log.warning("%s: %s %s: %s%s", text.name, text.unit, which, number, consequence)


def log_unknown_share(dataset: Dataset, text: TextPair) -> None:
    """Log which share of a text the vocabularies lack; accuracy and perplexity count it like any word."""
    shares = [float((side.ids == UNK).sum()) / max(1, len(side.ids)) for side in (dataset.source, dataset.target)]
    if max(shares) > 0:
        tell = log.warning if max(shares) > MAX_UNKNOWN else log.info
        of_each = [
            f"{share:.1%} of the {side} tokens" if share >= 0.001 else f"less than 0.1% of the {side} tokens"
            for share, side in zip(shares, SIDES, strict=True)
            if share > 0
        ]
        tell("%s: %s are out of vocabulary", text.name, " and ".join(of_each))
