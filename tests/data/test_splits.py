"""Finding the files of a split in a folder: two of parallel text, or one of labelled text."""

import errno
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from packed import ENGLISH, GERMAN, write, write_split

from translate.data.lines import PACKED
from translate.data.splits import (
    ALIASES,
    FOLDERS,
    find_labelled_split,
    find_split,
    labelled_splits_in,
    open_labelled_split,
    open_split,
    splits_in,
)
from translate.errors import DataError


@pytest.mark.parametrize("ending", ["", *PACKED])
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_layout(tmp_path: Path, folder: str, ending: str) -> None:
    files = write_split(tmp_path / folder, "train", ending)
    assert find_split(tmp_path, "train", "de", "en") == files
    assert find_split(tmp_path, "train", "en", "de") == files[::-1]
    pair = open_split(tmp_path, "train", "de", "en").in_memory()
    assert (pair.name, pair.source, pair.target) == ("train", GERMAN, ENGLISH)


@pytest.mark.parametrize("name", ["train.jsonl", "train.csv", "train.parquet"])
def test_tables_that_are_no_lines(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "x\n")
    with pytest.raises(DataError, match=f"{re.escape(name)} is no file of lines: write the sentences of each language"):
        find_split(tmp_path, "train", "de", "en")


def test_the_table_is_named_and_not_what_describes_it(tmp_path: Path) -> None:
    write(tmp_path / "infos.json", "{}\n")
    write(tmp_path / "train-00000.parquet", "x\n")
    with pytest.raises(DataError, match=r"train-00000\.parquet is no file of lines"):
        find_split(tmp_path, "train", "de", "en")


@pytest.mark.parametrize("name", ["val", "dev"])
def test_a_split_with_the_folder_in_which_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "corpora"
    write_split(tmp_path / "mt", name)
    with pytest.raises(DataError) as caught:
        find_split(root, "mt/val", "de", "en")
    files = f"{tmp_path}/mt/{name}.de and {tmp_path}/mt/{name}.en"
    assert f" There are {files}: name these two files. Set data.root" in str(caught.value)
    (root / "mt").mkdir(parents=True)
    write_split(tmp_path, name)
    for split in ("mt/val", "mt/train", "val"):
        with pytest.raises(DataError) as caught:
            find_split(root, split, "de", "en")
        assert "There are" not in str(caught.value)
    with pytest.raises(DataError, match=f" There are {tmp_path}/{name}.de and "):
        find_split(tmp_path / "absent", "val", "de", "en")

    def unreadable(folder: Path) -> list[Path]:
        if (root / "absent") in (folder, *folder.parents):
            return []
        raise DataError("The folder cannot be read.")

    monkeypatch.setattr("translate.data.splits._files_in", unreadable)
    with pytest.raises(DataError, match="No split 'val'"):
        find_split(root / "absent", "val", "de", "en")


def test_the_folder_itself_comes_before_those_in_it(tmp_path: Path) -> None:
    first, *_ = [write_split(tmp_path / folder, "train") for folder in FOLDERS]
    assert find_split(tmp_path, "train", "de", "en") == first


@pytest.mark.parametrize(("asked", "there"), [pair for names in ALIASES for pair in product(names, names)])
def test_every_name_of_a_split_finds_every_other(tmp_path: Path, asked: str, there: str) -> None:
    files = write_split(tmp_path, there)
    assert find_split(tmp_path, asked, "de", "en") == files


@pytest.mark.parametrize("exact", ["test", "test2016", "test_2016_flickr"])
def test_the_exact_name_wins(tmp_path: Path, exact: str) -> None:
    for name in ("test", "test2016", "test_2016_flickr"):
        write_split(tmp_path, name)
    assert [path.name for path in find_split(tmp_path, exact, "de", "en")] == [f"{exact}.de", f"{exact}.en"]


def test_the_exact_name_wins_in_a_later_folder(tmp_path: Path) -> None:
    write_split(tmp_path, "test")
    files = write_split(tmp_path / "multi30k", "test2016")
    assert find_split(tmp_path, "test2016", "de", "en") == files


