"""Text files, line by line."""

import bz2
import errno
import gzip
import os
import re
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packed import PACK, write

from translate.data import lines as lines_module
from translate.data.corpus import open_pair
from translate.data.lines import PACKED, FileText, JoinedText, excerpt, read_blocks, read_lines, version_of
from translate.errors import DataError


@pytest.mark.parametrize("name", ["text.de", "text.de.gz", "text.de.zst"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\n\n\n", ["a", "", ""]),
        ("a\r\nb\r\r\n", ["a", "b\r"]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        ("a\u2028b\x85c\x0bd\x0ce\rf\n", ["a\u2028b\x85c\x0bd\x0ce\rf"]),
        (" a\u00a0b \n", [" a\u00a0b "]),
    ],
)
def test_lines_are_read_exactly(tmp_path: Path, name: str, content: str, lines: list[str]) -> None:
    assert read_lines(write(tmp_path / name, content)) == lines


# Without NUL: a short text with one may look like UTF-16, and is refused.
@example(["a line with one \0"])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff\0"))))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "text.de"  # A folder for each example would take most of the time.
    assert read_lines(write(path, "".join(f"{line}\n" for line in lines))) == lines


def test_wrong_bytes_are_named_by_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "text.de", b"gut\nsch\xf6n\n")
    with pytest.raises(DataError, match=re.escape(f"{path}, line 2, byte 4: 0xf6 is not UTF-8 (invalid start byte). ")):
        read_lines(path)


def test_wrong_bytes_in_the_first_line(tmp_path: Path) -> None:
    path = write(tmp_path / "text.de.gz", b"\x80")
    with pytest.raises(DataError, match=re.escape("text.de.gz, line 1, byte 1: 0x80 is not UTF-8")):
        read_lines(path)


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (
            gzip.compress(b"gut", mtime=0),
            "It looks like gzip: rename it to end in .gz or, if it was compressed twice, unpack it once.",
        ),
        ("gut\n".encode("utf-16"), "It looks like UTF-16: save it as UTF-8."),
        ("gut\n".encode("utf-32"), "It looks like UTF-32: save it as UTF-8."),
        ("gut\n".encode("utf-16-le"), "It looks like UTF-16: save it as UTF-8."),
        (bz2.compress(b"gut"), "It looks like a bzip2 archive: unpack it."),
        (b"ein Hund\r" * 20, "ends its lines with carriage returns (CR) only. Save it with line feeds (LF)."),
        (
            "schön\n".encode("latin-1"),
            "Save the file as UTF-8: iconv -f ENCODING -t utf8, where ENCODING is what it is now, such as latin1, "
            "cp1251 or shift_jis.",
        ),
    ],
)
def test_what_a_file_is_instead_is_said(content: bytes, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(remedy)):
        read_lines(write(tmp_path / "text.de", content))


@pytest.mark.parametrize(("there", "named"), [("a.de", "a.de.gz"), ("a.de.gz", "a.de"), ("a.de.zst", "a.de.gz")])
def test_the_same_text_packed_otherwise_is_named(there: str, named: str, tmp_path: Path) -> None:
    (tmp_path / there).touch()
    with pytest.raises(DataError) as caught:
        read_lines(tmp_path / named)
    assert str(caught.value) == f"{tmp_path / named} does not exist. Did you mean {tmp_path / there}?"


@pytest.mark.parametrize(("name", "lines"), [("text.tar", 3), ("text.tar", 3000), ("text.tar.gz", 3000)])
def test_a_tar_archive_is_no_text(name: str, lines: int, tmp_path: Path) -> None:
    text = write(tmp_path / "text.de", b"ein Hund\n" * lines)
    with tarfile.open(tmp_path / name, "w:gz" if name.endswith(".gz") else "w") as archive:
        archive.add(text, "text.de")
    with pytest.raises(DataError, match=r"is a tar archive\. Unpack it, and name the file that was in it\.$"):
        read_lines(tmp_path / name)


