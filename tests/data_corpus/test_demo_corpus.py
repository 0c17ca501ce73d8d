"""The demo corpus: what is on disk, what the generator promises about it, and the grammar by hand-checked examples."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import generate
import lexicon
import pytest
from captions import KEPT_OUT
from generate import LABELLED, MIN_COUNT, SHOWCASE, SIZES
from grammar import DETERMINERS, Clause, NounPhrase, Object, Pair, Subject, place, prepositional, sentence
from words import ADJECTIVES, NOUNS, Case

DATA = Path(generate.__file__).parent
LANGUAGES = ("de", "en")


def lines(split: str, language: str) -> list[str]:
    return (DATA / f"{split}.{language}").read_text(encoding="utf-8").split("\n")[:-1]


def counts(split: str, language: str) -> Counter[str]:
    return Counter(word for line in lines(split, language) for word in generate.words(line))


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script as a user runs it, from another folder and with another hash seed."""
    command = [sys.executable, str(folder / "generate.py"), *arguments]
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    return subprocess.run(
        command, cwd=folder.parent, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


# --- the files -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rewriting_gives_the_bytes_on_disk_and_check_names_what_differs(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for module in ("lexicon.py", "words.py", "grammar.py", "captions.py", "generate.py"):
        shutil.copy(DATA / module, folder)
    assert run(folder).returncode == 0
    texts = [*folder.glob("*.??"), *folder.glob("languages/*")]
    written = sorted(path.relative_to(folder).as_posix() for path in texts if path.suffix != ".py")
    parallel = [f"{split}.{language}" for split in SIZES for language in LANGUAGES]
    assert written == sorted([*parallel, *(f"languages/{split}.tsv" for split in LABELLED)])
    assert [name for name in written if (folder / name).read_bytes() != (DATA / name).read_bytes()] == []

    (folder / "val.en").write_bytes((DATA / "val.en").read_bytes().replace(b"dog", b"cat", 1))
    (folder / "test.de").unlink()
    (folder / "languages/val.tsv").unlink()
    refused = run(folder, "--check")
    assert refused.returncode == 1
    assert refused.stderr == (
        "data/: test.de, val.en, languages/val.tsv not as generated; run python data/generate.py\n"
    )
    assert not (folder / "test.de").exists()


@pytest.mark.slow
def test_check_accepts_the_corpus() -> None:
    accepted = run(DATA, "--check")
    assert (accepted.returncode, accepted.stdout, accepted.stderr) == (0, "", "")


@pytest.mark.parametrize("split", SIZES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_line_is_one_sentence(split: str, language: str) -> None:
    text = lines(split, language)
    assert len(text) == SIZES[split]
    odd = [line for line in text if not re.fullmatch(r"[A-ZÄÖÜ][a-zA-ZäöüÄÖÜß]*((?: |, )[a-zA-ZäöüÄÖÜß]+)+\.", line)]
    assert odd == []


def test_the_corpus_is_small() -> None:
    assert sum((DATA / f"{split}.{language}").stat().st_size for split in SIZES for language in LANGUAGES) < 2_000_000


@pytest.mark.parametrize("language", LANGUAGES)
def test_vocabulary_and_length_suit_a_small_model(language: str) -> None:
    found = counts("train", language)
    assert 400 <= len(found) <= 650
    assert 9 <= sum(len(line.split()) for line in lines("train", language)) / SIZES["train"] <= 13


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_comes_twice_and_the_showcase_never(language: str) -> None:
    text = [line for split in SIZES for line in lines(split, language)]
    assert len(set(text)) == len(text) == sum(SIZES.values())
    assert getattr(SHOWCASE, language) not in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("split", ["val", "test"])
def test_every_word_occurs_in_training(split: str, language: str) -> None:
    known = counts("train", language)
    assert [word for word in counts(split, language) if known[word] < MIN_COUNT] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_of_the_showcase_occur_in_training(language: str) -> None:
    known = counts("train", language)
    assert [word for word in generate.words(getattr(SHOWCASE, language)) if known[word] < MIN_COUNT] == []


def test_kept_out_adjectives_meet_their_nouns_only_outside_training() -> None:
    stems = {adjective.de: lexicon.STEMS.get(adjective.de, adjective.de) for adjective in ADJECTIVES}
    forms = {noun.de: {noun.de, noun.plural, f"{noun.plural}n"} for entries in NOUNS.values() for noun in entries}
    patterns = [
        rf"{stems[adjective]}(?:e|er|es|en|em)? (?:{'|'.join(sorted(forms[noun]))})\b"
        for adjective, noun in sorted(KEPT_OUT)
        if adjective in stems
    ]
    kept_out = re.compile(rf"(?i)\b(?:{'|'.join(patterns)})")
    assert len(patterns) > 20
    assert [line for line in lines("train", "de") if kept_out.search(line)] == []
    assert sum(bool(kept_out.search(line)) for line in lines("test", "de")) > SIZES["test"] // 4


def test_labelled_lines_are_lines_of_their_split_with_the_right_language() -> None:
    seen: set[str] = set()
    for split, count in LABELLED.items():
        rows = [line.split("\t") for line in lines(f"languages/{split}", "tsv")]
        assert len(rows) == count
        pairs = list(zip(lines(split, "de"), lines(split, "en"), strict=True))
        # Row by row one side of a pair: so no line is the translation of another.
        assert [text for _, text in rows] == [
            pair[LANGUAGES.index(language)] for (language, _), pair in zip(rows, pairs, strict=False)
        ]
        assert all(0.4 < sum(row[0] == language for row in rows) / count < 0.6 for language in LANGUAGES)
        assert seen.isdisjoint(text for _, text in rows)
        seen.update(text for _, text in rows)
    assert len(seen) == sum(LABELLED.values()) >= 2600
    assert sum(path.stat().st_size for path in (DATA / "languages").iterdir()) < 250_000


PHENOMENA = {
    "gender and case": (r"\beinen \w+en Hund\b", r"\ban? \w+ dog\b"),
    "weak masculine": (r"\bde[nm] (\w+en )?(Jungen|Affen|Bauern)\b", r"\bthe (\w+ )?(boy|monkey|farmer)\b"),
    "strong ending": (r"\bkalten (Tee|Kaffee|Orangensaft)\b", r"\bcold (tea|coffee|orange juice)\b"),
    "strong plural ending": (r"\bzwei \w+e Frauen\b", r"\btwo \w+ women\b"),
    "weak ending": (r"^Der \w+e Mann\b", r"^The \w+ man\b"),
    "mixed ending": (r"^Ein \w+er Mann\b", r"^An? \w+ man\b"),
    "no ending": (r"\beinen lila \w+", r"\ba purple \w+"),
    "dative plural": (r"\bmit \w+en Haaren\b", r"\bwith \w+ hair\b"),
    "inversion": (r"^Am Abend \w+t ", r"^In the evening, .* is \w+ing"),
    "inversion after a clause": (r"^Während [^,]+, \w+t \w+ ", r"^While [^,]+, .* is "),
    "time before place": (r"am Morgen .*(im|auf|neben) ", r" (in|on|next to) .* in the morning"),
    "verb-final: weil": (r", weil (er|sie|es) .*wartet\.$", r" because (he|she|it) is waiting for "),
    "verb-final: während": (r", während ein .*\w+t\.$", r" while an? .*ing"),
    "verb-final: dass": (r", dass .*\w+t\.$", r" that .*ing"),
    "relative clause": (r", (der|die|das) [^,]+ trägt, ", r" who is (wearing|carrying) "),
    "zu-infinitive": (r", um .*(an|auf|aus|weg)zu\w+en\.$", r" to (put|try|take|pick|throw|hang|look|call|open|tidy)"),
    "modal": (r"^[^,]+ (möchte|kann|muss|darf) [^,]+en\.$", r" (wants to|can|has to|is allowed to) "),
    "separable verb": (r"\bzieht [^,]* an\.$", r"is putting on "),
    "separable verb, joined": (r", [^,]* anzieht\.$", r"is putting on "),
    "prefix decides": (r"\bzieht [^,]* aus\.$", r"is taking off "),
    "reflexive": (r"\bfreut sich .*auf ", r"is looking forward to "),
    "compound": (r"Fahrradhelm", r"bicycle helmet"),
    "number": (r"\b[Ff]ünf ", r"\b[Ff]ive "),
    "two-way preposition, where": (r"springt auf (dem|der|einem|einer) ", r"is jumping on "),
    "two-way preposition, where to": (r"springt auf (den|die|das|einen|eine|ein) ", r"is jumping onto "),
    "contraction": (r"\bim Garten\b", r"\bin the garden\b"),
    "preposition of the verb: an": (r"\bdenkt .*an ", r"is thinking of "),
    "preposition of the verb: auf": (r"\bwartet .*auf ", r"is waiting for "),
    "preposition of the verb: none in German": (r"\bschaut [^,]* an\.$", r"is looking at "),
    "dative verb": (r"\bhilft (dem|einem|der|einer) ", r"is helping "),
    "two objects": (
        r"\bgibt (dem|der|einem|einer) .*(einen|eine|ein|den|die|das) ",
        r"is giving (the|an?) .* (the|an?) ",
    ),
    "object decides the verb: wear": (r"\bträgt [^,]*(hut|Mütze|Mantel)\b", r"is wearing .*(hat|cap|coat)\b"),
    "object decides the verb: carry": (r"\bträgt [^,]*(Korb|Koffer|Kiste)\b", r"is carrying .*(basket|suitcase|box)\b"),
    "noun decides the adjective: tall": (r"\bgroße (Frau|Ärztin|Köchin)\b", r"\btall (woman|doctor|cook)\b"),
    "noun decides the adjective: big": (r"\bgroße (Kuh|Ziege|Kiste)\b", r"\bbig (cow|goat|box)\b"),
    "negation by kein": (r"\b(isst|trägt) keinen ", r"is not (eating|wearing|carrying) "),
    "negation by nicht": (r" nicht ", r" (is|are) not "),
    "there is": (r"^Auf .* liegt ein", r"^There is an? .* (on|in) "),
    "possessive": (r"^[^,]*\b(Frau|Köchin|Ärztin) [^,]*\bihren ", r"\b(woman|cook|doctor) .*\bher "),
    "English plural only": (r"\beine (\w+ )?Sonnenbrille\b", r"(?<! a)(?<! the) (\w+ )?sunglasses\b"),
    "irregular plural": (r"\bKinder\b", r"\bchildren\b"),
    "an before a vowel": (r"\bein altes\b", r"\ban old\b"),
}


@pytest.mark.parametrize("phenomenon", PHENOMENA)
def test_phenomenon_occurs(phenomenon: str) -> None:
    german, english = PHENOMENA[phenomenon]
    found = [
        pair
        for pair in zip(lines("train", "de"), lines("train", "en"), strict=True)
        if re.search(german, pair[0], re.IGNORECASE) and re.search(english, pair[1], re.IGNORECASE)
    ]
    assert len(found) >= 5


# --- the grammar -----------------------------------------------------------------------------------------------------


def phrase(noun: str, determiner: str, adjective: str = "", plural: bool = False) -> NounPhrase:
    found = next((entry for entry, fits in ADJECTIVES.items() if entry.de == adjective and noun in fits), None)
    return NounPhrase(NOUNS[noun][0], DETERMINERS[determiner], found, plural)


def verb(english: str) -> lexicon.Verb:
    return next(entry for entry in lexicon.VERBS if entry.en == english)


@pytest.mark.parametrize(
    ("words", "case", "german", "english"),
    [
        (("Junge", "ein", "klein"), "nom", "ein kleiner Junge", "a little boy"),
        (("Junge", "der", "klein"), "acc", "den kleinen Jungen", "the little boy"),
        (("Mädchen", "ein", "groß"), "nom", "ein großes Mädchen", "a tall girl"),
        (("Mädchen", "der", "groß"), "dat", "dem großen Mädchen", "the tall girl"),
        (("Kuh", "ein", "alt"), "dat", "einer alten Kuh", "an old cow"),
        (("Kiste", "kein", "schwer"), "acc", "keine schwere Kiste", "no heavy box"),
        (("Zimmer", "ein", "dunkel"), "dat", "einem dunklen Zimmer", "a dark room"),
        (("Mauer", "der", "hoch"), "acc", "die hohe Mauer", "the high wall"),
        (("Hut", "ein", "lila"), "acc", "einen lila Hut", "a purple hat"),
        (("Milch", "", "kalt"), "acc", "kalte Milch", "cold milk"),
        (("Kaffee", "", "heiß"), "acc", "heißen Kaffee", "hot coffee"),
        (("Hose", "ein", "schwarz"), "dat", "einer schwarzen Hose", "black trousers"),
        (("Schaf", "zwei", "weiß", True), "dat", "zwei weißen Schafen", "two white sheep"),
        (("Feuerwehrmann", "viele", "müde", True), "nom", "viele müde Feuerwehrleute", "many tired firefighters"),
        (("Ärztin", "der", "freundlich", True), "nom", "die freundlichen Ärztinnen", "the friendly doctors"),
        (("Apfel", "fünf", "frisch", True), "acc", "fünf frische Äpfel", "five fresh apples"),
        (("Bus", "mehrere", "", True), "dat", "mehreren Bussen", "several buses"),
    ],
)
def test_noun_phrases_agree(words: tuple[str, str, str], case: Case, german: str, english: str) -> None:
    found = phrase(*words)
    assert (found.german(case), found.english()) == (german, english)


@pytest.mark.parametrize(
    ("group", "towards", "noun", "expected"),
    [
        ("surface", False, "Sofa", Pair("auf dem Sofa", "on the sofa")),
        ("surface", True, "Sofa", Pair("auf das Sofa", "onto the sofa")),
        ("room", False, "Garten", Pair("im Garten", "in the garden")),
        ("room", True, "Garten", Pair("in den Garten", "into the garden")),
        ("room", True, "Zelt", Pair("ins Zelt", "into the tent")),
        ("to", True, "Schule", Pair("zur Schule", "to the school")),
        ("out", True, "Haus", Pair("aus dem Haus", "out of the house")),
    ],
)
def test_places_take_the_case_that_the_motion_asks_for(group: str, towards: bool, noun: str, expected: Pair) -> None:
    assert place(group, towards, phrase(noun, "der")) == expected


def test_only_an_article_is_contracted() -> None:
    assert prepositional("an", "dem Fluss") == "am Fluss"
    assert prepositional("an", "einem Fluss") == "an einem Fluss"
    assert prepositional("", "dem Fluss") == "dem Fluss"


@pytest.fixture
def woman() -> Clause:
    """The woman puts on a red coat."""
    coat = Object("", "acc", phrase("Mantel", "ein", "rot"))
    return Clause(Subject((phrase("Frau", "der"),)), verb("put putting on"), (coat,), time=Pair("heute", "today"))


def test_main_clause(woman: Clause) -> None:
    expected = Pair("die Frau zieht heute einen roten Mantel an", "the woman is putting on a red coat today")
    assert woman.main() == expected


def test_subordinate_clause(woman: Clause) -> None:
    expected = Pair("sie heute einen roten Mantel anzieht", "she is putting on a red coat today")
    assert woman.subordinate(woman.subject.pronoun) == expected


def test_infinitives(woman: Clause) -> None:
    assert woman.with_infinitive() == Pair("heute einen roten Mantel anziehen", "put on a red coat today")
    assert woman.with_zu() == Pair("heute einen roten Mantel anzuziehen", "to put on a red coat today")


def test_second_clause_of_one_subject(woman: Clause) -> None:
    assert woman.second() == Pair("zieht heute einen roten Mantel an", "putting on a red coat today")


def test_a_known_object_stands_before_the_place_and_a_new_one_after_it() -> None:
    man, garden = Subject((phrase("Mann", "ein"),)), Pair("im Garten", "in the garden")
    known, new = (Object("", "acc", phrase("Buch", determiner)) for determiner in ("der", "ein"))
    read = verb("read reading")
    assert Clause(man, read, (known,), where=garden).main().de == "ein Mann liest das Buch im Garten"
    assert Clause(man, read, (new,), where=garden).main().de == "ein Mann liest im Garten ein Buch"


def test_two_subjects_take_the_plural() -> None:
    both = Subject((phrase("Junge", "der"), phrase("Frau", "der")))
    assert Clause(both, verb("cycle cycling")).main() == Pair(
        "der Junge und die Frau fahren Fahrrad", "the boy and the woman are cycling"
    )
    assert (both.pronoun, both.possessive.de, both.possessive.en) == (Pair("sie", "they"), "ihr", "their")


@pytest.mark.parametrize(
    ("noun", "pronoun", "possessive"),
    [
        ("Bauer", ("er", "he"), ("sein", "his")),
        ("Köchin", ("sie", "she"), ("ihr", "her")),
        ("Mädchen", ("es", "she"), ("sein", "her")),
        ("Kind", ("es", "it"), ("sein", "its")),
        ("Katze", ("sie", "it"), ("ihr", "its")),
    ],
)
def test_pronouns(noun: str, pronoun: tuple[str, str], possessive: tuple[str, str]) -> None:
    subject = Subject((phrase(noun, "ein"),))
    assert subject.pronoun == pronoun
    assert subject.possessive[:2] == possessive


def test_the_showcase_is_what_the_grammar_says() -> None:
    girl = Subject((phrase("Mädchen", "ein", "klein"),))
    coat, bus = Object("", "acc", phrase("Mantel", "ein", "rot")), Object("auf", "acc", phrase("Schulbus", "der"))
    main = Clause(girl, verb("put putting on"), (coat,)).main(front=Pair("im Winter", "in winter"))
    reason = Clause(girl, verb("wait waiting for"), (bus,)).subordinate(girl.pronoun)
    assert sentence(f"{main.de}, weil {reason.de}") == SHOWCASE.de
    assert sentence(f"{main.en} because {reason.en}") == SHOWCASE.en


def test_sentence_closes_an_open_comma() -> None:
    assert sentence("heute tanzt ein Mann , der singt,") == "Heute tanzt ein Mann, der singt."
