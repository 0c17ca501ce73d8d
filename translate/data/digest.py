"""Digests of text, by which runs and scores name it: the same in every container, and for blocks of any size."""

import hashlib
from collections.abc import Iterable


class TextDigest:
    """The SHA-256 of lines that come block by block: each followed by one line feed, in UTF-8."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, lines: Iterable[str]) -> None:
        """Add lines that follow those added before."""
        self._sha256.update("".join(f"{line}\n" for line in lines).encode("utf-8"))

    def hexdigest(self) -> str:
        """The digest of all lines added so far, as hexadecimal digits."""
        return self._sha256.hexdigest()


def text_sha256(lines: Iterable[str]) -> str:
    """The digest of a whole text."""
    digest = TextDigest()
    digest.add(lines)
    return digest.hexdigest()


def abridged(*digests: str) -> str:
    """The beginnings of digests, for messages."""
    return "sha256 " + " / ".join(f"{digest[:8]}…" for digest in digests)
