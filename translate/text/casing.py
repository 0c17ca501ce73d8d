"""Truecasing as in Moses (Koehn et al., 2007): the first word of a line gets the case it has elsewhere, and back.

What a word is like in the middle of lines is learned from training text, so that "Der Hund" and "der Hund" are the
same words to a model. Going back, a line begins with a capital letter.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

WORD = re.compile(r"[^\W\d_]+")
# Behind an opening quotation mark, but not behind a number. An article of one letter behind an apostrophe, as in Dutch
# and Afrikaans, is none: it stays lower-case.
FIRST_WORD = re.compile(r"^(\W*)(?!(?<=['’ʼ])[^\W\d_]\b)([^\W\d_]+)")


@dataclass(frozen=True)
class Truecaser:
    """The words that are lower-case unless a line begins with them."""

    lowered: frozenset[str]

    def apply(self, line: str) -> str:
        """The line with its first word as it would be elsewhere."""
        found = FIRST_WORD.match(line)
        if not found or found[2] != found[2].capitalize() or found[2].lower() not in self.lowered:
            return line
        return found[1] + found[2].lower() + line[found.end() :]

    def undo(self, line: str) -> str:
        """The line with a capital letter at its beginning."""
        found = FIRST_WORD.match(line)
        # As in a title: some letters are two in one, and Georgian has capitals for whole words only.
        return found[1] + found[2][0].title() + found[2][1:] + line[found.end() :] if found else line


def learn_truecaser(lines: Iterable[str]) -> Truecaser:
    """The words that are more often lower-case than capitalized where no line begins."""
    counts: Counter[str] = Counter()
    for line in lines:
        first = FIRST_WORD.match(line)
        counts.update(WORD.findall(line, first.end() if first else 0))
    return Truecaser(frozenset(word for word in counts if word.islower() and counts[word] > counts[word.capitalize()]))
