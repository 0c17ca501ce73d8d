"""Lower case, and truecasing as in Moses (Koehn et al., 2007): the first word of a line gets the case it has elsewhere.

How a word is written in the middle of lines is learned from training text, so that "Der Hund" and "der Hund" are the
same words to a model. When a line is detokenized, it gets a capital letter at its beginning, unless its first word
contains one, or is part of a placeholder, an option, a tag, a path or an address: `%s`, `--help`, `<b>`, `http://`.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from translate.text.languages import has_letter_ij, has_two_i

MARK = r"\u0300-\u036f"  # combining marks, which belong to the letter before; text need not be composed (NFC)
LETTER = rf"[^\W\d_][{MARK}]*"
LETTERS = rf"(?:{LETTER})+"  # only one way to match a text, so that no search takes exponential time
WORD = re.compile(LETTERS)
FIRST_WORD = re.compile(
    r"^(\W*)"  # such as an opening quotation mark, but no number
    rf"(?!(?<=['’ʼ]){LETTER}(?![\w{MARK}]))"  # no article of one letter, lower-case in Dutch and Afrikaans: 't, 'n
    r"(?<![%$@#&/\\.…{<=+*~^|-])(?<!%\()"  # nor %s, %(name)s, --help, <unk>, .txt
    rf"({LETTERS})"
    rf"(?![{MARK}]|{LETTER}|[_@/\\]|:/|\(\)|\.\w)"  # to its end; nor file_name, a/b, http://, main(), index.html
)
# Share of lines that begin with a small letter. With 0.18, in messages of programs, capitals cost 0.4 BLEU.
MAX_SMALL = 0.1

log = logging.getLogger("translate")


@dataclass(frozen=True)
class Truecaser:
    """The words of a language that are lower-case unless a line begins with them."""

    lowered: frozenset[str]
    language: str

    def apply(self, line: str) -> str:
        """The line with its first word as it would be in mid-line."""
        found = FIRST_WORD.match(line)
        if not found:
            return line
        word = lower(found[2], self.language)
        if found[2] != capitalize(word, self.language) or word not in self.lowered:
            return line
        return found[1] + word + line[found.end() :]

    def undo(self, line: str) -> str:
        """The line with a capital letter at its beginning, if its first word is all lower-case."""
        found = FIRST_WORD.match(line)
        if not (found and found[2].islower()):  # "iPhone" stays as it is.
            return line
        return found[1] + capitalize(found[2], self.language) + line[found.end() :]


def lower(text: str, language: str) -> str:
    """The text in lower case. In Turkish and Azeri, İ becomes i and I becomes ı."""
    if has_two_i(language):
        text = text.replace("I\N{COMBINING DOT ABOVE}", "i").replace("İ", "i").replace("I", "ı")
    return text.lower()


def capitalize(word: str, language: str) -> str:
    """The word with a capital letter in front; other letters stay as they are."""
    if word[0] == "i" and has_two_i(language):
        return "İ" + word[1:]
    if word.startswith("ij") and has_letter_ij(language):
        return "IJ" + word[2:]
    # Title case, because upper case would be wrong for characters that are two letters in one (ǆ becomes ǅ, not Ǆ), and
    # for Georgian, which has capitals for whole words only.
    return word[0].title() + word[1:]


def learn_truecaser(lines: Iterable[str], language: str) -> Truecaser | None:
    """A truecaser of the words that are more often lower-case than capitalized in mid-line.

    None if more than MAX_SMALL of the lines begin with a small letter: then a first word keeps its case.
    """
    counts: Counter[str] = Counter()
    small = large = 0  # lines that begin with a lower-case letter, and with a capital
    for line in lines:
        first = FIRST_WORD.match(line)
        counts.update(WORD.findall(line, first.end() if first else 0))
        if first:
            small += first[2][0].islower()
            large += first[2][0].isupper()
    if small > MAX_SMALL * (small + large):
        share = f"{small / (small + large):.0%}"
        log.info("truecase leaves the text of %r as it is: %s of its lines begin with a small letter", language, share)
        return None
    lowered = (word for word in counts if word.islower() and counts[word] > counts[capitalize(word, language)])
    return Truecaser(frozenset(lowered), language)
