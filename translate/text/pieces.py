"""Text to characters, bytes or subwords, with Hugging Face's `tokenizers`, and back without losing a character.

piece_learning.py learns the pieces. This is the only file that imports that library, and only when it is needed:
detokenizing does without it.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from translate.errors import ConfigError
from translate.text.casing import Truecaser, lower

WITH_WORDS = {"bpe", "wordpiece", "unigram"}
UNKNOWN, UNKNOWN_ID = "<unk>", 0  # the library's; a Vocabulary has its own
CONTINUES = "##"  # WordPiece's prefix for pieces that continue a word
PARALLEL = "TOKENIZERS_PARALLELISM"  # the environment variable that the library reads before each of its tasks
ASKED = os.environ.get(PARALLEL)  # what the user has set it to, if anything
BYTES = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)}


@dataclass(frozen=True)
class PieceTokenizer:
    """Pieces of text that include their spaces, so that detokenizing is mere concatenation.

    The kinds in `WITH_WORDS` put one space before the line, so that its first word has the same pieces as elsewhere;
    `detokenize` removes it. No white space is stripped. Text for which there is no piece becomes a token as it is
    written, which is not in the vocabulary.

    Args:
        state: the library's JSON of its tokenizer, without special tokens, so that no text is ever read as one.
        truecaser: gives the first word of a line the case it has elsewhere, and undoes that when detokenizing.
    """

    language: str
    kind: str
    lowercase: bool
    state: str
    truecaser: Truecaser | None = None

    @property
    def packages(self) -> tuple[str, ...]:
        return ("tokenizers",)

    @property
    def pieces(self) -> tuple[str, ...]:
        """All pieces except `<unk>`, in the order of the library's ids."""
        return self._names[UNKNOWN_ID + 1 :]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The piece of each of the library's ids."""
        ids: dict[str, int] = self._library_tokenizer.get_vocab()
        names = tuple(sorted(ids, key=ids.__getitem__))
        assert names[UNKNOWN_ID] == UNKNOWN
        return names

    @cached_property
    def _library_tokenizer(self) -> Any:
        return hugging_face().Tokenizer.from_str(self.state)

    def normalize(self, line: str) -> str:
        """The text that `detokenize` gives back: in the case that was asked for, lone surrogates replaced by `?`."""
        # The library encodes what it gets, which fails with a lone surrogate, as in a str from JSON or a file's name.
        line = line.encode("utf-8", errors="replace").decode("utf-8")
        if self.truecaser is not None:
            return self.truecaser.undo(line)
        return lower(line, self.language) if self.lowercase else line

    def prepare(self, line: str) -> str:
        """The text as the library gets it; empty for a blank line."""
        line = self.normalize(line)
        if not line.strip():
            return ""
        if self.truecaser is not None:
            line = self.truecaser.apply(line)
        return f" {line}" if self.kind in WITH_WORDS else line

    @cached_property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs of pieces that byte-pair encoding merges, in the order in which they were learned."""
        assert self.kind == "bpe"
        return [(left, right) for left, right in json.loads(self.state)["model"]["merges"]]

    def pre_tokens(self, tokens: Sequence[str]) -> list[str]:
        """The text of a whole line's pieces split into PRE_TOKENS (piece_learning.py); no piece spans two of them."""
        return [text for text, _ in self._library_tokenizer.pre_tokenizer.pre_tokenize_str(_written(tokens))]

    def tokenize(self, lines: Iterable[str]) -> Iterator[list[str]]:
        texts = [self.prepare(line) for line in lines]
        encodings = iter(self._library_tokenizer.encode_batch_fast([text for text in texts if text]))
        for text in texts:
            ids = next(encodings).ids if text else []
            yield self._with_unknown(text) if UNKNOWN_ID in ids else [self._names[index] for index in ids]

    def _with_unknown(self, text: str) -> list[str]:
        """The pieces of a text, unknown ones as they are written."""
        encoding = self._library_tokenizer.encode(text)  # Slower, but it gives the offsets of each piece.
        return [
            text[start:stop] if index == UNKNOWN_ID else self._names[index]
            for index, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True)
        ]

    def detokenize(self, tokens: Sequence[str]) -> str:
        """The text of these pieces. Bytes that are not UTF-8 become U+FFFD."""
        text = _written(tokens)
        if self.kind in WITH_WORDS:
            text = text.removeprefix(" ")
        return text if self.truecaser is None else self.truecaser.undo(text)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "language": self.language,
            "lowercase": self.lowercase,
            "state": self.state,
            "truecaser": None if self.truecaser is None else sorted(self.truecaser.lowered),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "PieceTokenizer":
        lowered = data.get("truecaser")  # also None in files older than truecasing
        truecaser = None if lowered is None else Truecaser(frozenset(lowered), data["language"])
        return cls(data["language"], data["kind"], data["lowercase"], data["state"], truecaser)


def _written(tokens: Iterable[str]) -> str:
    """The pieces one after the other. Bytes that are not UTF-8 become U+FFFD."""
    written = (BYTES.get(token) or token.removeprefix(CONTINUES).encode() for token in tokens)
    return b"".join(written).decode("utf-8", errors="replace")


def hugging_face() -> Any:
    """Hugging Face's `tokenizers`, on one thread outside `on_all_cores`, unless the environment says otherwise.

    ConfigError if it is missing.
    """
    os.environ.setdefault(PARALLEL, "false")
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise ConfigError(
            "this kind of text.tokenizer needs the package 'tokenizers', which is not installed: "
            "pip install tokenizers. Text that is already in data.cache does not need it"
        ) from error
    return tokenizers


@contextmanager
def on_all_cores() -> Iterator[None]:
    """Let the library use all cores inside, unless the environment says otherwise.

    Outside it does not, because a process that is forked after it had several threads would wait for these forever.
    """
    usual = os.environ[PARALLEL]
    os.environ[PARALLEL] = ASKED or "true"
    try:
        yield
    finally:
        os.environ[PARALLEL] = usual
