"""Text that is not raw any more: cut into pieces, tokenized, with HTML entities, or read in another encoding."""

import html
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

PIECES = re.compile(r"@@( |$)|(^| )▁| ##\w|￭")  # of subword-nmt, SentencePiece, BERT and OpenNMT
TOKENIZED = re.compile(r"\S [.,。、，](\s|$)| &apos;| @-@ ")
ENTITY = re.compile(r"&(?:\w+|#\d+|#x[0-9a-fA-F]+);")
# Shares of lines: a text with so many, or more, is said to be so.
HIGH_SHARE = 0.1
LOW_SHARE = 0.02


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
        HIGH_SHARE,
        "are cut into pieces (@@, ▁): a model learns to expect and to write such text, and its scores are not those of "
        "raw text; join the pieces of training text and references: sed -E 's/@@( |$)| ##| ?￭ ?//g' FILE or, for "
        "SentencePiece, sed 's/ //g; s/▁/ /g; s/^ //' FILE",
    ),
    (
        TOKENIZED.search,
        HIGH_SHARE,
        "look tokenized (a space before the period, &apos;, @-@): a model learns to expect and to write such text, and "
        "its scores are not those of raw text; detokenize training text and references, for example with sacremoses",
    ),
    (
        _has_entities,
        LOW_SHARE,
        "have HTML entities (&amp;, &#39;), which are read and written like that: turn them into characters, by "
        "python3 -c 'import html, sys; [print(*html.unescape(line).split()) for line in sys.stdin]' < FILE",
    ),
    (
        _is_misread,
        LOW_SHARE,
        "look like UTF-8 that was read as Latin-1 (Ã¼ for ü): take them from the original file, or mend them with a "
        "program such as ftfy (pip install ftfy)",
    ),
)