def test_another_test_split_does_not_stand_in(tmp_path: Path) -> None:
    write_split(tmp_path, "test")
    with pytest.raises(DataError, match=r"test_2017_flickr\.de and test_2017_flickr\.en, plain, \.gz or \.zst\. "):
        find_split(tmp_path, "test_2017_flickr", "de", "en")


def test_half_an_exact_split_is_not_replaced_by_another_name(tmp_path: Path) -> None:
    write_split(tmp_path, "test")
    write(tmp_path / "test_2016_flickr.de", "x\n")
    with pytest.raises(DataError, match=re.escape("test_2016_flickr.de is there, but test_2016_flickr.en, plain,")):
        find_split(tmp_path, "test_2016_flickr", "de", "en")


def test_plain_text_before_gzip_and_mixed_pairs(tmp_path: Path) -> None:
    write_split(tmp_path, "train", ".gz")
    plain = write(tmp_path / "train.de", "x\n")
    assert find_split(tmp_path, "train", "de", "en") == (plain, tmp_path / "train.en.gz")


def test_a_split_may_lie_in_a_folder_below(tmp_path: Path) -> None:
    write_split(tmp_path / "news", "train", ".gz")
    assert find_split(tmp_path, "news/train", "de", "en")[0] == tmp_path / "news" / "train.de.gz"
    with pytest.raises(DataError, match=r"looked for news/val.de and news/val.en.* Splits there: train"):
        find_split(tmp_path, "news/val", "de", "en")
    with pytest.raises(DataError, match=r"looked for olds/train.de.*\. The folder .*/olds does not exist\. "):
        find_split(tmp_path, "olds/train", "de", "en")


def test_what_has_the_name_of_a_file_but_is_none(tmp_path: Path) -> None:
    write_split(tmp_path, "train")
    (tmp_path / "val.de").symlink_to("gone.de")
    (tmp_path / "val.en").mkdir()
    message = "Splits there: train. val.de is a link to gone.de, which does not exist. val.en is there"
    with pytest.raises(DataError, match=re.escape(message)):
        find_split(tmp_path, "val", "de", "en")
    write(tmp_path / "test.de", "x\n")
    (tmp_path / "test.en").mkdir()
    message = f"Put it into {tmp_path}. test.en is there, but is not a regular file."
    with pytest.raises(DataError, match=re.escape(message)):
        find_split(tmp_path, "test", "de", "en")


def test_a_working_directory_that_is_gone_hides_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(DataError, match=f"The folder {tmp_path}/absent does not exist"):
        find_split(tmp_path / "absent", "test", "de", "en")


def test_splits_are_listed(tmp_path: Path) -> None:
    assert splits_in(tmp_path / "none", "de", "en") == {}
    for split in ("train", "valid", "my.test"):
        write_split(tmp_path, split)
    write_split(tmp_path / "data/task1/raw", "test_2018_flickr", ".gz")
    for hidden in ("._test", ""):
        write_split(tmp_path, hidden)
    write(tmp_path / "half.de", "x\n")
    (tmp_path / "folder.de").mkdir()
    (tmp_path / "folder.en").mkdir()
    assert list(splits_in(tmp_path, "en", "de")) == ["my.test", "test_2018_flickr", "train", "valid"]
    assert splits_in(tmp_path, "de", "fr") == {}


def test_one_side_is_missing(tmp_path: Path) -> None:
    write(tmp_path / "train.de", "x\n")
    with pytest.raises(DataError) as caught:
        find_split(tmp_path, "train", "de", "en")
    assert str(caught.value) == (
        f"{tmp_path}: train.de is there, but train.en, plain, .gz or .zst, is not. Put it into {tmp_path}."
    )
    write(tmp_path / "train.en", "x\n")
    for languages, side in ((("deu", "en"), "source"), (("en", "deu"), "target")):
        with pytest.raises(DataError) as caught:
            find_split(tmp_path, "train", *languages)
        assert str(caught.value) == (
            f"{tmp_path}: train.en is there, but train.deu, plain, .gz or .zst, is not. Put it into {tmp_path}. "
            f"If it is train.de, set data.{side} to that ending (or name both files)."
        )


