"""What makes scores mislead: text that looks wrong, and translations that say little."""

import unicodedata
from collections.abc import Sequence

from translate.data.processed import processed_warnings
from translate.text.languages import has_spaces

LONG_WORD = 15  # characters; a longer reference must be several words
DIVERGED = "the loss is infinite or NaN: the model has diverged; lower training.optimizer.lr and start over"
MIN_DISTINCT = 0.1  # share of different translations below which a model seems to ignore its input


def distinct_warning(distinct: int, sentences: int, references: int) -> str | None:
    """A warning if less than a tenth of the translations are distinct, and not because the text repeats itself.

    `references` is the number of distinct ones.
    """
    if distinct >= MIN_DISTINCT * sentences or 2 * distinct > references:
        return None
    return (
        f"only {distinct} of {sentences} translations are distinct: the model seems to ignore the source; it may need "
        "more updates (training.max_epochs or training.max_steps) or a lower learning rate (training.optimizer.lr)"
    )


def blanks_warning(unreferenced: int, sentences: int) -> str | None:
    """A warning if sentences have no reference that is not blank."""
    if not unreferenced:
        return None
    return f"{unreferenced} of {sentences} sentences have no reference, which changes the scores"


def form_warning(hypotheses: Sequence[str], references: Sequence[str]) -> str | None:
    """A warning if one side writes letters with marks as one Unicode character, and the other as several."""
    translations_nfd, translations_nfc = _forms(hypotheses)
    references_nfd, references_nfc = _forms(references)
    fewest = min(translations_nfd + translations_nfc, references_nfd + references_nfc)
    agree = (translations_nfd > translations_nfc) == (references_nfd > references_nfc)
    if agree or fewest * 100 < len(references):
        return None
    return (
        f"{references_nfd} references and {translations_nfd} translations are in Unicode form NFD (letters and marks "
        f"separate), but {references_nfc} and {translations_nfc} in NFC: to BLEU these are different words. Bring the "
        "target side of the training text and the references into the same form: uconv -x any-nfc makes it NFC"
    )


def _forms(lines: Sequence[str]) -> tuple[int, int]:
    """How many lines have letters and marks apart that could be one character, and how many others have them as one."""
    apart = [len(unicodedata.normalize("NFC", line)) < len(line) for line in lines]
    could = [len(unicodedata.normalize("NFD", line)) > len(line) for line in lines]
    return sum(apart), sum(c and not a for a, c in zip(apart, could, strict=True))


def spaces_warning(references: Sequence[str], language: str) -> str | None:
    """A warning if BLEU would count the words of text that has no spaces between them."""
    long = [line for line in references if len(line) > LONG_WORD]
    if not has_spaces(language) or 2 * sum(len(line.split()) < 2 for line in long) <= len(long):
        return None
    return (
        f"most references have no spaces, but BLEU splits words at spaces: {language!r} is not a known code of a "
        "language without spaces; give the data its ISO code (ja, zh, th, ...), or rely on chrF"
    )


def text_warnings(sources: Sequence[str], references: Sequence[str], language: str) -> list[str]:
    """What about a text makes its scores in this target language misleading."""
    return [*filter(None, [spaces_warning(references, language)]), *processed_warnings(sources, references)]
