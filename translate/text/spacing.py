"""Detokenization: where to put spaces when tokens are joined again, learned from text in which they are known.

No rules of any language are built in. For example, from the two lines `he said "hi".` and `"no", she said.`:

    tokens    he said " hi " .
    marked    he said " hi " (2) .     every second occurrence of a symbol in a line becomes a token of its own
    counted   a space in (he, said) and (said, "), none in (", hi), (hi, " (2)) and (" (2), .)
    rules     `.` and `" (2)` attach to the token before them, `"` attaches to the token after it,
              because each did so with most of its distinct neighbours, and with at least two
    kept      the pair (" (2), ,) attaches, too: an exception, because `,` has been seen after one token only

With these rules, the tokens `she said " no " .` become `she said "no".`

Symbols that behave alike at every occurrence, such as `.`, lose their marks again. In languages without spaces, all
tokens are joined, except pairs that mostly had a space, and pairs of ASCII words or numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

Pair = tuple[str, str]

MAX_ROUNDS = 10
# A language counts as one without spaces if fewer than this share of distinct pairs of neighbours mostly have one.
MIN_APART = 0.25

# The suffix of every second occurrence. No real token ends like this: few hold a space at all (Spanish "EE. UU.").
SECOND = " (2)"


def _mark(tokens: Sequence[str], alternates: Callable[[str], bool]) -> list[str]:
    """The tokens of a line, with `SECOND` added to every second occurrence of each token that alternates."""
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
    """The token without its mark, unless it is one of those that alternate."""
    token = marked.removesuffix(SECOND)
    return marked if token in alternating else token


def _is_symbol(token: str) -> bool:
    return len(token) == 1 and not (token.isalnum() or token.isspace())


def _is_ascii_word(token: str) -> bool:
    """Whether it is a word or number in ASCII, such as an English name in Japanese text."""
    return token.isascii() and token.isalnum()


@dataclass(frozen=True)
class Spacing:
    """What was learned. A space stands between two tokens unless a rule or an exception says that they are joined.

    Args:
        alternating: symbols such as `"`, whose every second occurrence in a line is marked and has rules of its own.
        joins_left: tokens such as `.`, which attach to the token before them.
        joins_right: tokens such as `(`, which attach to the token after them.
        joined, spaced: exceptions, which win over the rules: pairs without a space, and pairs with one.
        unspaced: the language has no spaces: tokens are joined unless they are a pair in `spaced`, or two ASCII words.
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
        """Whether a space stands between two neighbouring tokens, as returned by `_mark`."""
        if (left, right) in self.spaced:
            return True
        if (left, right) in self.joined:
            return False
        if self.unspaced:
            return _is_ascii_word(left) and _is_ascii_word(right)
        return not (left in self.joins_right or right in self.joins_left)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, sorted."""
        rules: dict[str, Any] = {
            "alternating": sorted(self.alternating),
            "joins_left": sorted(self.joins_left),
            "joins_right": sorted(self.joins_right),
            "joined": sorted(self.joined),
            "spaced": sorted(self.spaced),
        }
        if self.unspaced:  # Only then: other codecs keep the fingerprint they had before this field existed.
            rules["unspaced"] = True
        return rules

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Spacing":
        return cls(
            alternating=frozenset(data["alternating"]),
            joins_left=frozenset(data["joins_left"]),
            joins_right=frozenset(data["joins_right"]),
            joined=frozenset((left, right) for left, right in data["joined"]),
            spaced=frozenset((left, right) for left, right in data["spaced"]),
            unspaced=data.get("unspaced", False),
        )


class SpacingCounts:
    """Counts how often each pair of neighbours stood with and without a space; lines go in, a Spacing comes out."""

    def __init__(self) -> None:
        # `add` marks every symbol as if it alternated, because which ones do is known only after all lines.
        self._pairs: Counter[tuple[Pair, bool]] = Counter()

    def add(self, tokens: Sequence[str], space_after: Sequence[bool]) -> None:
        """Count one line: its tokens, and for each of them whether white space follows."""
        self._pairs.update(zip(pairwise(_mark(tokens, _is_symbol)), space_after, strict=False))

    def update(self, others: "SpacingCounts") -> None:
        """Add the counts of other lines."""
        self._pairs.update(others._pairs)

    def learn(self) -> Spacing:
        """The rules that hold for most pairs of neighbours, and as exceptions the pairs for which they do not."""
        alternating = self._alternating()
        apart = self._apart(alternating)
        if sum(apart.values()) < MIN_APART * len(apart):
            rules, apart = Spacing(unspaced=True), self._apart(frozenset())
        else:
            rules = _rules(alternating, apart)
        exceptions = {pair for pair, space in apart.items() if space != rules.apart(*pair)}
        spaced = frozenset(pair for pair in exceptions if apart[pair])
        return replace(rules, joined=frozenset(exceptions - spaced), spaced=spaced)

    def _apart(self, alternating: frozenset[str]) -> dict[Pair, bool]:
        """For each pair of neighbours, whether it had a space at least half the time."""
        balance: Counter[Pair] = Counter()
        for ((left, right), space), count in self._pairs.items():
            balance[_unmark(left, alternating), _unmark(right, alternating)] += count if space else -count
        return {pair: spaces >= 0 for pair, spaces in balance.items()}

    def _alternating(self) -> frozenset[str]:
        """Symbols with a space before them where they open and none where they close, or the reverse."""
        balance: Counter[str] = Counter()
        for ((_, right), space), count in self._pairs.items():
            balance[right] += count if space else -count
        twice = [token.removesuffix(SECOND) for token in balance if token.endswith(SECOND)]
        return frozenset(token for token in twice if (balance[token] >= 0) != (balance[token + SECOND] >= 0))


def _rules(alternating: frozenset[str], apart: dict[Pair, bool]) -> Spacing:
    """The tokens that attach to the token before or after them, whatever that is.

    Each distinct neighbour counts once, however frequent: "t-shirt" may be a frequent word, but "-" is only one of the
    many tokens before "shirt", and so "shirt" does not become a token that attaches to its left.
    """
    # A missing space is no evidence about one token if the rule of the other token explains it. Each set of rules
    # therefore depends on the other, and both are found again until they no longer change.
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


def _joiners(evidence: Iterable[tuple[str, bool]]) -> frozenset[str]:
    """The tokens that have no space next to at least two of their neighbours, and next to most of them.

    `evidence` has an item for each distinct neighbour of a token: the token, and whether there is a space.
    """
    spaced: Counter[str] = Counter()
    joined: Counter[str] = Counter()
    for token, space in evidence:
        (spaced if space else joined)[token] += 1
    return frozenset(token for token, count in joined.items() if count > max(1, spaced[token]))
