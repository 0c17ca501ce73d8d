"""Lines to ids, in one process and in several."""

import numpy as np
import pytest

from translate.config.text import TextConfig
from translate.data import encoding
from translate.data.encoding import encoded_chunks
from translate.errors import ConfigError
from translate.system import pool
from translate.text.build import build_codecs
from translate.text.codec import Codec
from translate.text.vocabulary import Vocabulary
from translate.text.words import WordTokenizer

CODEC = Codec(WordTokenizer("en"), Vocabulary(("a", "b")))
LINES = ["a", "b a", "", "b", "a a"]
IDS = [[4], [5, 4], [], [5], [4, 4]]


def encoded(codec: Codec, lines: list[str]) -> list[list[int]]:
    """The ids of each line, from the chunks."""
    found = []
    for ids, lengths in encoded_chunks(codec, lines):
        found += [line.tolist() for line in np.split(ids, np.cumsum(lengths))[:-1]]
    return found


@pytest.mark.parametrize(("words", "dtype"), [(2**16 - 4, np.uint16), (2**16 - 3, np.int32)])
def test_ids_take_the_smallest_type(words: int, dtype: type) -> None:
    codec = Codec(WordTokenizer("en"), Vocabulary(tuple(f"w{i}" for i in range(words))))
    ((ids, lengths),) = encoded_chunks(codec, [f"w{words - 1}"])
    assert ids.dtype == dtype
    assert (ids.tolist(), lengths.tolist()) == ([words + 3], [1])


def test_chunks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 2)
    assert encoded(CODEC, LINES) == IDS
    assert len(list(encoded_chunks(CODEC, LINES))) == 3
    assert list(encoded_chunks(CODEC, [])) == []


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 2)
    monkeypatch.setattr(pool, "MIN_ITEMS", 1)
    monkeypatch.setattr(pool, "cores", lambda: 2)


@pytest.mark.slow
@pytest.mark.usefixtures("two_processes")
def test_several_processes_answer_as_one() -> None:
    config = TextConfig.model_validate({"tokenizer": {"kind": "char"}})
    codec = build_codecs(config, ("en", "de"), ["a", "b"], ["c"])[0]
    lines = [number % 7 * "a" + number % 3 * "b" for number in range(41)]
    assert encoded(codec, lines) == codec.encode(lines)


@pytest.mark.slow
@pytest.mark.usefixtures("two_processes")
def test_an_error_in_a_process_is_an_error_of_this_one() -> None:
    codec = Codec(WordTokenizer("klingon"), Vocabulary(("a",)))
    with pytest.raises(ConfigError, match="spaCy has no tokenizer for the language 'klingon'"):
        encoded(codec, LINES[:2])
