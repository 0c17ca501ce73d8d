"""Find the files of a split in a folder: two of parallel text, in any layout of Multi30k, or one of labelled text."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from translate.data.archives import ARCHIVES, is_archive, is_damaged, members_of
from translate.data.corpus import TextPair, open_pair
from translate.data.labelled import open_labelled
from translate.data.lines import PACKED
from translate.data.multi30k import DOWNLOADED_LANGUAGES, DOWNLOADED_SPLITS
from translate.data.table import text_columns
from translate.errors import DataError
from translate.system.paths import exists, is_folder

# Names that different copies of Multi30k give to the same split; any of them finds the others.
ALIASES = (
    ("train", "training"),
    ("val", "valid", "validation", "dev"),
    ("test_2016_flickr", "test2016", "test"),
)
LABELLED = ".tsv"  # the ending of labelled text, before that of a packed file
TABLES = (".parquet", ".jsonl", ".csv", ".json")  # first those that are no list of other files
ARCHIVE_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip", ".7z")
# Where the files may lie below `root`: directly, in a clone of the authors' repository, in the caches of torchtext 0.6
# and of torchtext 0.12 and later.
FOLDERS = (".", "data/task1/raw", "multi30k", "datasets/Multi30k")


def open_split(root: Path, split: str, source: str, target: str) -> TextPair:
    """A split of the folder `root`; see find_split and open_pair for what can go wrong."""
    return open_pair(*find_split(root, split, source, target), name=split)


def splits_in(root: Path, source: str, target: str) -> dict[str, tuple[Path, Path]]:
    """The splits that `root` has in both languages, in alphabetical order, with their two files.

    DataError if the folder is there, but cannot be read.
    """
    found = _scan(root, source, target)
    return {split: (sides[source], sides[target]) for split, sides in sorted(found.items()) if len(sides) == 2}


def find_split(root: Path, split: str, source: str, target: str) -> tuple[Path, Path]:
    """Find the two files of a split in any layout of Multi30k. The exact name wins over every other name of the split.

    The split may lie in a folder below `root`: `news/test`.

    Raises:
        DataError: the split is not there, or in one language only, or both languages are the same.
    """
    if source == target:
        raise DataError(
            f"Source and target language are both {source!r}, so both files of {split!r} would have the same name; "
            "name two files (--source FILE --reference FILE)."
        )
    folder, last = _folder_and_name(root, split)
    found = _scan(folder, source, target)
    for name in names_of_split(last):
        if sides := found.get(name):
            for there, side, missing in ((target, "source", source), (source, "target", target)):
                if missing not in sides:
                    raise DataError(_half_found(folder, name, sides[there], side, missing))
            return sides[source], sides[target]
    raise DataError(_not_found(root, split, source, target, sorted(found)))


def open_labelled_split(root: Path, split: str, known: Collection[str] | None = None) -> TextPair:
    """A split of labelled text in `root`; see find_labelled_split and open_labelled for what can go wrong."""
    return open_labelled(find_labelled_split(root, split), known)


def labelled_splits_in(root: Path) -> dict[str, Path]:
    """The splits of labelled text in `root`, in alphabetical order, each with its file, plain before packed.

    DataError if the folder is there, but cannot be read.
    """
    found: dict[str, Path] = {}
    for path in _files_in(root):
        name = _unpacked_name(path)
        if name.endswith(LABELLED) and not name.startswith("."):
            found.setdefault(name.removesuffix(LABELLED), path)
    return dict(sorted(found.items()))


def find_labelled_split(root: Path, split: str) -> Path:
    """The file of a split of labelled text, plain before packed. The exact name wins over every other name of it.

    Raises:
        DataError: there is none.
    """
    folder, last = _folder_and_name(root, split)
    found = labelled_splits_in(folder)
    names = names_of_split(last)
    for name in names:
        if path := found.get(name):
            return path
    state = _what_is_there(folder, last, list(found)) + _what_is_unusable(root, [f"{split}{LABELLED}"])
    raise DataError(
        f"No labelled split {split!r} in {root}: looked for {split}{LABELLED}, plain, .gz or .zst{_or_under(names)}. "
        f"{state} Set data.root (--data-root) to the folder that has it."
    )


def _folder_and_name(root: Path, split: str) -> tuple[Path, str]:
    """The folder in which a split lies, which may be one below `root`, and its name there."""
    return root / Path(split).parent, Path(split).name


def names_of_split(split: str) -> list[str]:
    """The name asked for, then the other names of that split."""
    group = next((names for names in ALIASES if split in names), ())
    return [split, *(name for name in group if name != split)]


def _or_under(names: list[str]) -> str:
    """What a message adds about the other names of a split, if it has any."""
    return f" (or under the name {' or '.join(names[1:])})" if names[1:] else ""


def _scan(root: Path, source: str, target: str) -> dict[str, dict[str, Path]]:
    """Map split to language to file; the first folder with any side of a split wins, and plain text before packed."""
    found: dict[str, dict[str, Path]] = {}
    for folder in FOLDERS:
        here: dict[str, dict[str, Path]] = {}
        for path in _files_in(root / folder):
            name = _unpacked_name(path)
            for language in (source, target):
                split = name.removesuffix(f".{language}")
                # A leading dot marks what is not text, such as the "._test.de" that macOS packs into archives.
                if split not in ("", name) and not split.startswith("."):
                    here.setdefault(split, {}).setdefault(language, path)
        found = here | found
    return found


def _unpacked_name(path: Path) -> str:
    """The name of a file without `.gz` or `.zst`."""
    return path.stem if path.suffix in PACKED else path.name


def _files_in(folder: Path) -> list[Path]:
    """Files in order of their names, so that "train.de" comes before "train.de.gz", then those in archives of Multi30k.

    None where there is no folder; DataError if it is there, but cannot be read.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from None
    return files + [member for path in files if is_archive(path) for member in members_of(path)]


