"""German and English side by side: agreement, word order, and the phrases and clauses they apply to.

Knows nothing about chance: the same phrase is always written the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from lexicon import CONTRACTIONS, PLACES, PLURAL_ONLY, Verb
from words import Adjective, Case, Noun

# Endings by case; the columns are masculine, feminine, neuter and plural, and "-" is no ending.
COLUMNS = "mfnp"
DEFINITE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"}
EIN = {"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"}
STRONG = {"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"}
WEAK = {"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"}
MIXED = {"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"}


def ending(table: dict[str, str], case: Case, column: str) -> str:
    return table[case].split()[COLUMNS.index(column)].strip("-")


class Pair(NamedTuple):
    """The same stretch of text in both languages."""

    de: str
    en: str


NOTHING = Pair("", "")


class Determiner(NamedTuple):
    """What opens a noun phrase. It declines like der, ein or viele, or not at all (zwei, and the empty one)."""

    de: str
    en: str
    like: Literal["der", "ein", "viele", ""]


DETERMINERS = {
    "der": Determiner("", "the", "der"),
    "ein": Determiner("ein", "a", "ein"),
    "kein": Determiner("kein", "no", "ein"),
    "viele": Determiner("viel", "many", "viele"),
    "einige": Determiner("einig", "some", "viele"),
    "mehrere": Determiner("mehrer", "several", "viele"),
    "zwei": Determiner("zwei", "two", ""),
    "drei": Determiner("drei", "three", ""),
    "vier": Determiner("vier", "four", ""),
    "fünf": Determiner("fünf", "five", ""),
    "": Determiner("", "", ""),
}


@dataclass(frozen=True)
class NounPhrase:
    """Determiner, adjective, noun and what may follow: ein junger Mann mit einem roten Hut."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False
    after: Pair = NOTHING

    def german(self, case: Case) -> str:
        column = "p" if self.plural else self.noun.column
        if self.determiner.like == "der":
            opening, endings = ending(DEFINITE, case, column), WEAK
        elif self.determiner.like == "ein":
            opening, endings = self.determiner.de + ending(EIN, case, column), MIXED
        else:
            opening, endings = self.determiner.de, STRONG
            if self.determiner.like == "viele":
                opening += ending(STRONG, case, column)
        adjective = self.adjective.german(ending(endings, case, column)) if self.adjective else ""
        return join(opening, adjective, self.noun.german(case, self.plural), self.after.de)

    def english(self) -> str:
        rest = join(self.adjective.en if self.adjective else "", self.noun.english(self.plural), self.after.en)
        opening = self.determiner.en
        if opening == "a":
            opening = "" if self.noun.en in PLURAL_ONLY else "an" if rest[0] in "aeiou" else "a"
        return join(opening, rest)


class Subject(NamedTuple):
    """One noun phrase, or two joined by "and"."""

    phrases: tuple[NounPhrase, ...]

    @property
    def plural(self) -> bool:
        return len(self.phrases) > 1 or self.phrases[0].plural

    @property
    def text(self) -> Pair:
        return Pair(
            " und ".join(phrase.german("nom") for phrase in self.phrases),
            " and ".join(phrase.english() for phrase in self.phrases),
        )

    @property
    def be(self) -> str:
        return "are" if self.plural else "is"

    @property
    def pronoun(self) -> Pair:
        """German follows the gender of the word, English the person: das Mädchen, es ↔ the girl, she."""
        if self.plural:
            return Pair("sie", "they")
        noun = self.phrases[0].noun
        german = {"m": "er", "f": "sie", "n": "es"}[noun.column]
        if noun.kind != "people" or noun.en == "child":
            return Pair(german, "it")
        return Pair(german, "he" if noun.column == "m" else "she")

    @property
    def possessive(self) -> Determiner:
        german, english = self.pronoun
        return Determiner(
            "ihr" if german == "sie" else "sein",
            {"he": "his", "she": "her", "it": "its", "they": "their"}[english],
            "ein",
        )


class Object(NamedTuple):
    """What a verb governs. Its English preposition belongs to the verb (wait for)."""

    preposition: str
    case: Case
    phrase: NounPhrase

    @property
    def german(self) -> str:
        return prepositional(self.preposition, self.phrase.german(self.case))

    @property
    def known(self) -> bool:
        """Already introduced (the, his), so that it stands before the place: liest das Buch im Garten."""
        determiner = self.phrase.determiner
        return not self.preposition and (determiner.like == "der" or determiner.de in {"sein", "ihr"})