def test_an_archive_of_gnu_tar_is_no_text(tmp_path: Path) -> None:
    text = write(tmp_path / "text.de", b"ein Hund\n" * 3000)
    with tarfile.open(tmp_path / "text.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(text, "text.de")
    with pytest.raises(DataError, match=r"is a tar archive\."):
        read_lines(tmp_path / "text.tar")


def test_mustard_is_no_archive(tmp_path: Path) -> None:
    line = "a" * 256 + "mustard"
    assert read_lines(write(tmp_path / "text.en", f"{line}\n".encode())) == [line]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'none.de'} does not exist. Check the path.")):
        read_lines(tmp_path / "none.de")


def test_folder_instead_of_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder\. Name a file"):
        read_lines(tmp_path)


def test_what_can_be_read_but_once_is_no_corpus(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(DataError, match=f"{path} is a pipe or a device, which can be read only once. Save it as"):
            open_pair(path, path, "pipe")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"text\.de cannot be read: Permission denied\."):
        read_lines(tmp_path / "text.de")


@pytest.mark.parametrize("ending", PACKED)
def test_a_file_that_was_cut_off(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"text.de{ending}", b"a b c d e f\n" * 9)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=rf"text\.de\{ending} is a damaged or truncated (gzip|Zstandard) file \(.*end"):
        read_lines(path)


def test_page_instead_of_gzip(tmp_path: Path) -> None:
    path = tmp_path / "text.de.gz"
    path.write_bytes(b"<html>not here</html>")
    with pytest.raises(DataError, match="is not a valid gzip file"):
        read_lines(path)


def test_page_instead_of_zstandard(tmp_path: Path) -> None:
    path = tmp_path / "text.de.zst"
    path.write_bytes(b"<html>not here</html>")
    with pytest.raises(DataError, match=r"text\.de\.zst is a damaged or truncated Zstandard file"):
        read_lines(path)


@pytest.mark.parametrize("ending", PACKED)
def test_packed_files_one_after_the_other_in_one(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"text.de{ending}"
    path.write_bytes(PACK[ending](b"a\nb") + PACK[ending](b"c\n"))
    assert read_lines(path) == ["a", "bc"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python has the library from 3.14 on")
def test_without_the_library_for_zstandard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "text.de.zst", "a\n")
    monkeypatch.setitem(sys.modules, "backports", None)
    with pytest.raises(DataError) as caught:
        read_lines(path)
    assert str(caught.value) == "reading .zst needs the package 'backports.zstd': pip install backports.zstd"


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 8)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["text.de", "text.de.gz", "text.de.zst"])
def test_blocks_join_without_a_seam(tmp_path: Path, name: str) -> None:
    lines = ["\ufeffa", "", "", "bcdefghijklmnop", "\r", "ä\u2028ö", "", ""]
    path = write(tmp_path / name, "\ufeff" + "\r\n".join(lines) + "\n")
    assert read_lines(path) == lines
    blocks = list(read_blocks(path))
    assert len(blocks) > 3
    assert [line for block in blocks for line in block] == lines


def test_a_mark_of_byte_order_counts_at_the_start_of_a_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 1)
    assert read_lines(write(tmp_path / "text.de", "\ufeffa\n\ufeffb\n")) == ["a", "\ufeffb"]


@pytest.mark.usefixtures("small_blocks")
def test_wrong_bytes_in_a_later_block(tmp_path: Path) -> None:
    path = write(tmp_path / "text.de", b"gut\n" * 99 + b"sch\xc3\n" + b"gut\n" * 99)
    with pytest.raises(DataError, match=re.escape(f"{path}, line 100, byte 4: 0xc3 is not UTF-8")):
        read_lines(path)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("later", ["a" * 257 + "ustar \n", "\0\0\n", "a" + "\r" * 10 + "b"])
