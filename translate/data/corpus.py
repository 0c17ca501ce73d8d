"""Parallel text on disk: find the two files of a split, read them, and make sure that they belong together.

It knows nothing about tokens.
"""

import gzip
import hashlib
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import accumulate
from pathlib import Path

from translate.data.known import DOWNLOADED_SPLITS, describe_variant
from translate.errors import DataError

# Names that different copies of Multi30k give to the same split; any of them finds the others.
ALIASES = (
    ("train", "training"),
    ("val", "valid", "validation", "dev"),
    ("test_2016_flickr", "test2016", "test"),
)
# Where the files lie below `root`: in itself, in a clone of the authors' repository, in the caches of torchtext 0.6 and
# of torchtext 0.12 and later.
FOLDERS = (".", "data/task1/raw", "multi30k", "datasets/Multi30k")


@dataclass(frozen=True)
class ParallelText:
    """Sentences and their translations, or texts and their labels, line by line, exactly as written."""

    name: str
    source: list[str]
    target: list[str]
    source_sha256: str
    target_sha256: str
    variant: str
    unit: str = "pairs"  # what messages count


# --- one file --------------------------------------------------------------------------------------------------------


def read_lines(path: Path) -> list[str]:
    """Read a UTF-8 text, plain or .gz, as lines without their ends.

    Only a line feed ends a line, and one carriage return before it belongs to the end: other separators, such as
    U+2028, are part of the sentence.

    Raises:
        DataError: the file is missing, unreadable, a folder, damaged or not UTF-8.
    """
    content = _read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        place = error.start - content.rfind(b"\n", 0, error.start)
        raise DataError(
            f"{path}, line {line}, byte {place}: {content[error.start]:#04x} is not UTF-8 ({error.reason}). "
            "Save the file as UTF-8."
        ) from None
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder. Name a file.") from None
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{path} is not a sound gzip file ({error}). Get it again, or rename it if it is plain."
        ) from None
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path} is a damaged or cut-off gzip file ({error}). Get it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def text_sha256(lines: Sequence[str]) -> str:
    """Digest of a text, the same in every container: each line followed by one line feed, in UTF-8."""
    return hashlib.sha256(("\n".join(lines) + "\n").encode("utf-8")).hexdigest()


# --- two files -------------------------------------------------------------------------------------------------------


def read_pair(source: Path, target: Path, name: str) -> ParallelText:
    """Read two files whose lines belong together.

    Blank lines that end both files are dropped: some archives of Multi30k have one.

    Raises:
        DataError: a file cannot be read, the text is empty, or the line counts differ.
    """
    source_lines, target_lines = read_lines(source), read_lines(target)
    while source_lines and target_lines and not source_lines[-1].strip() and not target_lines[-1].strip():
        source_lines.pop()
        target_lines.pop()
    for path, lines in ((source, source_lines), (target, target_lines)):
        if not any(map(str.strip, lines)):
            raise DataError(f"{path} has no text. It needs one sentence a line.")
    if len(source_lines) != len(target_lines):
        line = _parting_line(source_lines, target_lines)
        raise DataError(
            f"{source} has {len(source_lines)} lines, {target} has {len(target_lines)}; line by line they must belong "
            f"together. They seem to part near line {line}:\n"
            f"  source: {_excerpt(source_lines, line)}\n"
            f"  target: {_excerpt(target_lines, line)}"
        )
    source_sha256, target_sha256 = text_sha256(source_lines), text_sha256(target_lines)
    variant = describe_variant(name, len(source_lines), source_sha256, target_sha256)
    return ParallelText(name, source_lines, target_lines, source_sha256, target_sha256, variant)


