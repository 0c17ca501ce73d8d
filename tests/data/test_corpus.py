"""Finding, reading and recognising parallel text."""

import errno
import hashlib
import random
import re
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import write

from translate.data import known
from translate.data import lines as lines_module
from translate.data.corpus import (
    ALIASES,
    FOLDERS,
    find_split,
    read_pair,
    read_split,
    scan_pair,
    splits_in,
)
from translate.data.known import KNOWN_TEXTS, KnownText, describe_variant
from translate.data.lines import PACKED, text_sha256
from translate.errors import DataError

GERMAN = ["Ein Hund schläft.", "Zwei Kinder bauen eine hohe Burg aus Sand.", "Regen fällt."]
ENGLISH = ["A dog is asleep.", "Two children are building a tall castle of sand.", "Rain is falling."]


def write_split(folder: Path, split: str, ending: str = "") -> tuple[Path, Path]:
    source = write(folder / f"{split}.de{ending}", "\n".join(GERMAN) + "\n")
    target = write(folder / f"{split}.en{ending}", "\n".join(ENGLISH) + "\n")
    return source, target


# --- two files -------------------------------------------------------------------------------------------------------


def test_pair(tmp_path: Path) -> None:
    source, target = write_split(tmp_path, "small")
    pair = read_pair(source, target, "small")
    assert (pair.name, pair.source, pair.target) == ("small", GERMAN, ENGLISH)
    assert pair.source_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert pair.variant == f"not a known corpus, sha256 {pair.source_sha256[:8]}… / {pair.target_sha256[:8]}…"


def test_an_open_pair_is_the_same_without_being_held(tmp_path: Path) -> None:
    files = write_split(tmp_path, "small")
    opened, held = scan_pair(*files, "small"), read_pair(*files, "small")
    assert opened.in_memory() == held
    assert [list(opened.source), list(opened.target)] == [GERMAN, ENGLISH]
    assert not isinstance(opened.source, list)
    assert (len(opened.source), opened.place(2)) == (3, "line 3")


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n", "\n \n"])
def test_content_not_container_makes_the_digest(tmp_path: Path, ending: str) -> None:
    source = write(tmp_path / "small.de.gz", "\n".join(GERMAN) + ending)
    target = write(tmp_path / "small.en", "\n".join(ENGLISH) + ending)
    assert read_pair(source, target, "small").source_sha256 == text_sha256(GERMAN)


def test_blank_lines_that_end_one_side_only_stay(tmp_path: Path) -> None:
    source = write(tmp_path / "small.de", "eins\nzwei\n\n\n")
    target = write(tmp_path / "small.en", "one\ntwo\nthree\n\n")
    pair = read_pair(source, target, "small")
    assert pair.source == ["eins", "zwei", ""]
    assert pair.target == ["one", "two", "three"]
    assert (pair.source_sha256, pair.target_sha256) == (text_sha256(pair.source), text_sha256(pair.target))


@pytest.mark.slow
@given(*[st.lists(st.sampled_from(["", " ", "a", "b"]), max_size=9)] * 2, st.integers(1, 6))
def test_blank_ends_across_blocks(source: list[str], target: list[str], block: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "BLOCK", block)
        paths = [
            write(Path(folder, name), "".join(f"{line}\n" for line in lines))
            for name, lines in (("source", source), ("target", target))
        ]
        while source and target and not source[-1].strip() and not target[-1].strip():
            source.pop(), target.pop()
        if len(source) == len(target) and any(map(str.strip, source)) and any(map(str.strip, target)):
            pair = read_pair(*paths, "small")
            assert (pair.source, pair.target) == (source, target)
            assert (pair.source_sha256, pair.target_sha256) == (text_sha256(source), text_sha256(target))
        else:
            with pytest.raises(DataError):
                read_pair(*paths, "small")


@pytest.mark.parametrize(
    ("source", "target", "empty"), [("", "", "de"), ("\n\n", "\n", "de"), ("a\n", "", "en"), ("a\nb\n", "\n \n", "en")]
)
def test_empty_corpus(tmp_path: Path, source: str, target: str, empty: str) -> None:
    files = write(tmp_path / "small.de", source), write(tmp_path / "small.en", target)
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'small'}.{empty} has no text")):
        read_pair(*files, "small")


