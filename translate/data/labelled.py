"""Labelled text on disk: one `label<TAB>text` per line, in a file for each split. It knows nothing about tokens."""

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from translate.data.corpus import TextInMemory, TextPair, open_pair
from translate.data.digest import TextDigest, abridged, text_sha256
from translate.data.lines import Column, FileText, excerpt, lines_of, version_of, without_blank_end
from translate.errors import DataError
from translate.text.codec import compose

log = logging.getLogger("translate")


def open_labelled(path: Path, known: Collection[str] | None = None) -> TextPair:
    """Texts (the source) and their labels (the target), read once to check and hash them.

    The first tab ends the label; later ones belong to the text. White space around a label is not part of it. Blank
    lines at the end of the file are dropped.

    Raises:
        DataError: the file cannot be read or is empty, a line has no tab or no label, or a label is not among `known`,
            if that is given.
    """
    version = version_of(path)
    lines = 0
    labels: set[str] = set()
    text_digest, label_digest = TextDigest(), TextDigest()
    for lines, line in enumerate(without_blank_end(lines_of(path)), start=1):
        if "\t" not in line:
            raise DataError(f"{path}, line {lines} has no tab: {excerpt(line)}. Write label, tab, text.")
        label = _label(line)
        if label not in labels:
            _check_label(path, lines, label, known)
            labels.add(label)
        text_digest.add([_text(line)])
        label_digest.add([label])
    if not lines:
        raise DataError(f"{path} has no text. It needs one `label<TAB>text` per line.")
    rows = FileText(path, lines, version)
    digests = text_digest.hexdigest(), label_digest.hexdigest()
    variant = _variant(len(labels), *digests)
    return TextPair(path.name, Column(rows, _text), Column(rows, _label), *digests, variant, unit="texts")


def check_variety(text: TextPair) -> None:
    """DataError if all texts have one label; a warning if what is read as labels may be something else."""
    counts = Counter(text.target)
    first = next(iter(counts))
    if len(counts) == 1:
        raise DataError(f"{text.name}: all texts have the label {first!r}; give texts of at least two labels")
    once = [label for label, count in counts.items() if count == 1]
    if 2 * len(once) > len(counts):
        log.warning(
            "%s: %d of %d labels occur only once; each line is label, tab, text: are they in this order?",
            text.name,
            len(once),
            len(counts),
        )
    elif first in once:
        log.warning("%s: the label %r of line 1 occurs only there: is it a header?", text.name, first)


def _label(row: str) -> str:
    """What comes before the first tab, without white space around it."""
    return row.partition("\t")[0].strip()


def _text(row: str) -> str:
    """What comes after the first tab."""
    return row.partition("\t")[2]


def read_texts_and_labels(texts: Path, labels: Path, known: Collection[str] | None) -> TextInMemory:
    """Texts and their labels from two files that belong together line by line. DataError as open_labelled."""
    pair = open_pair(texts, labels).in_memory()
    stripped = [label.strip() for label in pair.target]
    for number, label in enumerate(stripped, start=1):
        _check_label(labels, number, label, known)
    target_sha256 = text_sha256(stripped)
    variant = _variant(len(set(stripped)), pair.source_sha256, target_sha256)
    return replace(pair, target=stripped, target_sha256=target_sha256, variant=variant, unit="texts")


def _check_label(path: Path, number: int, label: str, known: Collection[str] | None) -> None:
    """DataError if the label of this line is empty, or not among `known`."""
    if not label:
        raise DataError(f"{path}, line {number} has no label. Write one, or remove the line.")
    if known is None or label in known:
        return
    shown = ", ".join(map(repr, sorted(known)[:20])) + (", …" if len(known) > 20 else "")
    forms = ""
    if compose(label) in map(compose, known):
        forms = "It differs from one of these only in its Unicode form (uconv -x any-nfc makes all NFC). "
    raise DataError(
        f"{path}, line {number}: the label {label!r} does not occur in the training text, which has {shown}. "
        f"{forms}Correct it, remove the line, or train with texts of that label."
    )


def _variant(labels: int, source_sha256: str, target_sha256: str) -> str:
    return f"{labels} labels, {abridged(source_sha256, target_sha256)}"
