"""Text that is already tokenized, or consists of symbols: white space separates its tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from translate.text.casing import lower


@dataclass(frozen=True)
class WhitespaceTokenizer:
    """What stands between white space is a token, and one space joins it to the next. Nothing is learned."""

    language: str
    lowercase: bool = False

    @property
    def packages(self) -> tuple[str, ...]:
        return ()

    def normalize(self, line: str) -> str:
        line = " ".join(line.split())
        return lower(line, self.language) if self.lowercase else line

    def tokenize(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return (self.normalize(line).split() for line in lines)

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "whitespace", "language": self.language, "lowercase": self.lowercase}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "WhitespaceTokenizer":
        return cls(data["language"], data["lowercase"])