@pytest.mark.parametrize(
    ("target", "download"), [("en", ", or train with data.download=true to download Multi30k"), ("it", "")]
)
def test_missing_folder(target: str, download: str, tmp_path: Path) -> None:
    root = tmp_path / "none"
    with pytest.raises(DataError) as caught:
        find_split(root, "val", "de", target)
    assert str(caught.value) == (
        f"No split 'val' in {root}: looked for val.de and val.{target}, plain, .gz or .zst (or under the name valid or "
        f"validation or dev). The folder {root} does not exist. "
        "Set data.root to the folder that has them, or name two files: "
        f"{{source: FILE, target: FILE}} (for evaluate.py: --data-root FOLDER, or --source FILE --reference FILE)"
        f"{download}."
    )


def test_misspelt_split(tmp_path: Path) -> None:
    write_split(tmp_path, "train")
    write_split(tmp_path, "val")
    with pytest.raises(DataError) as caught:
        find_split(tmp_path, "tarin", "de", "en")
    assert str(caught.value) == (
        f"No split 'tarin' in {tmp_path}: looked for tarin.de and tarin.en, plain, .gz or .zst. "
        "Splits there: train, val. Did you mean train? "
        "Set data.root to the folder that has them, or name two files: "
        "{source: FILE, target: FILE} (for evaluate.py: --data-root FOLDER, or --source FILE --reference FILE)."
    )


def test_a_split_named_with_the_ending_of_its_files(tmp_path: Path) -> None:
    write_split(tmp_path, "train")
    message = r"Splits there: train\. A split is named without the ending of its files: did you mean train\? Set"
    with pytest.raises(DataError, match=message):
        find_split(tmp_path, "train.de", "de", "en")