@dataclass(frozen=True)
class Clause:
    """A subject and what it does; the methods are the word orders that German asks for."""

    subject: Subject
    verb: Verb
    objects: tuple[Object, ...] = ()
    time: Pair = NOTHING
    manner: Pair = NOTHING
    where: Pair = NOTHING
    where_to: Pair = NOTHING
    negated: bool = False

    @property
    def finite(self) -> str:
        return self.verb.de.split()[self.subject.plural]

    @property
    def infinitive(self) -> str:
        return self.verb.de.split()[1]

    @property
    def middle(self) -> str:
        """Everything between the two places where German puts its verbs: time before manner before place."""
        known = [item.german for item in self.objects if item.known]
        new = [item.german for item in self.objects if not item.known]
        without = any(item.phrase.determiner.de == "kein" for item in self.objects)
        no = "nicht" if self.negated and not without else ""
        return join(self.time.de, self.manner.de, *known, no, self.where.de, *new, self.where_to.de, self.verb.fixed)

    @property
    def reflexive(self) -> str:
        return "sich" if self.verb.reflexive else ""

    def main(self, front: Pair = NOTHING) -> Pair:
        """The verb comes second, a separable particle last: Heute zieht der Mann einen Hut an."""
        subject, verb = self.subject.text, join(self.finite, self.reflexive)
        order = (front.de, verb, subject.de) if front.de else (subject.de, verb)
        opening = f"{front.en}," if front.en else ""
        return Pair(join(*order, self.middle, self.verb.particle), join(opening, subject.en, self.progressive()))

    def subordinate(self, subject: Pair | None = None) -> Pair:
        """The verb comes last: dass der Mann heute einen Hut anzieht. A pronoun may stand for the subject."""
        german, english = subject or self.subject.text
        return Pair(
            join(german, self.reflexive, self.middle, self.verb.particle + self.finite),
            join(english, self.progressive()),
        )

    def with_infinitive(self) -> Pair:
        """Without a subject: heute einen Hut anziehen."""
        return Pair(join(self.reflexive, self.middle, self.verb.particle + self.infinitive), self.bare())

    def with_zu(self) -> Pair:
        """Without a subject: einen Hut anzuziehen."""
        infinitive = f"{self.verb.particle}zu{self.infinitive}" if self.verb.particle else f"zu {self.infinitive}"
        return Pair(join(self.reflexive, self.middle, infinitive), f"to {self.bare()}")

    def second(self) -> Pair:
        """Joined to a clause with the same subject: ... und zieht einen Hut an."""
        german = join(self.finite, self.reflexive, self.middle, self.verb.particle)
        return Pair(german, self.progressive().removeprefix(f"{self.subject.be} "))

    def progressive(self) -> str:
        _, present, *rest = self.verb.en.split()
        return join(self.subject.be, "not" if self.negated else "", present, *rest, self.english_rest())

    def bare(self) -> str:
        base, _, *rest = self.verb.en.split()
        return join(base, *rest, self.english_rest())

    def english_rest(self) -> str:
        objects = [item.phrase.english() for item in self.objects]
        return join(*objects, self.manner.en, self.where_to.en, self.where.en, self.time.en)


def place(group: str, towards: bool, phrase: NounPhrase) -> Pair:
    """Two-way prepositions: auf dem Sofa ↔ on the sofa, but auf das Sofa ↔ onto the sofa."""
    entry = PLACES[group]
    case: Case = "acc" if towards and entry.preposition not in {"zu", "aus"} else "dat"
    german = prepositional(entry.preposition, phrase.german(case))
    return Pair(german, join(entry.where_to if towards else entry.where, phrase.english()))


def prepositional(preposition: str, phrase: str) -> str:
    """`phrase` after a preposition, contracted where German contracts: in dem Park → im Park."""
    text = join(preposition, phrase)
    head, _, rest = text.partition(" ")
    article, _, noun = rest.partition(" ")
    contracted = CONTRACTIONS.get(f"{head} {article}")
    return f"{contracted} {noun}" if contracted else text


def join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def sentence(text: str) -> str:
    """With a capital and a full stop, and with commas where they belong."""
    text = text.replace(" ,", ",").rstrip(",")
    return f"{text[0].upper()}{text[1:]}."
