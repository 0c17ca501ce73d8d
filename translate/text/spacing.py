"""Where spaces go between tokens, learned from text where that is known.

No rules of any language are built in. A token such as `.` joins to its left because it did so with most of its
distinct neighbours; pairs of tokens that behave otherwise are kept as exceptions; a symbol such as `"`, whose every
second occurrence in a line is spaced differently, is treated as two tokens, one that opens and one that closes. In
languages without spaces all tokens join, except pairs that were seen apart, and words and numbers in ASCII.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

Pair = tuple[str, str]

MAX_ROUNDS = 10
MOST_APART = 0.25  # of the different neighbours in a language without spaces


@dataclass(frozen=True)
class Spacing:
    """What was learned. A space stands between two tokens unless something here says that they join.

    Where `unspaced` is True, tokens join unless they are a pair in `spaced`, or two words of ASCII.
    """

    alternating: frozenset[str] = frozenset()
    joins_left: frozenset[str] = frozenset()
    joins_right: frozenset[str] = frozenset()
    joined: frozenset[Pair] = frozenset()
    spaced: frozenset[Pair] = frozenset()
    unspaced: bool = False

    def join(self, tokens: Sequence[str]) -> str:
        """The text of these tokens on one line, with each run of white space made one plain space."""
        parts = list(tokens[:1])
        for token, (left, right) in zip(
            tokens[1:], pairwise(_mark(tokens, self.alternating.__contains__)), strict=True
        ):
            parts.append(" " + token if self.apart(left, right) else token)
        return " ".join("".join(parts).split())

    def apart(self, left: str, right: str) -> bool:
        """Whether a space stands between two tokens, marked as by `_mark`."""
        if (left, right) in self.spaced:
            return True
        if (left, right) in self.joined:
            return False
        if self.unspaced:
            return _is_latin(left) and _is_latin(right)
        return not (left in self.joins_right or right in self.joins_left)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, sorted."""
        rules = {field.name: sorted(getattr(self, field.name)) for field in fields(self) if field.name != "unspaced"}
        # Only where it is True, so that the digest of all other rules is that of models from before it was there.
        return rules | ({"unspaced": True} if self.unspaced else {})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Spacing":
        alternating, joins_left, joins_right = (
            frozenset(data[name]) for name in ("alternating", "joins_left", "joins_right")
        )
        joined, spaced = (frozenset((left, right) for left, right in data[name]) for name in ("joined", "spaced"))
        return cls(alternating, joins_left, joins_right, joined, spaced, data.get("unspaced", False))


class SpacingCounts:
    """Counts how often each pair of neighbours stood with and without a space; lines go in, a Spacing comes out."""

    def __init__(self) -> None:
        # Every symbol is marked as if it alternated: which ones do is known only after all lines.
        self._pairs: Counter[tuple[Pair, bool]] = Counter()

    def add(self, tokens: Sequence[str], space_after: Sequence[bool]) -> None:
        """Count one line: its tokens, and for each of them whether white space follows."""
        self._pairs.update(zip(pairwise(_mark(tokens, _is_symbol)), space_after, strict=False))

    def update(self, others: "SpacingCounts") -> None:
        """Add the counts of other lines."""
        self._pairs.update(others._pairs)

    def learn(self) -> Spacing:
        """The rules that explain most pairs of neighbours, and the pairs that they do not explain."""
        alternating = self._alternating()
        apart = self._apart(alternating)
        if sum(apart.values()) < MOST_APART * len(apart):
            rules, apart = Spacing(unspaced=True), self._apart(frozenset())
        else:
            rules = _rules(alternating, apart)
        exceptions = {pair for pair, space in apart.items() if space != rules.apart(*pair)}
        spaced = frozenset(pair for pair in exceptions if apart[pair])
        return replace(rules, joined=frozenset(exceptions - spaced), spaced=spaced)

    def _apart(self, alternating: frozenset[str]) -> dict[Pair, bool]:
        """Whether each pair of neighbours was mostly apart."""
        balance: Counter[Pair] = Counter()
        for ((left, right), space), count in self._pairs.items():
            balance[_unmark(left, alternating), _unmark(right, alternating)] += count if space else -count
        return {pair: spaces >= 0 for pair, spaces in balance.items()}

    def _alternating(self) -> frozenset[str]:
        """Symbols with a space before them where they open and none where they close, or the reverse."""
        balance: Counter[str] = Counter()
        for ((_, right), space), count in self._pairs.items():
            balance[right] += count if space else -count
        closing = [token for token in balance if token.endswith(SECOND)]
        opening = {token: token.removesuffix(SECOND) for token in closing}
        return frozenset(opening[token] for token in closing if (balance[token] >= 0) != (balance[opening[token]] >= 0))


def _rules(alternating: frozenset[str], apart: dict[Pair, bool]) -> Spacing:
    """The tokens that join, whatever stands beside them."""
    # Each distinct neighbour counts once, however frequent: the shirt in "t-shirt" joins to only one of its own.
    # A join that the other token explains is no evidence for this one; hence the rounds.
    joins_left: frozenset[str] = frozenset()
    joins_right: frozenset[str] = frozenset()
    for _ in range(MAX_ROUNDS):
        before = joins_left, joins_right
        joins_left = _joiners(
            (right, space) for (left, right), space in apart.items() if space or left not in joins_right
        )
        joins_right = _joiners(
            (left, space) for (left, right), space in apart.items() if space or right not in joins_left
        )
        if (joins_left, joins_right) == before:
            break
    return Spacing(alternating, joins_left, joins_right)


# No token has a space along with other characters, so a marked token is never mistaken for another.
SECOND = " (2)"


def _is_latin(token: str) -> bool:
    """Whether it is a word or a number in ASCII, as it stands among words of languages without spaces."""
    return token.isascii() and token.isalnum()


def _is_symbol(token: str) -> bool:
    return len(token) == 1 and not (token.isalnum() or token.isspace())


def _mark(tokens: Sequence[str], alternates: Callable[[str], bool]) -> list[str]:
    """The tokens; of those that alternate, every second occurrence in the line is marked."""
    marked = []
    opened: set[str] = set()
    for token in tokens:
        if token in opened:
            opened.remove(token)
            marked.append(token + SECOND)
        else:
            if alternates(token):
                opened.add(token)
            marked.append(token)
    return marked


def _unmark(marked: str, alternating: frozenset[str]) -> str:
    token = marked.removesuffix(SECOND)
    return marked if token in alternating else token


def _joiners(evidence: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """Tokens that stand without a space next to two or more neighbours, and next to most of their neighbours."""
    spaced: Counter[str] = Counter()
    joined: Counter[str] = Counter()
    for token, space in evidence:
        (spaced if space else joined)[token] += 1
    return frozenset(token for token, count in joined.items() if count > max(1, spaced[token]))
