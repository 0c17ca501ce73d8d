"""One language's text to ids and back: a tokenizer and a vocabulary, saved together as plain JSON."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple

from translate.text.labels import LabelTokenizer
from translate.text.tokenizers import Tokenizer, tokenizer_from_dict
from translate.text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary


@dataclass(frozen=True)
class Codec:
    """Text to ids (which may need the tokenizer's library) and ids to text (which never does).

    Args:
        composes: normalize text to Unicode's form NFC before tokenizing it.
    """

    tokenizer: Tokenizer
    vocabulary: Vocabulary
    composes: bool = False

    @property
    def language(self) -> str:
        return self.tokenizer.language

    @property
    def holds_labels(self) -> bool:
        """Whether a line is a label, which is one token and has no eos."""
        return isinstance(self.tokenizer, LabelTokenizer)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of each line, without BOS and EOS; none for a blank line."""
        tokens = self.tokenizer.tokenize(map(self.prepare, lines))
        return [self.vocabulary.ids(each) for each in tokens]

    def prepare(self, line: str) -> str:
        """The line as the tokenizer gets it."""
        return compose(line) if self.composes else line

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids before the first EOS, without PAD and BOS. An unknown word reads `<unk>`."""
        before_end = takewhile(lambda index: index != EOS, ids)
        tokens = self.vocabulary.strings(index for index in before_end if index not in (PAD, BOS))
        return self.tokenizer.detokenize(tokens)

    def tokenize(self, line: str) -> list[str]:
        """The tokens of one line, known or not: as many as `encode` gives ids."""
        return next(self.tokenizer.tokenize([self.prepare(line)]))

    def unknown(self, line: str) -> list[str]:
        """The words of a line that the vocabulary lacks, in their order."""
        return [token for token in self.tokenize(line) if token not in self.vocabulary]

    def count_known(self, ids: Iterable[int]) -> tuple[int, int]:
        """How many of the ids are not UNK, and how many there are.

        Beside an UNK, white space counts in neither: it is known in text of any language.
        """
        ids = list(ids)
        unknown = sum(each == UNK for each in ids)
        if not unknown:
            return len(ids), len(ids)
        known = sum(each != UNK and self.decode([each]).strip() != "" for each in ids)
        return known, known + unknown

    @cached_property
    def fingerprint(self) -> str:
        """Hash of everything that decides how text is encoded and decoded."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "tokenizer": self.tokenizer.to_dict(),
            "words": list(self.vocabulary.words),
            "composes": self.composes,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Codec":
        # Models saved before text was normalized to NFC lack this key.
        composes = data.get("composes", False)
        return cls(tokenizer_from_dict(data["tokenizer"]), Vocabulary(tuple(data["words"])), composes)


class Codecs(NamedTuple):
    """Those of the source and of the target language, or of labels."""

    source: Codec
    target: Codec


def compose(line: str) -> str:
    """The same text with letters and marks combined where Unicode has one character for them: normalization form C."""
    return unicodedata.normalize("NFC", line)
