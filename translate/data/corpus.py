"""Parallel text on disk: find the two files of a split, read them, and make sure that they belong together.

It knows nothing about tokens.
"""

import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path

import numpy as np

from translate.data.known import DOWNLOADED_SPLITS, describe_variant
from translate.data.lines import PACKED, FileText, Text, excerpt, read_blocks, version_of
from translate.errors import DataError
from translate.paths import exists

# Names that different copies of Multi30k give to the same split; any of them finds the others.
ALIASES = (
    ("train", "training"),
    ("val", "valid", "validation", "dev"),
    ("test_2016_flickr", "test2016", "test"),
)
# Where the files may lie below `root`: directly, in a clone of the authors' repository, in the caches of torchtext 0.6
# and of torchtext 0.12 and later.
FOLDERS = (".", "data/task1/raw", "multi30k", "datasets/Multi30k")


@dataclass(frozen=True)
class TextPart:
    """One of the corpora or files that make up a text: its number of pairs, and how often an epoch has each of them."""

    name: str
    pairs: int
    weight: int
    variant: str = ""  # as TextPair has it


@dataclass(frozen=True)
class TextPair:
    """Sentences and their translations, or texts and their labels, line by line, exactly as written.

    Args:
        parts: the corpora or files that make up the text, in their order; none if it is a single one.
        vocabulary: the part of it that vocabularies are learned from, if that is not all of it.
    """

    name: str
    source: Text
    target: Text
    source_sha256: str
    target_sha256: str
    variant: str
    unit: str = "pairs"  # what messages count
    parts: tuple[TextPart, ...] = ()
    vocabulary: "TextPair | None" = None

    def counted(self, number: int) -> str:
        """A number of pairs or texts, for messages."""
        return f"{number} {self.unit if number != 1 else self.unit.removesuffix('s')}"

    def in_memory(self) -> "ParallelText":
        """The same in memory."""
        return ParallelText(**{**vars(self), "source": list(self.source), "target": list(self.target)})

    def place(self, line: int) -> str:
        """How messages name the line at index `line`: by its number within its corpus, counted from 1."""
        for part in self.parts:
            if line < part.pairs:
                return f"{part.name} line {line + 1}"
            line -= part.pairs
        return f"line {line + 1}"


@dataclass(frozen=True)
class ParallelText(TextPair):
    """The same, held in memory."""

    source: list[str]
    target: list[str]


# --- two files -------------------------------------------------------------------------------------------------------


def read_pair(source: Path, target: Path, name: str | None = None) -> ParallelText:
    """Read two files whose lines belong together into memory; see scan_pair."""
    return scan_pair(source, target, name).in_memory()


def scan_pair(source: Path, target: Path, name: str | None = None) -> TextPair:
    """Two files whose lines belong together, read once to check and hash them. Named after both files by default.

    As many blank lines as both files end with are left out: some archives of Multi30k have one.

    Raises:
        DataError: a file cannot be read, the text is empty, or the line counts differ.
    """
    sides = _File(source), _File(target)
    left_out = min(len(side.blank_end) for side in sides)
    for side in sides:
        if side.lines == len(side.blank_end):
            raise DataError(f"{side.path} has no text. It needs one sentence per line.")
    counts = [side.lines - left_out for side in sides]
    lines = FileText(source, counts[0], sides[0].version), FileText(target, counts[1], sides[1].version)
    if counts[0] != counts[1]:
        line = _first_misaligned_line(*lines)
        raise DataError(
            f"{source} has {sides[0].lines} lines, {target} has {sides[1].lines}; they must correspond line by line. "
            f"They seem to diverge near line {line}:\n"
            f"  source: {_excerpt(lines[0], line)}\n"
            f"  target: {_excerpt(lines[1], line)}"
        )
    hashes = sides[0].sha256(left_out), sides[1].sha256(left_out)
    name = name or f"{source.name} / {target.name}"
    return TextPair(name, *lines, *hashes, describe_variant(name, counts[0], *hashes))


