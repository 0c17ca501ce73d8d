"""Labelled text on disk: one `label<TAB>text` per line, in a file for each split. It knows nothing about tokens."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from translate.data.corpus import (
    ParallelText,
    files_in,
    folder_and_name,
    names_of_split,
    read_pair,
    unpacked_name,
    what_is_no_file,
    what_is_there,
)
from translate.data.lines import excerpt, read_lines, text_sha256
from translate.errors import DataError
from translate.text.codec import compose

ENDING = ".tsv"  # and that of a packed file


def read_labelled(path: Path, known: Collection[str] | None = None) -> ParallelText:
    """Read texts (the source) and their labels (the target), which must be among `known` if that is given.

    The first tab ends the label; later ones belong to the text. White space around a label is not part of it. Blank
    lines at the end of the file are dropped.

    Raises:
        DataError: the file cannot be read or is empty, a line has no tab or no label, or a label is not known.
    """
    lines = read_lines(path)
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise DataError(f"{path} has no text. It needs one `label<TAB>text` per line.")
    texts, labels = [], []
    for number, line in enumerate(lines, start=1):
        label, tab, text = line.partition("\t")
        if not tab:
            raise DataError(f"{path}, line {number} has no tab: {excerpt(line)}. Write label, tab, text.")
        texts.append(text)
        labels.append(label.strip())
    _check_labels(path, labels, known)
    return _labelled_text(path.name, texts, labels)


def read_texts_and_labels(texts: Path, labels: Path, known: Collection[str]) -> ParallelText:
    """The same from two files that belong together line by line."""
    pair = read_pair(texts, labels)
    stripped = [label.strip() for label in pair.target]
    _check_labels(labels, stripped, known)
    return _labelled_text(pair.name, pair.source, stripped)


def read_labelled_split(root: Path, split: str, known: Collection[str] | None = None) -> ParallelText:
    """Read a split of the folder `root`; see find_labelled_split and read_labelled for what can go wrong."""
    return read_labelled(find_labelled_split(root, split), known)


def labelled_splits_in(root: Path) -> dict[str, Path]:
    """The splits that `root` has, in alphabetical order, each with its file, plain before packed."""
    found: dict[str, Path] = {}
    for path in files_in(root):
        name = unpacked_name(path)
        if name.endswith(ENDING) and not name.startswith("."):
            found.setdefault(name.removesuffix(ENDING), path)
    return dict(sorted(found.items()))


def find_labelled_split(root: Path, split: str) -> Path:
    """The file of a split, plain before packed. The exact name wins over every other name of the split.

    Raises:
        DataError: there is none.
    """
    folder, last = folder_and_name(root, split)
    found = labelled_splits_in(folder)
    for name in names_of_split(last):
        if path := found.get(name):
            return path
    names = names_of_split(last)[1:]
    also = f" (or under the name {' or '.join(names)})" if names else ""
    state = what_is_there(folder, last, list(found)) + what_is_no_file(root, [f"{split}{ENDING}"])
    raise DataError(
        f"No labelled split {split!r} in {root}: looked for {split}.tsv, plain, .gz or .zst{also}. {state} "
        "Set data.root (--data-root) to the folder that has it."
    )


def _check_labels(path: Path, labels: Sequence[str], known: Collection[str] | None) -> None:
    allowed = set(known if known is not None else labels)
    for number, label in enumerate(labels, start=1):
        if not label:
            raise DataError(f"{path}, line {number} has no label. Write one, or remove the line.")
        if label not in allowed:
            shown = ", ".join(map(repr, sorted(allowed)[:20])) + (", …" if len(allowed) > 20 else "")
            forms = ""
            if compose(label) in map(compose, allowed):
                forms = "It differs from one of these only in its Unicode form (uconv -x any-nfc makes all NFC). "
            raise DataError(
                f"{path}, line {number}: the label {label!r} does not occur in the training text, which has {shown}. "
                f"{forms}Correct it, remove the line, or train with texts of that label."
            )


def _labelled_text(name: str, texts: list[str], labels: list[str]) -> ParallelText:
    hashes = text_sha256(texts), text_sha256(labels)
    counts = Counter(labels)
    variant = f"{len(counts)} labels, sha256 {hashes[0][:8]}… / {hashes[1][:8]}…"
    return ParallelText(name, texts, labels, *hashes, variant, unit="texts")