def _parting_line(source: Sequence[str], target: Sequence[str]) -> int:
    """Guess the line, from 1, where texts of unequal line counts stop to run side by side.

    Lengths of translations go together. Before the parting, line i belongs to line i; after it, to the line that lies
    as far ahead as the counts differ. The guess is the cut with the least total misfit of lengths.
    """
    long, short = sorted(([len(line) for line in side] for side in (source, target)), key=len, reverse=True)
    usual = math.log((sum(long) + 1) / (sum(short) + 1))

    def misfit(a: int, b: int) -> float:
        return abs(math.log((a + 1) / (b + 1)) - usual)

    before = accumulate(map(misfit, long, short), initial=0.0)
    after = accumulate(map(misfit, reversed(long), reversed(short)), initial=0.0)
    costs = [b + a for b, a in zip(before, reversed(list(after)), strict=True)]
    return costs.index(min(costs)) + 1


def _excerpt(lines: Sequence[str], line: int) -> str:
    if line > len(lines):
        return "(no more lines)"
    text = lines[line - 1]
    return repr(text if len(text) <= 80 else text[:79] + "…")


# --- a folder of splits ----------------------------------------------------------------------------------------------


def read_split(root: Path, split: str, source: str, target: str) -> ParallelText:
    """Read a split of the folder `root`; see find_split and read_pair for what can go wrong."""
    return read_pair(*find_split(root, split, source, target), name=split)


def list_splits(root: Path, source: str, target: str) -> list[str]:
    """Names, in alphabetical order, of the splits that `root` has in both languages."""
    return sorted(split for split, sides in _scan(root, source, target).items() if len(sides) == 2)


def find_split(root: Path, split: str, source: str, target: str) -> tuple[Path, Path]:
    """Find the two files of a split in any layout of Multi30k. The exact name wins over every other name of the split.

    Raises:
        DataError: the split is not there, or in one language only.
    """
    found = _scan(root, source, target)
    for name in names_of_split(split):
        if sides := found.get(name):
            for there, missing in ((source, target), (target, source)):
                if missing not in sides:
                    raise DataError(
                        f"{root}: {sides[there].name} is there, but neither {name}.{missing} nor {name}.{missing}.gz. "
                        f"Put one of them into {sides[there].parent}."
                    )
            return sides[source], sides[target]
    raise DataError(_not_found(root, split, source, target, sorted(found)))


def names_of_split(split: str) -> list[str]:
    """The name asked for, then the other names of that split."""
    group = next((names for names in ALIASES if split in names), ())
    return [split, *(name for name in group if name != split)]


def _scan(root: Path, source: str, target: str) -> dict[str, dict[str, Path]]:
    """Map split to language to file; the first folder with any side of a split counts, and plain text before .gz."""
    found: dict[str, dict[str, Path]] = {}
    for folder in FOLDERS:
        here: dict[str, dict[str, Path]] = {}
        for path in files_in(root / folder):
            split, _, language = path.name.removesuffix(".gz").rpartition(".")
            # A leading dot marks what is not text, such as the "._test.de" that macOS packs into archives.
            if language in (source, target) and split and not split.startswith("."):
                here.setdefault(split, {}).setdefault(language, path)
        found = here | found
    return found


def files_in(folder: Path) -> list[Path]:
    """Files in order of their names, so that "train.de" comes before "train.de.gz"; none where there is no folder."""
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from None


def _not_found(root: Path, split: str, source: str, target: str, there: Sequence[str]) -> str:
    names = names_of_split(split)
    if not root.is_dir():
        state = f"{root} is a file, not a folder." if root.exists() else f"The folder {root} does not exist."
    elif there:
        near = get_close_matches(split, there, n=1)
        state = f"Splits there: {', '.join(there)}." + (f" Did you mean {near[0]}?" if near else "")
    else:
        files = [path.name for path in files_in(root)]
        shown = ", ".join(files[:8]) + (", …" if len(files) > 8 else "")
        state = f"There is no split in these languages; files there: {shown or 'none'}."
    remedy = "Set data.root (--data-root) to the folder that has them"
    if not root.exists() and {source, target} == {"de", "en"} and any(name in DOWNLOADED_SPLITS for name in names):
        remedy += ", or data.download=true to download Multi30k"
    also = f" (or under the name {' or '.join(names[1:])})" if names[1:] else ""
    return (
        f"No split {split!r} in {root}: looked for {split}.{source} and {split}.{target}, plain or .gz{also}. "
        f"{state} {remedy}."
    )