class _File:
    """What one pass over a file finds: its number of lines, the blank lines at its end, and its digest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = version_of(path)
        self.lines = 0
        self.blank_end: list[str] = []
        self._digest = hashlib.sha256()
        for block in read_blocks(path):
            self.lines += len(block)
            end = len(block)
            while end and not block[end - 1].strip():
                end -= 1
            if end:
                self._add([*self.blank_end, *block[:end]])
                self.blank_end = []
            self.blank_end += block[end:]

    def _add(self, lines: Sequence[str]) -> None:
        self._digest.update("".join(f"{line}\n" for line in lines).encode("utf-8"))

    def sha256(self, left_out: int) -> str:
        """The digest of the lines except the last `left_out`, as text_sha256 computes it. To be called once."""
        self._add(self.blank_end[: len(self.blank_end) - left_out])
        return self._digest.hexdigest()


def _first_misaligned_line(source: Text, target: Text) -> int:
    """Guess the line, counted from 1, from which texts of unequal line counts are no longer aligned.

    It assumes that the shorter text lacks lines at one place: before it, line i is aligned with line i, after it with
    line i plus the difference of the counts. As a translation is about as long as its source, the guess is the place
    for which the lengths of aligned lines differ least in sum.
    """
    lengths = (np.fromiter(map(len, side), np.int64, len(side)) + 1 for side in (source, target))
    long, short = sorted(lengths, key=len, reverse=True)
    usual = math.log(long.mean() / short.mean())
    before = np.abs(np.log(long[: len(short)] / short) - usual)
    after = np.abs(np.log(long[len(long) - len(short) :] / short) - usual)
    zero = np.zeros(1)
    costs = np.cumsum(np.concatenate((zero, before))) + np.cumsum(np.concatenate((zero, after[::-1])))[::-1]
    # A file that was cut off lacks lines at its end: preferred if that costs as little, up to chance in a line or two.
    at_the_end = costs[-1] - costs.min() <= 2 * costs.min() / len(short)
    return (len(short) if at_the_end else int(costs.argmin())) + 1


def _excerpt(lines: Text, line: int) -> str:
    text = next(islice(lines, line - 1, line), None)
    return "(no more lines)" if text is None else excerpt(text)


# --- a folder of splits ----------------------------------------------------------------------------------------------


def read_split(root: Path, split: str, source: str, target: str) -> ParallelText:
    """Read a split of the folder `root`; see find_split and read_pair for what can go wrong."""
    return read_pair(*find_split(root, split, source, target), name=split)


def open_split(root: Path, split: str, source: str, target: str) -> TextPair:
    """The same split as a text that is not held in memory."""
    return scan_pair(*find_split(root, split, source, target), name=split)


def splits_in(root: Path, source: str, target: str) -> dict[str, tuple[Path, Path]]:
    """The splits that `root` has in both languages, in alphabetical order, with their two files."""
    found = _scan(root, source, target)
    return {split: (sides[source], sides[target]) for split, sides in sorted(found.items()) if len(sides) == 2}


def find_split(root: Path, split: str, source: str, target: str) -> tuple[Path, Path]:
    """Find the two files of a split in any layout of Multi30k. The exact name wins over every other name of the split.

    The split may lie in a folder below `root`: `news/test`.

    Raises:
        DataError: the split is not there, or in one language only.
    """
    if source == target:
        raise DataError(
            f"Source and target language are both {source!r}, so both files of {split!r} would have the same name; "
            "name two files (--source FILE --reference FILE)."
        )
    folder, last = folder_and_name(root, split)
    found = _scan(folder, source, target)
    for name in names_of_split(last):
        if sides := found.get(name):
            for there, side, missing in ((target, "source", source), (source, "target", target)):
                if missing not in sides:
                    raise DataError(_half_found(folder, name, sides[there], side, missing))
            return sides[source], sides[target]
    raise DataError(_not_found(root, split, source, target, sorted(found)))


def folder_and_name(root: Path, split: str) -> tuple[Path, str]:
    """The folder in which a split lies, which may be one below `root`, and its name there."""
    return root / Path(split).parent, Path(split).name


def names_of_split(split: str) -> list[str]:
    """The name asked for, then the other names of that split."""
    group = next((names for names in ALIASES if split in names), ())
    return [split, *(name for name in group if name != split)]


def _scan(root: Path, source: str, target: str) -> dict[str, dict[str, Path]]:
    """Map split to language to file; the first folder with any side of a split wins, and plain text before packed."""
    found: dict[str, dict[str, Path]] = {}
    for folder in FOLDERS:
        here: dict[str, dict[str, Path]] = {}
        for path in files_in(root / folder):
            name = unpacked_name(path)
            for language in (source, target):
                split = name.removesuffix(f".{language}")
                # A leading dot marks what is not text, such as the "._test.de" that macOS packs into archives.
                if split not in ("", name) and not split.startswith("."):
                    here.setdefault(split, {}).setdefault(language, path)
        found = here | found
    return found


def unpacked_name(path: Path) -> str:
    """The name of a file without `.gz` or `.zst`."""
    return path.name.removesuffix(path.suffix if path.suffix in PACKED else "")


def files_in(folder: Path) -> list[Path]:
    """Files in order of their names, so that "train.de" comes before "train.de.gz"; none where there is no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from None


