"""Reading and recognising parallel text."""

import hashlib
import random
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packed import ENGLISH, GERMAN, write, write_split

from translate.data import lines as lines_module
from translate.data import multi30k
from translate.data.corpus import TextInMemory, open_pair, read_further_reference
from translate.data.digest import text_sha256
from translate.data.multi30k import KNOWN_TEXTS, KnownText, describe_variant
from translate.data.splits import open_split
from translate.errors import DataError

# --- two files -------------------------------------------------------------------------------------------------------


def test_pair(tmp_path: Path) -> None:
    source, target = write_split(tmp_path, "small")
    pair = open_pair(source, target, "small").in_memory()
    assert (pair.name, pair.source, pair.target) == ("small", GERMAN, ENGLISH)
    assert pair.source_sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert pair.variant == f"sha256 {pair.source_sha256[:8]}… / {pair.target_sha256[:8]}…"


def test_an_open_pair_is_the_same_without_being_held(tmp_path: Path) -> None:
    files = write_split(tmp_path, "small")
    opened, held = open_pair(*files, "small"), open_pair(*files, "small").in_memory()
    assert opened.in_memory() == held
    assert [list(opened.source), list(opened.target)] == [GERMAN, ENGLISH]
    assert not isinstance(opened.source, list)
    assert (len(opened.source), opened.place(2)) == (3, "line 3")


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n", "\n \n"])
def test_content_not_container_makes_the_digest(tmp_path: Path, ending: str) -> None:
    source = write(tmp_path / "small.de.gz", "\n".join(GERMAN) + ending)
    target = write(tmp_path / "small.en", "\n".join(ENGLISH) + ending)
    assert open_pair(source, target, "small").source_sha256 == text_sha256(GERMAN)


def test_blank_lines_that_end_one_side_only_stay(tmp_path: Path) -> None:
    source = write(tmp_path / "small.de", "eins\nzwei\n\n\n")
    target = write(tmp_path / "small.en", "one\ntwo\nthree\n\n")
    pair = open_pair(source, target, "small").in_memory()
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
            pair = open_pair(*paths, "small").in_memory()
            assert (pair.source, pair.target) == (source, target)
            assert (pair.source_sha256, pair.target_sha256) == (text_sha256(source), text_sha256(target))
        else:
            with pytest.raises(DataError):
                open_pair(*paths, "small")


@pytest.mark.parametrize(
    ("source", "target", "empty"), [("", "", "de"), ("\n\n", "\n", "de"), ("a\n", "", "en"), ("a\nb\n", "\n \n", "en")]
)
def test_empty_corpus(tmp_path: Path, source: str, target: str, empty: str) -> None:
    files = write(tmp_path / "small.de", source), write(tmp_path / "small.en", target)
    with pytest.raises(
        DataError, match=re.escape(f"{tmp_path / 'small'}.{empty} has no text. It needs one sentence per line.")
    ):
        open_pair(*files, "small")


@pytest.mark.parametrize("ending", ["", "\n"])
def test_unequal_line_counts(tmp_path: Path, ending: str) -> None:
    lengths = [3, 9, 4, 1, 7, 2, 8, 2, 6, 1, 9, 3]
    german = [" ".join(["wort"] * n) for n in lengths]
    english = [" ".join(["a word"] * n) for n in lengths]
    del english[4]
    source = write(tmp_path / "small.de", "\n".join(german) + ending)
    target = write(tmp_path / "small.en", "\n".join(english) + ending)
    with pytest.raises(DataError) as caught:
        open_pair(source, target, "small")
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
            open_pair(long, short)
        counts = [file.read_bytes().count(b"\n") for file in (long, short)]
        assert f"{long} has {counts[0]} lines, {short} has {counts[1]}; " in str(caught.value)
    message = "diverge near line 4:\n  source: ''\n  target: (no more lines)"
    if swap:
        long, short = short, long
        message = "diverge near line 4:\n  source: (no more lines)\n  target: ''"
    with pytest.raises(DataError, match=re.escape(message)):
        open_pair(long, short, "small")


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_file_that_was_cut_off(seed: int, swap: bool, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lengths = rng.choices(range(6, 20), k=400)
    long = write(tmp_path / "long", "".join(f"{'wort ' * n}\n" for n in lengths))
    short = write(tmp_path / "short", "".join(f"{'a word ' * (n + rng.randint(-5, 5))}\n" for n in lengths[:100]))
    with pytest.raises(DataError, match=r"diverge near line 101:\n") as caught:
        open_pair(*((short, long) if swap else (long, short)), "small")
    assert f"{'source' if swap else 'target'}: (no more lines)" in str(caught.value)


def test_some_lines_of_further_references_may_be_blank(tmp_path: Path) -> None:
    text = TextInMemory("test", ["uno", "dos", "tres"], ["a", "b", "c"], "1", "2", "")
    further = write(tmp_path / "further", "one\n\nthree\n")
    assert read_further_reference(further, text)[1] == ["one", "", "three"]


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
        "Multi30k val.de (WMT16 tarball) / sha256 01234567…"
    )
    assert describe_variant("val", 1014, other, sha256_of("val", "en")) == "sha256 01234567… / Multi30k val.en"


def test_text_of_another_name_is_not_compared_with_multi30k() -> None:
    assert describe_variant("mine", 1000, "a" * 64, "b" * 64) == "sha256 aaaaaaaa… / bbbbbbbb…"


@pytest.mark.parametrize(("lines", "note"), [(1014, " (as long as Multi30k val, but not the same)"), (500, "")])
def test_unknown_text_under_a_known_name(lines: int, note: str) -> None:
    assert describe_variant("val", lines, "a" * 64, "b" * 64) == f"sha256 aaaaaaaa… / bbbbbbbb…{note}"


def test_sides_of_two_splits_are_refused() -> None:
    message = "the source is test_2016_flickr.de, the target test_2017_flickr.en of Multi30k"
    with pytest.raises(DataError, match=re.escape(message)):
        describe_variant("a / b", 1000, sha256_of("test_2016_flickr", "de"), sha256_of("test_2017_flickr", "en"))


def test_the_variant_comes_from_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {text_sha256(side): KnownText("small", "xx", 3, text_sha256(side)) for side in (GERMAN, ENGLISH)}
    monkeypatch.setattr(multi30k, "_BY_SHA256", small)
    source, target = write_split(tmp_path, "anything")
    assert open_pair(source, target, "anything").variant == "Multi30k small"


# --- the real corpus -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "val", "test_2016_flickr"])
def test_multi30k_is_recognised(multi30k: Path, split: str) -> None:
    pair = open_split(multi30k, split, "de", "en").in_memory()
    assert len(pair.source) == len(pair.target) == {"train": 29000, "val": 1014, "test_2016_flickr": 1000}[split]
    assert pair.variant.removesuffix(" (WMT16 tarball)") == f"Multi30k {split}"
    known_lines = {text.lines for text in KNOWN_TEXTS if text.split == split}
    assert known_lines == {len(pair.source)}


def test_a_lost_line_is_found_in_multi30k(multi30k: Path, tmp_path: Path) -> None:
    pair = open_split(multi30k, "val", "de", "en").in_memory()
    source = write(tmp_path / "val.de", "\n".join(pair.source))
    target = write(tmp_path / "val.en", "\n".join(pair.target[:600] + pair.target[601:]))
    with pytest.raises(DataError) as caught:
        open_pair(source, target, "val")
    found = re.search(r"diverge near line (\d+)", str(caught.value))
    assert found
    assert abs(int(found[1]) - 601) <= 5