def test_only_the_beginning_of_a_file_tells_what_it_is(later: str, tmp_path: Path) -> None:
    assert read_lines(write(tmp_path / "text.de", f"ein Hund\n{later}")) == ["ein Hund", later.removesuffix("\n")]


@pytest.mark.usefixtures("small_blocks")
def test_wrong_bytes_in_a_later_block_are_not_taken_for_the_start_of_an_archive(tmp_path: Path) -> None:
    path = write(tmp_path / "text.de", b"ein Hund\nBZh\xf6\n")
    with pytest.raises(
        DataError, match=r"line 2, byte 4: 0xf6 is not UTF-8 \(.*\)\. Save the file as UTF-8: iconv .*\.$"
    ):
        read_lines(path)


def test_bytes_are_counted_from_the_start_of_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "text.de", b"gut\nbesser\nsch\xf6n\n")
    with pytest.raises(DataError, match="line 3, byte 4: 0xf6 is not UTF-8"):
        read_lines(path)


def test_ten_carriage_returns_and_no_line_feed_are_lines(tmp_path: Path) -> None:
    assert len(read_lines(write(tmp_path / "text.de", "Hund\r" * 9))) == 1
    with pytest.raises(DataError, match="ends its lines with carriage returns"):
        read_lines(write(tmp_path / "text.de", "Hund\r" * 10))


@pytest.mark.parametrize("name", ["text.de", "text.de.gz", "text.de.zst"])
def test_a_line_without_end_is_not_held(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 1 << 15)
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path / name, "gut\n" + "a" * (1 << 24) + "\n")
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read_lines(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()
    assert str(caught.value) == f"{path}, line 2 has more than 1 MiB. A text needs one sentence per line."


def test_the_longest_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 8)
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 16)
    assert read_lines(write(tmp_path / "text.de", "a" * 23 + "\nb\n" + "c" * 21)) == ["a" * 23, "b", "c" * 21]
    with pytest.raises(DataError, match="line 1 has more than"):
        read_lines(write(tmp_path / "text.de", "a" * 24 + "\n"))


def test_a_long_file_that_ends_its_lines_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 16)
    monkeypatch.setattr(lines_module, "BLOCK", 200)
    with pytest.raises(DataError, match="ends its lines with carriage returns"):
        read_lines(write(tmp_path / "text.de", "schöner Hund\r" * 30))


def test_another_time_or_another_size_is_another_version(tmp_path: Path) -> None:
    path = write(tmp_path / "text.de", "ein Hund\n")
    versions = set()
    for content, time in (("ein Hund\n", 1), ("ein Hund\n", 2), ("ein Hund bellt\n", 2)):
        write(path, content)
        os.utime(path, ns=(time, time))
        versions.add(version_of(path))
    assert len(versions) == 3


def test_a_line_of_eighty_characters_is_shown_whole() -> None:
    assert excerpt("x" * 80) == repr("x" * 80)
    assert excerpt("x" * 81) == repr("x" * 79 + "…")


def test_text_in_files_is_read_again_and_again(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", "a\nb\nc\n\n"), write(tmp_path / "two.gz", "d\ne\n")
    versions = version_of(one), version_of(two)
    text = JoinedText((FileText(one, 3, versions[0]), FileText(two, 2, versions[1]), FileText(one, 1, versions[0])))
    assert len(text) == 6
    for _ in range(2):
        assert list(text) == ["a", "b", "c", "d", "e", "a"]


def test_a_long_file_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK", 1 << 15)
    path = write(tmp_path / "text.de", "ein Hund bellt und eine Katze schläft\n" * 30_000)
    peaks = []
    for _ in range(3):  # The least counts, because what pytest-xdist's thread allocates meanwhile is counted, too.
        tracemalloc.start()
        try:
            assert sum(1 for _ in FileText(path, 30_000, version_of(path))) == 30_000
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < 2**19 < path.stat().st_size / 2