@pytest.mark.parametrize("ending", ["", "\n"])
def test_unequal_line_counts(tmp_path: Path, ending: str) -> None:
    lengths = [3, 9, 4, 1, 7, 2, 8, 2, 6, 1, 9, 3]
    german = [" ".join(["wort"] * n) for n in lengths]
    english = [" ".join(["a word"] * n) for n in lengths]
    del english[4]
    source = write(tmp_path / "small.de", "\n".join(german) + ending)
    target = write(tmp_path / "small.en", "\n".join(english) + ending)
    with pytest.raises(DataError) as caught:
        read_pair(source, target, "small")
    message = str(caught.value)
    assert f"{source} has 12 lines, {target} has 11" in message
    assert "diverge near line 5:\n  source: 'wort wort wort wort wort wort wort'\n  target: 'a word a word'" in message


@pytest.mark.parametrize("swap", [False, True])
def test_a_surplus_line_at_the_end(tmp_path: Path, swap: bool) -> None:
    long, short = write(tmp_path / "long", "aaa\nb\ncc\n\n"), write(tmp_path / "short", "aaa\nb\ncc\n")
    for left_out in ("", "\n", "\n\n"):  # at the end of both
        for file in (long, short):
            write(file, file.read_text(encoding="utf-8") + left_out)
        with pytest.raises(DataError, match=re.escape(f"{long} has ")) as caught:
            read_pair(long, short)
        counts = [file.read_bytes().count(b"\n") for file in (long, short)]
        assert f"{long} has {counts[0]} lines, {short} has {counts[1]}; " in str(caught.value)
    message = "diverge near line 4:\n  source: ''\n  target: (no more lines)"
    if swap:
        long, short = short, long
        message = "diverge near line 4:\n  source: (no more lines)\n  target: ''"
    with pytest.raises(DataError, match=re.escape(message)):
        read_pair(long, short, "small")


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_was_cut_off(seed: int, swap: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lengths = rng.choices(range(6, 20), k=400)
    long = write(tmp_path / "long", "".join(f"{'wort ' * n}\n" for n in lengths))
    short = write(tmp_path / "short", "".join(f"{'a word ' * (n + rng.randint(-5, 5))}\n" for n in lengths[:100]))
    with pytest.raises(DataError, match=r"diverge near line 101:\n") as caught:
        read_pair(*((short, long) if swap else (long, short)), "small")
    assert f"{'source' if swap else 'target'}: (no more lines)" in str(caught.value)


# --- variants --------------------------------------------------------------------------------------------------------


def sha256_of(split: str, language: str, edition: str = "") -> str:
    (text,) = [t for t in KNOWN_TEXTS if (t.split, t.language, t.edition) == (split, language, edition)]
    return text.sha256


def test_known_texts_have_distinct_digests() -> None:
    assert len(KNOWN_TEXTS) == 13
    assert len({text.sha256 for text in KNOWN_TEXTS}) == 13
    assert all(re.fullmatch("[0-9a-f]{64}", text.sha256) for text in KNOWN_TEXTS)


@pytest.mark.parametrize(
    ("source", "target", "variant"),
    [
        (("train", "de"), ("train", "en"), "Multi30k train"),
        (("val", "de", "WMT16 tarball"), ("val", "en"), "Multi30k val (WMT16 tarball)"),
        (("val", "en"), ("val", "de", "WMT16 tarball"), "Multi30k val (WMT16 tarball)"),
    ],
)
def test_known_pairs(source: tuple[str, ...], target: tuple[str, ...], variant: str) -> None:
    assert describe_variant("FILE / FILE", 7, sha256_of(*source), sha256_of(*target)) == variant


def test_one_side_known() -> None:
    other = "0123456789" * 6
    assert describe_variant("val", 1014, sha256_of("val", "de", "WMT16 tarball"), other) == (
        "Multi30k val.de (WMT16 tarball) / not a known corpus, sha256 01234567…"
    )
    assert describe_variant("val", 1014, other, sha256_of("val", "en")) == (
        "not a known corpus, sha256 01234567… / Multi30k val.en"
    )


@pytest.mark.parametrize(("lines", "note"), [(1014, " (as long as Multi30k val, but not the same)"), (500, "")])
def test_unknown_text_under_a_known_name(lines: int, note: str) -> None:
    assert (
        describe_variant("val", lines, "a" * 64, "b" * 64) == f"not a known corpus, sha256 aaaaaaaa… / bbbbbbbb…{note}"
    )


def test_sides_of_two_splits_are_refused() -> None:
    message = "the source is test_2016_flickr.de, the target test_2017_flickr.en of Multi30k"
    with pytest.raises(DataError, match=re.escape(message)):
        describe_variant("a / b", 1000, sha256_of("test_2016_flickr", "de"), sha256_of("test_2017_flickr", "en"))


def test_the_variant_comes_from_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {text_sha256(side): KnownText("small", "xx", 3, text_sha256(side)) for side in (GERMAN, ENGLISH)}
    monkeypatch.setattr(known, "_BY_SHA256", small)
    source, target = write_split(tmp_path, "anything")
    assert read_pair(source, target, "anything").variant == "Multi30k small"


# --- a folder of splits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", *PACKED])
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_layout(tmp_path: Path, folder: str, ending: str) -> None:
    files = write_split(tmp_path / folder, "train", ending)
    assert find_split(tmp_path, "train", "de", "en") == files
    assert find_split(tmp_path, "train", "en", "de") == files[::-1]
    pair = read_split(tmp_path, "train", "de", "en")
    assert (pair.name, pair.source, pair.target) == ("train", GERMAN, ENGLISH)


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


def test_splits_are_listed(tmp_path: Path) -> None:
    assert splits_in(tmp_path / "none", "de", "en") == {}
    for split in ("train", "valid", "my.test"):
        write_split(tmp_path, split)
    write_split(tmp_path / "data/task1/raw", "test_2018_flickr", ".gz")
    write_split(tmp_path, "._test")
    write(tmp_path / "half.de", "x\n")
    (tmp_path / "folder.de").mkdir()
    (tmp_path / "folder.en").mkdir()
    assert list(splits_in(tmp_path, "en", "de")) == ["my.test", "test_2018_flickr", "train", "valid"]
    assert splits_in(tmp_path, "de", "fr") == {}


def test_missing_folder(tmp_path: Path) -> None:
    root = tmp_path / "none"
    with pytest.raises(DataError) as caught:
        find_split(root, "val", "de", "en")
    assert str(caught.value) == (
        f"No split 'val' in {root}: looked for val.de and val.en, plain, .gz or .zst (or under the name valid or "
        f"validation or dev). The folder {root} does not exist. "
        "Set data.root (--data-root) to the folder that has them, or name two files: "
        "{source: FILE, target: FILE} (--source FILE --reference FILE), or data.download=true "
        "to download Multi30k."
    )


def test_misspelt_split(tmp_path: Path) -> None:
    write_split(tmp_path, "train")
    write_split(tmp_path, "val")
    with pytest.raises(DataError) as caught:
        find_split(tmp_path, "tarin", "de", "en")
    assert str(caught.value) == (
        f"No split 'tarin' in {tmp_path}: looked for tarin.de and tarin.en, plain, .gz or .zst. "
        "Splits there: train, val. Did you mean train? "
        "Set data.root (--data-root) to the folder that has them, or name two files: "
        "{source: FILE, target: FILE} (--source FILE --reference FILE)."
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
        "Set data.root (--data-root) to the folder that has them, or name two files: "
        "{source: FILE, target: FILE} (--source FILE --reference FILE)."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        find_split(tmp_path, "train", "cs", "fr")


@pytest.mark.parametrize(
    ("names", "row", "columns"),
    [
        ([], "", ""),
        (["a.txt"], "Hund\tdog", ""),
        (["a.txt", "pairs.tsv"], "Hund\tdog", "12"),
        (["pairs.tsv"], "77\tHund\t1205\tdog", "24"),
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


# --- the real corpus -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "val", "test_2016_flickr"])
def test_multi30k_is_recognised(multi30k: Path, split: str) -> None:
    pair = read_split(multi30k, split, "de", "en")
    assert len(pair.source) == len(pair.target) == {"train": 29000, "val": 1014, "test_2016_flickr": 1000}[split]
    assert pair.variant.removesuffix(" (WMT16 tarball)") == f"Multi30k {split}"
    known_lines = {text.lines for text in KNOWN_TEXTS if text.split == split}
    assert known_lines == {len(pair.source)}


def test_a_lost_line_is_found_in_multi30k(multi30k: Path, tmp_path: Path) -> None:
    pair = read_split(multi30k, "val", "de", "en")
    source = write(tmp_path / "val.de", "\n".join(pair.source))
    target = write(tmp_path / "val.en", "\n".join(pair.target[:600] + pair.target[601:]))
    with pytest.raises(DataError) as caught:
        read_pair(source, target, "val")
    found = re.search(r"diverge near line (\d+)", str(caught.value))
    assert found
    assert abs(int(found[1]) - 601) <= 5