def test_other_languages(tmp_path: Path) -> None:
    write_split(tmp_path, "train")
    message = (
        "no split in these languages; files there: train.de, train.en. "
        "Set data.root to the folder that has them, or name two files: "
        "{source: FILE, target: FILE} (for evaluate.py: --data-root FOLDER, or --source FILE --reference FILE)."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        find_split(tmp_path, "train", "cs", "fr")


@pytest.mark.parametrize(
    ("names", "row", "columns"),
    [
        ([], "", ""),
        (["a.txt"], "Hund\tdog", ""),
        (["a.txt", "pairs.tsv"], "Hund\tdog", "12"),
        (["pairs.tsv"], "Hund\tdog\tCC-BY", "12"),
        (["pairs.tsv"], "77\tHund\tdog\n78\tKatze\tcat\n79", "23"),
        (["pairs.tsv"], "77\tHund\t1205\tdog", "24"),
        (["pairs.tsv"], "1.07\tHund\t-2e-3\tdog", "24"),
        (["pairs.tsv"], "id\tGerman\tid\tEnglish\n77\tHund\t1205\tdog", "24"),
        (["pairs.tsv"], "", "12"),
    ],
)
def test_a_table_is_no_split(names: list[str], row: str, columns: str, tmp_path: Path) -> None:
    for name in names:
        write(tmp_path / name, f"{row}\n")
    with pytest.raises(DataError) as caught:
        find_split(tmp_path, "train", "de", "en")
    assert f"files there: {', '.join(names) or 'none'}. " in str(caught.value)
    if columns:
        one, other = columns
        cut = f"cut -f{one} {tmp_path}/pairs.tsv > {tmp_path}/train.de (and -f{other}, en). "
        assert f" To turn table columns into files: {cut}" in str(caught.value)
    else:
        assert "To turn table" not in str(caught.value)


@pytest.mark.parametrize("name", ["europarl.tar.gz", "multi30k.zip"])
def test_an_archive_is_no_split(name: str, tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "read me\n")
    write(tmp_path / name, "packed\n")
    with pytest.raises(DataError) as caught:
        find_split(tmp_path, "train", "de", "en")
    assert f"notes.txt, {name}. " in str(caught.value) or f"{name}, notes.txt. " in str(caught.value)
    assert f" If they are in {name}, unpack it first. Set data.root " in str(caught.value)
    write(tmp_path / "z.zip", "packed\n")
    with pytest.raises(DataError, match=re.escape(f" If they are in {name} and z.zip, unpack these first. Set data.")):
        find_split(tmp_path, "train", "de", "en")


def test_a_table_that_cannot_be_read_hides_no_message(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_bytes(b"1\tH\xfchnd\tdog\n")
    with pytest.raises(DataError, match=r"^No split 'train' in .*files there: pairs\.tsv\. .* cut -f1 "):
        find_split(tmp_path, "train", "de", "en")


def test_nothing_is_downloaded_into_a_folder_that_is_there(tmp_path: Path) -> None:
    write_split(tmp_path, "train")
    with pytest.raises(DataError) as caught:
        find_split(tmp_path, "val", "de", "en")
    assert "data.download" not in str(caught.value)


def test_a_language_with_a_dot(tmp_path: Path) -> None:
    for language in ("de.txt", "en.txt"):
        write(tmp_path / f"train.{language}", "a\n")
    assert find_split(tmp_path, "train", "de.txt", "en.txt") == (tmp_path / "train.de.txt", tmp_path / "train.en.txt")


def test_unreadable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match=re.escape(f"The folder {tmp_path} cannot be read: Permission denied.")):
        splits_in(tmp_path, "de", "en")


def test_file_instead_of_folder(tmp_path: Path) -> None:
    root = write(tmp_path / "train.de", "x\n")
    with pytest.raises(DataError, match=re.escape(f"{root} is a file, not a folder.")):
        find_split(root, "train", "de", "en")


# --- labelled text ---------------------------------------------------------------------------------------------------

LINES = "de\tEin Hund bellt.\nen\tA dog barks.\nde\tEine Katze schläft.\n"


def test_splits_of_labels_are_found_by_every_name(tmp_path: Path) -> None:
    plain = write(tmp_path / "dev.tsv", LINES)
    write(tmp_path / "dev.tsv.gz", LINES)
    packed = write(tmp_path / "train.tsv.gz", LINES)
    for name in ("._dev.tsv", "notes.txt"):
        write(tmp_path / name, "")
    assert labelled_splits_in(tmp_path) == {"dev": plain, "train": packed}
    assert labelled_splits_in(tmp_path / "none") == {}
    assert find_labelled_split(tmp_path, "val") == plain
    assert find_labelled_split(tmp_path, "train") == packed
    exact = write(tmp_path / "val.tsv", LINES)
    assert find_labelled_split(tmp_path, "val") == exact
    assert open_labelled_split(tmp_path, "val", known={"de", "en"}).in_memory().target == ["de", "en", "de"]


def test_a_missing_split_of_labels(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", LINES)
    write(tmp_path / "news/dev.tsv", LINES)
    (tmp_path / "news/link.tsv").symlink_to("gone.tsv")
    remedy = "Set data.root (--data-root) to the folder that has it."
    for root, split, message in (
        (
            tmp_path,
            "tarin",
            f"No labelled split 'tarin' in {tmp_path}: looked for tarin.tsv, plain, .gz or .zst. "
            f"Splits there: train. Did you mean train? {remedy}",
        ),
        (
            tmp_path / "none",
            "val",
            f"No labelled split 'val' in {tmp_path}/none: looked for val.tsv, plain, .gz or .zst (or under the name "
            f"valid or validation or dev). The folder {tmp_path}/none does not exist. {remedy}",
        ),
        (
            tmp_path / "train.tsv",
            "other",
            f"No labelled split 'other' in {tmp_path}/train.tsv: looked for other.tsv, plain, .gz or .zst. "
            f"{tmp_path}/train.tsv is a file, not a folder. {remedy}",
        ),
        (
            tmp_path,
            "news/link",
            f"No labelled split 'news/link' in {tmp_path}: looked for news/link.tsv, plain, .gz or .zst. Splits there: "
            f"dev. link.tsv is a link to gone.tsv, which does not exist. {remedy}",
        ),
    ):
        with pytest.raises(DataError) as caught:
            find_labelled_split(root, split)
        assert str(caught.value) == message


def test_a_folder_of_labelled_text_that_cannot_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    write(tmp_path / "val.tsv", "de\tHund\n")
    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(DataError, match=re.escape(f"The folder {tmp_path} cannot be read: Permission denied.")):
        find_labelled_split(tmp_path, "val")