def _half_found(folder: Path, name: str, there: Path, side: str, missing: str) -> str:
    beside = there.parent if is_folder(there.parent) else there.parent.parent  # of the archive that it is in
    others = [path.name for path in _files_in(beside) if path != there and path.name.startswith(f"{name}.")]
    here = f" If it is {' or '.join(others)}, set data.{side} to that ending (or name both files)." if others else ""
    return (
        f"{folder}: {there.name} is there, but {name}.{missing}, plain, .gz or .zst, is not. "
        f"Put it into {beside}.{here}{_what_is_unusable(beside, [f'{name}.{missing}'])}"
    )


def _not_found(root: Path, split: str, source: str, target: str, there: Sequence[str]) -> str:
    folder, last = _folder_and_name(root, split)
    names = names_of_split(last)
    ending = next((ending for ending in (f".{source}", f".{target}") if split.endswith(ending)), "")
    state = _what_is_there(folder, "" if ending else last, there)
    if is_folder(folder) and not there:
        state = _other_files(folder, last, source, target)
    remedy = (
        "Set data.root to the folder that has them, or name two files: {source: FILE, target: FILE} (for evaluate.py: "
        "--data-root FOLDER, or --source FILE --reference FILE)"
    )
    is_downloaded = {source, target} == DOWNLOADED_LANGUAGES and any(name in DOWNLOADED_SPLITS for name in names)
    if is_downloaded and not root.exists():
        remedy += ", or train with data.download=true to download Multi30k"
    state += _what_is_unusable(root, [f"{split}.{source}", f"{split}.{target}"])
    if not is_folder(folder):
        with suppress(DataError, OSError):  # The working directory may be unreadable, or gone.
            beside = splits_in(_folder_and_name(Path.cwd(), split)[0], source, target)
            if found := next((beside[name] for name in names if name in beside), None):
                state += f" There are {found[0]} and {found[1]}: name these two files."
    if ending:
        state += f" A split is named without the ending of its files: did you mean {split.removesuffix(ending)}?"
    return (
        f"No split {split!r} in {root}: looked for {split}.{source} and {split}.{target}, plain, .gz or "
        f".zst{_or_under(names)}. {state} {remedy}."
    )


def _other_files(folder: Path, split: str, source: str, target: str) -> str:
    """What a folder without any split has instead, and how a split can be made of that."""
    files = _files_in(folder)
    shown = ", ".join(path.name for path in files[:8]) + (", …" if len(files) > 8 else "")
    state = f"There is no split in these languages; files there: {shown or 'none'}."
    if table := next((path for path in files if path.suffix == ".tsv"), None):
        (one, other), path = text_columns(table), folder / split.removesuffix(".tsv")
        state += f" To turn table columns into files: cut -f{one} {table} > {path}.{source}"
        state += f" (and -f{other}, {target})."
    elif table := next((path for ending in TABLES for path in files if path.suffix == ending), None):
        state += f" {table.name} is no file of lines: write the sentences of each language into a file of its own, "
        state += "one per line (Python's json and csv, or pandas, read it)."
    if archives := [path.name for path in files if path.name.endswith(ARCHIVE_ENDINGS) and not is_archive(path)]:
        state += (
            f" If they are in {' and '.join(archives[:8])}, unpack {'it' if len(archives) == 1 else 'these'} first."
        )
    return state


def _what_is_unusable(folder: Path, names: Sequence[str]) -> str:
    """For a message: which of these names in a folder are those of something else than a file; damaged archives."""
    found = []
    for path in (folder / name for name in names):
        if path.is_symlink() and not exists(path):
            found.append(f" {path.name} is a link to {path.readlink()}, which does not exist.")
        elif exists(path):
            found.append(f" {path.name} is there, but is not a regular file.")
    for archive in (folder / below / name for below in FOLDERS for name in ARCHIVES):
        if is_damaged(archive):
            found.append(f" {archive.name} is damaged or truncated: get it again.")
    return "".join(found)


def _what_is_there(root: Path, split: str, there: Sequence[str]) -> str:
    """What a folder without this split has instead, for a message; `there` are the splits that it has."""
    if not is_folder(root):
        return f"{root} is a file, not a folder." if root.exists() else f"The folder {root} does not exist."
    near = get_close_matches(split, there, n=1)
    return f"Splits there: {', '.join(there) or 'none'}." + (f" Did you mean {near[0]}?" if near else "")
