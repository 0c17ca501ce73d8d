"""Draws captions at random from the lexicon, and knows which pairs of words are kept out of training.

Knows nothing about splits or files.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

import lexicon
from grammar import DETERMINERS, NOTHING, Clause, Determiner, NounPhrase, Object, Pair, Subject, join, place, sentence
from lexicon import PLACES, VERBS, Verb
from words import ADJECTIVES, Noun, nouns

KEPT_OUT_ONE_IN = 10  # one in this many adjective+noun and subject+verb pairs is kept out of training
NUMBERS = ("zwei", "zwei", "drei", "vier", "fünf", "viele", "einige", "mehrere")

PAIRS = [(adjective.de, noun) for adjective, fits in ADJECTIVES.items() for noun in fits]
PAIRS += [(noun.de, verb.en) for verb in VERBS for noun in nouns(verb.subjects)]
KEPT_OUT = frozenset(sorted(set(PAIRS))[::KEPT_OUT_ONE_IN])

# What can be the aim of a move, a wish or a mark of somebody: verbs with an object that stay in their place.
ACTIONS = tuple(verb for verb in VERBS if verb.objects and verb.place in {"", "maybe"})
MOVES = tuple(verb for verb in VERBS if verb.place.startswith("to ") and verb.en in lexicon.TO_MOVE)
TO_SEEK = tuple(verb for verb in VERBS if verb.en in lexicon.TO_SEEK)
DENIABLE = tuple(verb for verb in VERBS if not verb.fixed and "+" not in verb.objects)


class Author:
    """Draws captions at random, and remembers which pairs of words the last one holds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pairs: set[tuple[str, str]] = set()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def entry(self, table: dict[str, str]) -> Pair:
        return Pair(*self.random.choice(list(table.items())))

    def caption(self) -> Pair:
        """One sentence, as likely of each pattern as the table below says."""
        self.pairs.clear()
        pattern = self.random.choices(list(PATTERNS), list(PATTERNS.values()))[0]
        german, english = pattern(self)
        return Pair(sentence(german), sentence(english))

    # --- phrases -----------------------------------------------------------------------------------------------------

    def phrase(
        self, noun: Noun, determiner: Determiner, plural: bool = False, share: float = 0.4, after: Pair = NOTHING
    ) -> NounPhrase:
        """A noun phrase with an adjective in `share` of all cases."""
        fitting = [adjective for adjective, fits in ADJECTIVES.items() if noun.de in fits]
        adjective = self.random.choice(fitting) if fitting and self.chance(share) else None
        if adjective:
            self.pairs.add((adjective.de, noun.de))
        return NounPhrase(noun, determiner, adjective, plural, after)

    def look(self, plural: bool) -> Pair:
        """What somebody wears: mit langen Haaren, in einem blauen Kleid."""
        preposition, english, names = self.random.choice(
            [("mit", "with", "hair"), ("mit", "with", "headwear bags"), ("in", "in", lexicon.OUTFITS)]
        )
        noun = self.random.choice(nouns(names))
        plural = plural or names == "hair"
        phrase = self.phrase(noun, DETERMINERS["" if plural else "ein"], plural, share=1.0 if names == "hair" else 0.6)
        return Pair(f"{preposition} {phrase.german('dat')}", f"{english} {phrase.english()}")

    def subject(self, kind: str = "", none: bool = False) -> Subject:
        """Somebody or something that acts; "kein Mann" only where `none` allows it."""
        kind = kind or self.random.choices(list(lexicon.SUBJECTS), list(lexicon.SUBJECTS.values()))[0]
        noun, other = self.random.sample(nouns(kind), 2)
        dice = self.random.random()
        if dice < 0.08:
            determiner = DETERMINERS[self.random.choice(("ein", "der"))]
            return Subject((self.phrase(noun, determiner, share=0.2), self.phrase(other, determiner, share=0.2)))
        plural = dice < 0.33
        names = NUMBERS if plural else ("kein",) if none and dice < 0.37 else ("ein", "ein", "ein", "der", "der")
        after = self.look(plural) if kind == "people" and self.chance(0.15) else NOTHING
        return Subject((self.phrase(noun, DETERMINERS[self.random.choice(names)], plural, after=after),))

    def object(self, spec: str, subject: Subject, negated: bool) -> Object:
        """What the verb governs, read from the lexicon's "[preposition] case kinds"."""
        found = re.fullmatch(r"(?:(\w+) )?(acc|dat) (.+)", spec)
        assert found, spec
        preposition, case, names = found.groups(default="")
        taken = {phrase.noun for phrase in subject.phrases}
        noun = self.random.choice([noun for noun in nouns(names) if noun not in taken])
        # Each of several people wears a hat of their own: zwei Männer tragen rote Hüte.
        bare = noun.plural == "-" or (noun.kind in {"clothes", "headwear"} and subject.plural)
        plural = bare and noun.plural != "-"
        dice = self.random.random()
        if bare:
            determiner = DETERMINERS[""]
        elif dice < 0.12 and noun.kind not in {"people", "farm", "buildings", "openings"}:
            determiner = subject.possessive
        elif dice < 0.4:
            determiner = DETERMINERS["der"]
        elif dice < 0.58 and not negated and noun.kind not in {"transit", "clothes", "headwear"}:
            determiner, plural = DETERMINERS[self.random.choice(NUMBERS[:5])], True
        else:
            determiner = DETERMINERS["ein"]
        if negated and not preposition and (bare or determiner.de == "ein"):
            determiner = Determiner("kein", determiner.en, "ein")  # isst keinen Apfel ↔ is not eating an apple
        return Object(preposition, "acc" if case == "acc" else "dat", self.phrase(noun, determiner, plural))

    def place(self, groups: str, subject: Subject, towards: bool = False) -> Pair:
        """Where it happens, or where it leads to."""
        indoors = all(phrase.noun.kind not in {"farm", "vehicles"} for phrase in subject.phrases)
        choices = [
            (group, noun)
            for group in groups.split()
            for noun in nouns(PLACES[group].nouns)
            if indoors or noun.kind in lexicon.OPEN_AIR
        ]
        group, noun = self.random.choice(choices)
        determiner = DETERMINERS[self.random.choice(("der", "der", "der", "ein"))]
        return place(group, towards, self.phrase(noun, determiner, share=0.2))

    # --- clauses -----------------------------------------------------------------------------------------------------

    def clause(
        self, subject: Subject, verbs: Sequence[Verb] = VERBS, extras: float = 0.3, negated: bool = False
    ) -> Clause:
        """The subject and one thing it can do. `extras` is how often it says when and where, unless it has to."""
        kinds = {phrase.noun.kind for phrase in subject.phrases}
        verb = self.random.choice([verb for verb in verbs if kinds <= set(verb.subjects.split())])
        self.pairs |= {(phrase.noun.de, verb.en) for phrase in subject.phrases}
        objects = tuple(self.object(spec, subject, negated) for spec in verb.objects.split(" + ") if spec)
        need, _, groups = verb.place.partition(" ")
        where = where_to = time = manner = NOTHING
        if need == "at" or (need == "maybe" and self.chance(extras)):
            where = self.place(groups or lexicon.ANYWHERE, subject)
        if need == "to":
            where_to = self.place(groups, subject, towards=True)
            manner = self.entry(lexicon.PACES) if self.chance(extras / 2) else NOTHING
        if not manner.de and not objects and subject.phrases[0].noun.kind == "people" and self.chance(extras / 2):
            manner = Pair("zusammen", "together") if subject.plural else Pair("allein", "alone")
        if self.chance(extras):
            time = self.entry(lexicon.TIMES)
        return Clause(subject, verb, objects, time, manner, where, where_to, negated)

    # --- sentences ---------------------------------------------------------------------------------------------------

    def plain(self) -> Pair:
        return self.clause(self.subject(none=True), extras=0.45).main()

    def fronted(self) -> Pair:
        """Time or place first, so that the subject follows the verb."""
        clause = self.clause(self.subject(), extras=0.7)
        if clause.time.de and (not clause.where.de or self.chance(0.5)):
            return replace(clause, time=NOTHING).main(front=clause.time)
        return replace(clause, where=NOTHING).main(front=clause.where)

    def there(self) -> Pair:
        """Auf dem Tisch liegt ein Buch ↔ there is a book on the table."""
        verb = self.random.choice((lexicon.LYING, lexicon.STANDING))
        plural = self.chance(0.4)
        names = NUMBERS if plural else ("ein", "ein", "ein", "kein")
        noun = self.random.choice(nouns(verb.subjects))
        thing = Subject((self.phrase(noun, DETERMINERS[self.random.choice(names)], plural, share=0.6),))
        where = self.place(verb.place.removeprefix("at "), thing)
        return Pair(Clause(thing, verb).main(front=where).de, join("there", thing.be, thing.text.en, where.en))

    def coordinated(self) -> Pair:
        """Two things that one subject does."""
        subject = self.subject("people" if self.chance(0.85) else "pets")
        clause = self.clause(subject)
        others = [verb for verb in VERBS if verb.de != clause.verb.de]
        first, second = clause.main(), self.clause(subject, others, extras=0.0).second()
        return Pair(f"{first.de} und {second.de}", f"{first.en} and {second.en}")

    def accompanied(self) -> Pair:
        """What goes on at the same time, before or after."""
        main = self.clause(self.subject(), extras=0.1)
        other = self.clause(self.subject(), extras=0.0).subordinate()
        if self.chance(0.4):
            return main.main(front=Pair(f"während {other.de},", f"while {other.en}"))
        german, english = main.main()
        return Pair(f"{german}, während {other.de}", f"{english} while {other.en}")

    def weathered(self) -> Pair:
        """The weather goes with it, explains it, or stands against it."""
        weather = self.entry(lexicon.WEATHER)
        german, english = self.random.choice((("während", "while"), ("weil", "because"), ("obwohl", "although")))
        clause = replace(self.clause(self.subject(), extras=0.2), time=NOTHING)
        return clause.main(front=Pair(f"{german} {weather.de},", f"{english} {weather.en}"))

    def explained(self) -> Pair:
        """Why, with a pronoun whose gender is that of the German noun."""
        subject = self.subject()
        main = self.clause(subject, extras=0.15).main()
        people = all(phrase.noun.kind == "people" for phrase in subject.phrases)
        german, english = "weil", "because"
        if people and self.chance(0.4):
            reason = self.clause(subject, TO_SEEK, extras=0.0).subordinate(subject.pronoun)
        elif people and self.chance(0.4):
            wish, action = (
                self.agree(self.entry(lexicon.WISHES), subject),
                self.clause(subject, ACTIONS, extras=0.0).with_infinitive(),
            )
            reason = Pair(
                join(subject.pronoun.de, action.de, wish.de),
                join(subject.pronoun.en, wish.en, action.en),
            )
        else:
            mood = self.entry(lexicon.MOODS)
            reason = Pair(
                join(subject.pronoun.de, mood.de, "sind" if subject.plural else "ist"),
                join(subject.pronoun.en, subject.be, mood.en),
            )
            if self.chance(0.3):
                german, english = "obwohl", "although"
        return Pair(f"{main.de}, {german} {reason.de}", f"{main.en} {english} {reason.en}")

    def thought(self) -> Pair:
        """Somebody sees, says or hopes that something is so."""
        subject = self.subject("people")
        thought = self.agree(self.entry(lexicon.THOUGHTS), subject)
        content = self.clause(self.subject(), extras=0.2).subordinate()
        return Pair(
            f"{subject.text.de} {thought.de}, dass {content.de}", f"{subject.text.en} {thought.en} that {content.en}"
        )

    def relative(self) -> Pair:
        """A clause on the subject: ein Mann, der einen Hut trägt."""
        kind = "people" if self.chance(0.8) else "pets"
        noun = self.random.choice(nouns(kind))
        plural = self.chance(0.25)
        names = NUMBERS if plural else ("ein", "ein", "der")
        phrase = self.phrase(noun, DETERMINERS[self.random.choice(names)], plural, share=0.25)
        pronoun = replace(phrase, determiner=DETERMINERS["der"]).german("nom").split()[0]
        clause = self.clause(Subject((phrase,)), ACTIONS, extras=0.0)
        more = clause.subordinate(Pair(pronoun, "who" if kind == "people" else "that"))
        return self.clause(Subject((replace(phrase, after=Pair(f", {more.de},", more.en)),)), extras=0.1).main()

    def modal_verb(self) -> Pair:
        """Can, must, may, wants to: the infinitive comes last."""
        subject = self.subject("people" if self.chance(0.8) else "")
        modal = self.agree(self.entry(lexicon.MODALS), subject)
        action = self.clause(subject, extras=0.25).with_infinitive()
        return Pair(join(subject.text.de, modal.de, action.de), join(subject.text.en, modal.en, action.en))

    def purpose(self) -> Pair:
        """Going somewhere in order to do something."""
        subject = self.subject("people")
        main, aim = self.clause(subject, MOVES, extras=0.15).main(), self.clause(subject, ACTIONS, extras=0.0).with_zu()
        return Pair(f"{main.de}, um {aim.de}", f"{main.en} {aim.en}")

    def negation(self) -> Pair:
        return self.clause(self.subject(), DENIABLE, extras=0.0, negated=True).main()

    def agree(self, forms: Pair, subject: Subject) -> Pair:
        """The singular or the plural form, each followed by what both share ("wants want to")."""
        chosen = [[words[subject.plural], *words[2:]] for words in (forms.de.split(), forms.en.split())]
        return Pair(*map(" ".join, chosen))


PATTERNS = {
    Author.plain: 16,
    Author.fronted: 19,
    Author.there: 5,
    Author.coordinated: 9,
    Author.accompanied: 10,
    Author.weathered: 5,
    Author.explained: 11,
    Author.thought: 7,
    Author.relative: 7,
    Author.modal_verb: 6,
    Author.purpose: 4,
    Author.negation: 5,
}
