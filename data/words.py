"""The nouns and adjectives of the lexicon, read into types that know their own forms.

Knows nothing about phrases: which ending an adjective takes is decided in grammar.py.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import lexicon
from lexicon import INDECLINABLE, IRREGULAR, PLURAL_ONLY, STEMS

Case = Literal["nom", "acc", "dat"]


class Noun(NamedTuple):
    """A noun as the lexicon lists it."""

    de: str
    gender: str
    plural: str
    en: str
    kind: str

    @property
    def column(self) -> str:
        return "m" if self.gender == "w" else self.gender

    def german(self, case: Case, plural: bool) -> str:
        if not plural:
            return self.plural if self.gender == "w" and case != "nom" else self.de
        return f"{self.plural}n" if case == "dat" and self.plural[-1] not in "ns" else self.plural

    def english(self, plural: bool) -> str:
        if not plural and self.en not in PLURAL_ONLY:
            return self.en
        *first, last = self.en.split()
        if last not in IRREGULAR:
            last += "es" if last.endswith(("s", "x", "ch", "sh")) else "s"
        return " ".join([*first, IRREGULAR.get(last, last)])


class Adjective(NamedTuple):
    """An adjective in one of its senses."""

    de: str
    en: str

    def german(self, ending: str) -> str:
        return self.de if self.de in INDECLINABLE else STEMS.get(self.de, self.de) + ending


def read_nouns() -> dict[str, tuple[Noun, ...]]:
    """The nouns of each kind, and under its own name each single noun."""
    found: dict[str, tuple[Noun, ...]] = {}
    for kind, text in lexicon.NOUNS.items():
        rows = [entry.split(maxsplit=3) for entry in text.split(", ")]
        found[kind] = tuple(Noun(german, gender, plural, english, kind) for german, gender, plural, english in rows)
        found |= {noun.de: (noun,) for noun in found[kind]}
    return found


NOUNS = read_nouns()


def nouns(names: str) -> list[Noun]:
    """The nouns that a column of the lexicon names, by kind or one by one."""
    return [noun for name in names.split() for noun in NOUNS[name]]


ADJECTIVES = {
    Adjective(*words.split(" ", 1)): frozenset(noun.de for noun in nouns(fits))
    for words, fits in lexicon.ADJECTIVES.items()
}
