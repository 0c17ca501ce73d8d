"""A batch size that adapts to memory: searching and scoring in batches that fit, whatever the settings ask for."""

import logging
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from translate.config.decoding import DecodingConfig
from translate.decoding.ensemble import Ensemble
from translate.decoding.limits import max_source_length
from translate.errors import DataError
from translate.model.build import Model
from translate.system.allocation import is_out_of_memory, release_memory

T = TypeVar("T")
log = logging.getLogger("translate")

# A GPU is only busy with large batches (see docs/performance.md).
CPU_TOKENS, GPU_TOKENS = 4096, 16384


def batch_tokens(model: Model | Ensemble, config: DecodingConfig) -> int:
    """The batch size that is set, or else one that suits the device of the model."""
    on_cpu = next(model.parameters()).device.type == "cpu"
    return config.batch_tokens or (CPU_TOKENS if on_cpu else GPU_TOKENS)


class AdaptiveBatchSize:
    """Remembers what fits: once memory has run out, batches stay small."""

    def __init__(self) -> None:
        self._max_tokens = sys.maxsize

    def run(self, work: Callable[[int], T], tokens: int, lengths: Iterable[int], max_length: int) -> T:
        """What `work` returns for a batch size: `tokens` or, whenever memory runs out, half as many as before.

        Args:
            lengths: tokens of each sentence, without eos; no more than `max_length` are read.

        Raises:
            DataError: memory runs out with a single sentence.
        """
        # With batches of this size, each sentence is in a batch of its own: smaller ones would not help.
        alone = 1 + min([max_length, *filter(None, lengths)])
        before = self._max_tokens
        while True:
            tokens = min(self._max_tokens, tokens)
            try:
                return work(tokens)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if tokens <= alone:
                    self._max_tokens = before  # What did not help this sentence would only slow down the next ones.
                    raise DataError(
                        "out of memory with a single sentence; shorten it, free some memory, or narrow the beam, if any"
                    ) from error
            release_memory()
            self._max_tokens = tokens // 2
            log.warning("out of memory: from now on batches have at most %d tokens", self._max_tokens)

    def run_with_settings(
        self,
        work: Callable[[DecodingConfig], T],
        settings: DecodingConfig,
        model: Model | Ensemble,
        lengths: Iterable[int],
    ) -> T:
        """The same for `work` that is given `settings`, in which the batch size is."""
        return self.run(
            lambda tokens: work(settings.model_copy(update={"batch_tokens": tokens})),
            batch_tokens(model, settings),
            lengths,
            max_source_length(model, settings),
        )