def is_folder(path: Path) -> bool:
    """Whether there is such a folder. DataError if that cannot be known, as inside one that may not be entered."""
    try:
        return path.is_dir()
    except OSError as error:
        raise DataError(f"The folder {path} cannot be read: {error.strerror}.") from None


def _half_found(folder: Path, name: str, there: Path, side: str, missing: str) -> str:
    others = [path.name for path in files_in(there.parent) if path != there and path.name.startswith(f"{name}.")]
    here = f" If it is {' or '.join(others)}, set data.{side} to that ending (or name both files)." if others else ""
    return (
        f"{folder}: {there.name} is there, but {name}.{missing}, plain, .gz or .zst, is not. "
        f"Put it into {there.parent}.{here}{what_is_no_file(there.parent, [f'{name}.{missing}'])}"
    )


def _not_found(root: Path, split: str, source: str, target: str, there: Sequence[str]) -> str:
    folder, last = folder_and_name(root, split)
    names = names_of_split(last)
    ending = next((ending for ending in (f".{source}", f".{target}") if split.endswith(ending)), "")
    state = what_is_there(folder, "" if ending else last, there)
    if is_folder(folder) and not there:
        files = files_in(folder)
        shown = ", ".join(path.name for path in files[:8]) + (", …" if len(files) > 8 else "")
        state = f"There is no split in these languages; files there: {shown or 'none'}."
        if table := next((path for path in files if path.suffix == ".tsv"), None):
            name = last.removesuffix(".tsv")
            one, other = text_columns(table)
            state += f" To turn table columns into files: cut -f{one} {table} > {folder / name}.{source}"
            state += f" (and -f{other}, {target})."
    remedy = (
        "Set data.root (--data-root) to the folder that has them, or name two files: {source: FILE, target: FILE} "
        "(--source FILE --reference FILE)"
    )
    if not root.exists() and {source, target} == {"de", "en"} and any(name in DOWNLOADED_SPLITS for name in names):
        remedy += ", or data.download=true to download Multi30k"
    state += what_is_no_file(root, [f"{split}.{source}", f"{split}.{target}"])
    if ending:
        state += f" A split is named without the ending of its files: did you mean {split.removesuffix(ending)}?"
    also = f" (or under the name {' or '.join(names[1:])})" if names[1:] else ""
    return (
        f"No split {split!r} in {root}: looked for {split}.{source} and {split}.{target}, plain, .gz or .zst{also}. "
        f"{state} {remedy}."
    )


def text_columns(table: Path) -> tuple[int, int]:
    """The first two columns of a table that are not numbers in its first row, counted from 1."""
    row: list[str] = []
    with suppress(DataError):  # That it cannot be read is another matter.
        row = next(chain.from_iterable(read_blocks(table)), "").split("\t")
    found = [number for number, cell in enumerate(row, start=1) if not cell.strip().isdigit()]
    return (found[0], found[1]) if len(found) > 1 else (1, 2)


def what_is_no_file(folder: Path, names: Sequence[str]) -> str:
    """For a message: which of these names in a folder are those of something else than a file."""
    found = []
    for path in (folder / name for name in names):
        if path.is_symlink() and not exists(path):
            found.append(f" {path.name} is a link to {path.readlink()}, which does not exist.")
        elif exists(path):
            found.append(f" {path.name} is there, but is not a regular file.")
    return "".join(found)


def what_is_there(root: Path, split: str, there: Sequence[str]) -> str:
    """What a folder without this split has instead, for a message; `there` are the splits that it has."""
    if not is_folder(root):
        return f"{root} is a file, not a folder." if root.exists() else f"The folder {root} does not exist."
    near = get_close_matches(split, there, n=1)
    return f"Splits there: {', '.join(there) or 'none'}." + (f" Did you mean {near[0]}?" if near else "")
