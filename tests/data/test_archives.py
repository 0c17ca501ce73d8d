"""Multi30k in the archives that torchtext 0.12 and later downloads."""

import io
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packed import ENGLISH, GERMAN, write_split

from translate.data import archives
from translate.data.lines import FileText, read_lines, version_of
from translate.data.splits import find_split, open_split, splits_in
from translate.errors import DataError

NAMES = {"train": "training.tar.gz", "val": "validation.tar.gz", "test": "mmt16_task1_test.tar.gz"}
RESOURCE_FORK = b"\x00\x05\x16\x07\x80"  # how macOS's `._` files begin


def pack(path: Path, members: Mapping[str, bytes | None]) -> None:
    """An archive of files with these bytes, and of folders."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            archive.addfile(info, io.BytesIO(content or b""))


def sides(split: str, end: str = "\n") -> dict[str, bytes]:
    texts = {"de": GERMAN, "en": ENGLISH}
    return {f"{split}.{language}": ("\n".join(lines) + end).encode() for language, lines in texts.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with all three. Those of training and validation text end with a blank line more."""
    for split, name in NAMES.items():
        end = "\n" if split == "test" else "\n\n"
        forks = {f"._{file}": RESOURCE_FORK for file in sides(split)}
        pack(tmp_path / name, {**forks, **sides(split, end)})
    return tmp_path


@pytest.mark.parametrize(("split", "name"), [*NAMES.items(), ("test_2016_flickr", NAMES["test"])])
def test_a_split_is_read_where_it_is(split: str, name: str, root: Path) -> None:
    pair = open_split(root, split, "de", "en")
    assert (list(pair.source), list(pair.target)) == (GERMAN, ENGLISH)
    assert [side.parent for side in find_split(root, split, "de", "en")] == [root / name] * 2
    assert {path.name for path in root.iterdir()} == set(NAMES.values())
    assert splits_in(root, "de", "en").keys() == NAMES.keys()


@pytest.mark.parametrize(
    "others",
    [
        {"old.train.de": b"1\n", "train.de.txt": b"2\n", "Train.de": b"3\n"},
        {"train.de/notes": b"1\n"},
        {"train.de": None},
    ],
)
def test_the_member_of_exactly_that_name_is_read(others: dict[str, bytes | None], tmp_path: Path) -> None:
    path = tmp_path / NAMES["train"]
    pack(path, {**others, **{f"data/{name}": content for name, content in sides("train").items()}})
    assert read_lines(path / "train.de") == GERMAN
    assert find_split(tmp_path, "train", "de", "en") == (path / "train.de", path / "train.en")


def test_a_link_is_no_text(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / NAMES["train"], "w:gz") as archive:
        for language in ("de", "en"):
            info = tarfile.TarInfo(f"train.{language}")
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(info)
    with pytest.raises(DataError, match=r"^No split 'train' in "):
        find_split(tmp_path, "train", "de", "en")


def test_files_win_over_archives(root: Path) -> None:
    assert find_split(root, "train", "de", "en")[0].parent != root
    assert find_split(root, "train", "de", "en") != write_split(root, "train", ".gz")
    assert find_split(root, "train", "de", "en") == (root / "train.de.gz", root / "train.en.gz")


def test_a_member_that_is_missing(root: Path) -> None:
    path = root / NAMES["train"] / "train.fr"
    with pytest.raises(DataError, match=f"^{re.escape(str(path))} does not exist. Check the path.$"):
        read_lines(path)


def test_the_other_language_goes_beside_the_archive(root: Path) -> None:
    with pytest.raises(DataError) as caught:
        find_split(root, "train", "de", "fr")
    assert str(caught.value) == (
        f"{root}: train.de is there, but train.fr, plain, .gz or .zst, is not. Put it into {root}. If it is train.en, "
        "set data.target to that ending (or name both files)."
    )


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "No split 'train' in {root}: .* training.tar.gz is damaged or truncated: get it again"),
        (0.3, "{root}: train.de is there, but train.en, .* training.tar.gz is damaged or truncated: get it again"),
        (0.9, r"{root}/training.tar.gz is damaged or truncated \(Compressed .*\)\. Get it again\.$"),
    ],
)
def test_a_damaged_archive(share: float, said: str, root: Path) -> None:
    path = root / NAMES["train"]
    pack(path, {name: os.urandom(100_000).hex().encode() for name in sides("train")})
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DataError, match=f"^{said.format(root=root)}"):
        open_split(root, "train", "de", "en")
    assert open_split(root, "val", "de", "en").blank_end == 1
    (root / "cache" / "datasets").mkdir(parents=True)
    (root / "cache" / "datasets" / "Multi30k").symlink_to(root)
    below = said.format(root=root / "cache" / "datasets" / "Multi30k" if share > 0.5 else root / "cache")
    with pytest.raises(DataError, match=f"^{below}"):
        open_split(root / "cache", "train", "de", "en")


def test_an_archive_that_is_replaced_is_another_text(root: Path) -> None:
    path = root / NAMES["test"] / "test.de"
    text = FileText(path, len(GERMAN), version_of(path))
    assert list(text) == GERMAN
    pack(path.parent, sides("test", end="\n" * 100))
    with pytest.raises(DataError, match=r"test\.de changed while it was being read"):
        list(text)


def test_an_archive_that_is_too_large_for_multi30k_is_not_unpacked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1)
    with pytest.raises(DataError, match=r" and training\.tar\.gz and validation\.tar\.gz, unpack these first"):
        find_split(root, "train", "de", "fr")


def test_only_these_archives_are_looked_into(root: Path) -> None:
    (root / NAMES["train"]).rename(root / "europarl.tar.gz")
    assert not archives.is_member(root / "europarl.tar.gz" / "train.de")
    with pytest.raises(DataError, match=r"^No split 'train' in "):
        find_split(root, "train", "de", "en")
