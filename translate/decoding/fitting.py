"""Searching, and scoring given translations, in batches that fit into memory, whatever the settings ask for."""

import logging
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch

from translate.allocation import is_out_of_memory, release_memory
from translate.config.decoding import DecodingConfig
from translate.errors import DataError

# A GPU is only busy with large batches (see docs/performance.md).
CPU_TOKENS, GPU_TOKENS = 4096, 16384

T = TypeVar("T")
log = logging.getLogger("translate")


class FittingBatches:
    """Remembers what fits: once memory has run out, batches stay small."""

    def __init__(self) -> None:
        self._most_tokens = sys.maxsize

    def __call__(self, work: Callable[[int], T], tokens: int, lengths: Iterable[int], longest: int) -> T:
        """What `work` returns when it is given a batch size: `tokens`, or as little as memory allows.

        Args:
            lengths: tokens of each sentence, without eos; no more than `longest` are read.

        Raises:
            DataError: memory runs out with a single sentence.
        """
        # With batches of this size, each sentence is in a batch of its own: smaller ones would not help.
        alone = 1 + min([longest, *filter(None, lengths)])
        before = self._most_tokens
        while True:
            tokens = min(self._most_tokens, tokens)
            try:
                return work(tokens)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if tokens <= alone:
                    self._most_tokens = before  # What did not help this sentence would only slow down the next ones.
                    raise DataError(
                        "out of memory with a single sentence; shorten it, free some memory, or narrow the beam, if any"
                    ) from error
            release_memory()
            self._most_tokens = tokens // 2
            log.warning("out of memory: from now on batches have at most %d tokens", self._most_tokens)


def batch_tokens(settings: DecodingConfig, device: torch.device) -> int:
    """The batch size that is set, or else one that suits the device."""
    return settings.batch_tokens or (CPU_TOKENS if device.type == "cpu" else GPU_TOKENS)


def with_batch_tokens(settings: DecodingConfig, tokens: int) -> DecodingConfig:
    """The same settings with another batch size."""
    return settings.model_copy(update={"batch_tokens": tokens})
