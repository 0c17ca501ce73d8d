"""Lines to ids, as arrays, in several processes if the text is long."""

from collections.abc import Generator
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import DTypeLike

from translate.data.dataset import Gathered
from translate.data.lines import Text
from translate.system.pool import CHUNK, chunks, mapped
from translate.text.codec import Codec


def encoded_chunks(codec: Codec, lines: Text) -> Generator[Gathered, None, None]:
    """The ids of all lines, some thousands of lines at a time, in their order.

    Raises:
        ConfigError: the tokenizer's library is missing.
        DataError: the text cannot be read or tokenized, or one of the processes was killed.
    """
    return mapped(partial(_encode, codec), chunks(lines, CHUNK), f"encoding {len(lines)} lines")


def id_type(codec: Codec) -> DTypeLike:
    """The smaller of the two types of ids on disk that holds the vocabulary."""
    return np.uint16 if len(codec.vocabulary) <= 2**16 else np.int32


def _encode(codec: Codec, lines: list[str]) -> Gathered:
    ids = codec.encode(lines)
    return np.fromiter(chain.from_iterable(ids), id_type(codec)), np.fromiter(map(len, ids), np.int64, len(lines))
