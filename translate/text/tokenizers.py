"""Text to tokens and back: one interface and, in the table at the end, the classes behind the names in the schema.

Only words.py uses spaCy, and only pieces.py and piece_learning.py use Hugging Face's `tokenizers`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from translate.errors import CheckpointError
from translate.text.labels import LabelTokenizer
from translate.text.piece_learning import LEARNERS
from translate.text.pieces import PieceTokenizer
from translate.text.whitespace import WhitespaceTokenizer
from translate.text.words import WordTokenizer


class Tokenizer(Protocol):
    """One language's text to tokens and back."""

    @property
    def language(self) -> str:
        """The language's code."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The Python packages that decide how text is split; another version of them may split it differently."""

    def normalize(self, line: str) -> str:
        """The line after lower-casing and the like: the most that `detokenize` can restore from its tokens."""

    def tokenize(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The tokens of each line; none for a blank one.

        ConfigError if the library for it is missing, DataError if that fails on a line.
        """

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The line of text that these tokens make."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values; `kind` among them is the key of the class in the table `TOKENIZERS`."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Tokenizer": ...


TOKENIZERS: dict[str, type[Tokenizer]] = {
    "word": WordTokenizer,
    "whitespace": WhitespaceTokenizer,
    **dict.fromkeys(LEARNERS, PieceTokenizer),
    "label": LabelTokenizer,  # A config cannot choose it, but it is saved like the others.
}


def tokenizer_from_dict(data: dict[str, Any]) -> Tokenizer:
    """The tokenizer that `to_dict` described. CheckpointError if there is none of its kind."""
    if data["kind"] not in TOKENIZERS:
        raise CheckpointError(
            f"the text was tokenized by a tokenizer of kind {data['kind']!r}, but this version supports only "
            f"{', '.join(TOKENIZERS)}; use the version of `translate` that made it"
        )
    return TOKENIZERS[data["kind"]].from_dict(data)
