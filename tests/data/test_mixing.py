"""Many files as one corpus, and several corpora as one text."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from packed import write

from translate.data.corpus import TextPair, TextPart, open_pair
from translate.data.mixing import join_corpora, matching_files, open_files
from translate.errors import DataError


def write_pair(folder: Path, name: str, lines: list[str], ending: str = "") -> None:
    write(folder / f"{name}.de{ending}", "".join(f"{line}\n" for line in lines))
    write(folder / f"{name}.en{ending}", "".join(f"{line.upper()}\n" for line in lines))


def test_two_files_are_a_pair(tmp_path: Path) -> None:
    write_pair(tmp_path, "a", ["eins", "zwei"])
    files = tmp_path / "a.de", tmp_path / "a.en"
    assert open_files(*files) == open_pair(*files, "a.de / a.en")


def test_one_file_for_both_sides(tmp_path: Path) -> None:
    table = write(tmp_path / "table", "eins\tone\n")
    with pytest.raises(DataError) as caught:
        open_files(table, table)
    assert str(caught.value) == (
        f"{table} is given as source and as target. Name two files; to turn table columns into files: "
        "cut -f1 TABLE > FILE"
    )


def test_wildcards_pair_files_in_alphabetical_order(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        write_pair(tmp_path / "crawl", name, [f"{name} eins", f"{name} zwei"], ".gz")
    write(tmp_path / "crawl/.a.de.gz", "hidden\n")
    write(tmp_path / "crawl/a.fr.gz", "another language\n")
    text = open_files(tmp_path / "crawl/*.de.gz", tmp_path / "crawl/*.en.gz")
    assert list(text.source) == ["a eins", "a zwei", "b eins", "b zwei", "c eins", "c zwei"]
    assert list(text.target) == [line.upper() for line in text.source]
    assert text.name == "*.de.gz / *.en.gz"
    assert re.fullmatch(r"3 pairs of files, sha256 [0-9a-f]{8}… / [0-9a-f]{8}…", text.variant)
    assert text.place(3) == "b.de.gz / b.en.gz line 2"
    write_pair(tmp_path, "other", ["eins"])
    joined = join_corpora([text, open_files(tmp_path / "other.de", tmp_path / "other.en")], [5, 2], [True, True])
    assert [joined.place(line) for line in (0, 5, 6)] == [
        "a.de.gz / a.en.gz line 1",
        "c.de.gz / c.en.gz line 2",
        "other.de / other.en line 1",
    ]
    assert [part.weight for part in joined.parts] == [5, 5, 5, 2]


def test_wildcards_in_folders_and_several_of_them(tmp_path: Path) -> None:
    for name in ("a/x1", "a/x2", "b/x1", "b/y1"):
        write_pair(tmp_path, name, [name])
    text = open_files(tmp_path / "*/x?.de", tmp_path / "*/x?.en")
    assert list(text.source) == ["a/x1", "a/x2", "b/x1"]


def test_brackets_and_existing_files_are_taken_by_their_names(tmp_path: Path) -> None:
    for name in ("a[1]b", "why?"):
        write_pair(tmp_path, name, [name])
    assert list(open_files(tmp_path / "a[1]*.de", tmp_path / "a[1]*.en").source) == ["a[1]b"]
    assert list(open_files(tmp_path / "why?.de", tmp_path / "why?.en").source) == ["why?"]


def test_a_star_in_the_name_of_a_file_that_is_there_is_itself(tmp_path: Path) -> None:
    for name in ("a*.de", "ab.de"):
        (tmp_path / name).touch()
    assert matching_files(tmp_path / "a*.de") == {(): tmp_path / "a*.de"}


def test_the_first_file_without_a_partner_is_named(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        write_pair(tmp_path, name, [name])
    files = tmp_path / "*.de", tmp_path / "*.en"
    (tmp_path / "d.de").unlink()
    with pytest.raises(DataError) as caught:
        open_files(*files)
    assert str(caught.value) == f"{tmp_path}/d.en has no counterpart: no file matches {tmp_path}/*.de with 'd'."
    for name in ("c", "b"):
        (tmp_path / f"{name}.en").unlink()
    with pytest.raises(
        DataError, match=re.escape(f"{tmp_path}/b.de has no counterpart: no file matches {tmp_path}/*.en wit")
    ):
        open_files(*files)


def test_wildcards_on_one_side_only(tmp_path: Path) -> None:
    write_pair(tmp_path, "a", ["eins"])
    with pytest.raises(
        DataError, match=r"\*\.de and .*a\.en do not have the same wildcards\. Use the same number of \* and \? in"
    ):
        open_files(tmp_path / "*.de", tmp_path / "a.en")


def test_no_file_fits(tmp_path: Path) -> None:
    write_pair(tmp_path, "a", ["eins"])
    with pytest.raises(DataError, match=re.escape(f"No file matches {tmp_path}/*.fr. Check the path, which")):
        open_files(tmp_path / "*.de", tmp_path / "*.fr")


def test_files_of_unequal_length_are_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_pair(tmp_path, name, [name])
    write(tmp_path / "b.en", "b\nb\n")
    with pytest.raises(DataError, match=r"b\.de has 1 lines, .*b\.en has 2"):
        open_files(tmp_path / "*.de", tmp_path / "*.en")


def test_corpora_are_joined(tmp_path: Path) -> None:
    write_pair(tmp_path, "a", ["eins", "zwei"])
    write_pair(tmp_path, "b", ["drei"])
    one, two = (open_pair(tmp_path / f"{name}.de", tmp_path / f"{name}.en", name) for name in ("a", "b"))
    text = join_corpora([one, two], [1, 3], [True, True])
    assert list(text.source) == ["eins", "zwei", "drei"]
    assert list(text.target) == ["EINS", "ZWEI", "DREI"]
    assert (text.name, text.parts) == ("a + b", (TextPart("a", 2, 1, one.variant), TextPart("b", 1, 3, two.variant)))
    assert [text.place(line) for line in range(3)] == ["a line 1", "a line 2", "b line 1"]
    assert text.vocabulary is None
    other = join_corpora([two, one], [1, 1], [True, True])
    assert (other.source_sha256, other.target_sha256) != (text.source_sha256, text.target_sha256)


@pytest.mark.parametrize("side", ["source_sha256", "target_sha256"])
@pytest.mark.parametrize("number", [0, 1])
def test_the_digest_is_of_every_corpus(side: str, number: int) -> None:
    texts = [TextPair(name, ["a"], ["b"], "1", "2", "made up") for name in ("one", "two")]
    before = join_corpora(texts, [1, 1], [True, True])
    texts[number] = replace(texts[number], **{side: "3"})
    assert getattr(join_corpora(texts, [1, 1], [True, True]), side) != getattr(before, side)


def test_vocabularies_can_be_learned_from_some_corpora_only(tmp_path: Path) -> None:
    texts = []
    for name in "abc":
        write_pair(tmp_path, name, [f"{name}{name}"])
        texts.append(open_pair(tmp_path / f"{name}.de", tmp_path / f"{name}.en", name))
    two = join_corpora(texts, [1, 1, 1], [True, False, True]).vocabulary
    assert two is not None
    assert (list(two.source), list(two.target)) == (["aa", "cc"], ["AA", "CC"])
    assert join_corpora(texts, [1, 1, 1], [False, True, False]).vocabulary == texts[1]


def test_a_star_stands_for_any_character_of_a_name(tmp_path: Path) -> None:
    write_pair(tmp_path, "a\nb", ["eins"])
    assert list(open_files(tmp_path / "*.de", tmp_path / "*.en").source) == ["eins"]
