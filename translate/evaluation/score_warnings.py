"""What makes scores mislead: text that looks wrong, and translations that say little."""

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress

from translate.text.languages import has_spaces

LONG_WORD = 15  # characters; a longer reference must be several words
PIECES = re.compile(r"@@( |$)|(^| )▁| ##\w|￭")  # of subword-nmt, SentencePiece, BERT and OpenNMT
TOKENIZED = re.compile(r"\S [.,](\s|$)| &apos;| @-@ ")
ENTITY = re.compile(r"&(?:\w+|#\d+|#x[0-9a-fA-F]+);")
MANY, SOME = 0.1, 0.02  # shares of lines; a text with so many, or more, is said to be so
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


def processed_warnings(sources: Sequence[str], references: Sequence[str]) -> list[str]:
    """Warnings if lines look as tokenizers and other programs leave them, instead of raw."""
    warnings = []
    for looks_so, share, what in TRACES:
        found = []
        for lines, side in ((sources, "sources"), (references, "references")):
            marked = sum(bool(looks_so(line)) for line in lines)
            if marked and marked >= share * len(lines):
                found.append(f"{marked} of {len(lines)} {side}")
        if found:
            warnings.append(f"{' and '.join(found)} {what}")
    return warnings


def _has_entities(line: str) -> bool:
    """Whether a line that is not tokenized has HTML entities; sacremoses undoes those that Moses' tokenizer writes."""
    return any(html.unescape(found) != found for found in ENTITY.findall(line)) and not TOKENIZED.search(line)


def _is_misread(line: str) -> bool:
    """Whether a line becomes another text if it is taken for UTF-8 that was read as Latin-1 or Windows-1252."""
    if line.isascii():
        return False
    with suppress(UnicodeError):
        b"".join(map(_byte, line)).decode()
        return True
    return False


def _byte(character: str) -> bytes:
    """The byte that Windows, and browsers, show as this character. UnicodeError if there is none."""
    with suppress(UnicodeError):
        return character.encode("cp1252")
    return character.encode("latin-1")


# What to look for in lines, the share of them with which a text is said to be so, and what to say.
TRACES: tuple[tuple[Callable[[str], object], float, str], ...] = (
    (
        PIECES.search,
        MANY,
        "are cut into pieces (@@, ▁): a model learns to expect and to write such text, and its scores are not those of "
        "raw text; join the pieces of training text and references: sed -E 's/@@( |$)| ##| ?￭ ?//g' FILE or, for "
        "SentencePiece, sed 's/ //g; s/▁/ /g; s/^ //' FILE",
    ),
    (
        TOKENIZED.search,
        MANY,
        "look tokenized (a space before the period, &apos;, @-@): a model learns to expect and to write such text, and "
        "its scores are not those of raw text; detokenize training text and references, for example with sacremoses",
    ),
    (
        _has_entities,
        SOME,
        "have HTML entities (&amp;, &#39;), which are read and written like that: turn them into characters, by "
        "python3 -c 'import html, sys; [print(*html.unescape(line).split()) for line in sys.stdin]' < FILE",
    ),
    (
        _is_misread,
        SOME,
        "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): take them from the original file, or mend them with a "
        "program such as ftfy (pip install ftfy)",
    ),
)


def text_warnings(sources: Sequence[str], references: Sequence[str], language: str) -> list[str]:
    """What about a text makes its scores in this target language misleading."""
    return [*filter(None, [spaces_warning(references, language)]), *processed_warnings(sources, references)]
