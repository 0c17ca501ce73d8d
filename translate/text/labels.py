"""The labels of labelled text: a whole line is one token."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LabelTokenizer:
    """A label as the only token of its line. White space around it is not part of it."""

    language: str = "labels"  # Other tokenizers have a language code here.

    @property
    def packages(self) -> tuple[str, ...]:
        return ()

    def normalize(self, line: str) -> str:
        return line.strip()

    def tokenize(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The label on each line, in a list of one; an empty list for a blank line."""
        return ([label] if (label := self.normalize(line)) else [] for line in lines)

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "label", "language": self.language}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LabelTokenizer":
        return cls(data["language"])
