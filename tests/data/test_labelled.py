"""Labelled text on disk, its batches, and what is said of lines that are not as they should be."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from packed import write

from translate.config.data import LabelledFilterConfig
from translate.config.text import TextConfig
from translate.data import labelled
from translate.data.batching import make_batch
from translate.data.cache import CorpusCache
from translate.data.corpus import TextInMemory
from translate.data.dataset import Dataset, EncodedText
from translate.data.digest import text_sha256
from translate.data.labelled import check_variety, open_labelled, read_texts_and_labels
from translate.data.selection import select_texts
from translate.data.splits import open_labelled_split
from translate.errors import DataError
from translate.text.vocabulary import BOS, EOS, SPECIALS

LINES = "de\tEin Hund bellt.\nen\tA dog barks.\nde\tEine Katze schläft.\n"


# --- one file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train.tsv", "train.tsv.gz"])
@pytest.mark.parametrize("content", [LINES, LINES.replace("\n", "\r\n"), f"\ufeff{LINES}\n \n", LINES.strip()])
def test_texts_and_labels(name: str, content: str, tmp_path: Path) -> None:
    text = open_labelled(write(tmp_path / name, content)).in_memory()
    assert text.source == ["Ein Hund bellt.", "A dog barks.", "Eine Katze schläft."]
    assert text.target == ["de", "en", "de"]
    assert (text.name, text.unit) == (name, "texts")
    assert re.fullmatch(r"2 labels, sha256 [0-9a-f]{8}… / [0-9a-f]{8}…", text.variant)
    assert text.source_sha256 == open_labelled(write(tmp_path / "same.tsv", LINES)).source_sha256


def test_what_belongs_to_the_text_and_what_to_the_label(tmp_path: Path) -> None:
    content = " two words \t a\tb\u2028c \n<eos>\t\nde\t \t\n"
    text = open_labelled(write(tmp_path / "x.tsv", content)).in_memory()
    assert text.target == ["two words", "<eos>", "de"]
    assert text.source == [" a\tb\u2028c ", "", " \t"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("de\tHund\nKatze\n", "line 2 has no tab: 'Katze'. Write label, tab, text."),
        ("de\tHund\n\nen\tcat\n", "line 2 has no tab: ''. Write label, tab, text."),
        ("de\tHund\n\t\nen\tcat\n", "line 2 has no label. Write one, or remove the line."),
        (f"{'x' * 90}\n", f"line 1 has no tab: '{'x' * 79}…'. Write label, tab, text."),
        ("de\tHund\n \tKatze\n", "line 2 has no label. Write one, or remove the line."),
        (
            "de\tHund\nfr\tchat\n",
            "line 2: the label 'fr' does not occur in the training text, which has 'de', 'en'. "
            "Correct it, remove the line, or train with texts of that label.",
        ),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_remedy(content: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "val.tsv", content)
    with pytest.raises(DataError) as caught:
        open_labelled(path, known=("en", "de"))
    assert str(caught.value) == f"{path}, {message}"


def test_a_label_in_another_form_of_unicode(tmp_path: Path) -> None:
    path = write(tmp_path / "val.tsv", "cafe\u0301\tHund\n")
    message = "It differs from one of these only in its Unicode form (uconv -x any-nfc makes all NFC). Correct it, "
    with pytest.raises(DataError, match=re.escape(message)):
        open_labelled(path, known=("caf\u00e9", "de"))


@pytest.mark.parametrize("content", ["", "\n\n", " \n"])
def test_an_empty_file(content: str, tmp_path: Path) -> None:
    path = write(tmp_path / "val.tsv", content)
    with pytest.raises(DataError, match=re.escape(f"{path} has no text. It needs one `label<TAB>text` per line.")):
        open_labelled(path)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "val.tsv"
    path.write_bytes(b"de\tsch\xf6n\n")
    with pytest.raises(DataError, match=re.escape(f"{path}, line 1, byte 7: 0xf6 is not UTF-8")):
        open_labelled(path)


def test_many_labels_are_not_all_named(tmp_path: Path) -> None:
    path = write(tmp_path / "val.tsv", "x\tx\n")
    with pytest.raises(DataError, match=r"which has '00', .*'19', …\. Correct"):
        open_labelled(path, known=[f"{number:02}" for number in range(40)])
    with pytest.raises(DataError, match=r"which has '00', .*'19'\. Correct"):
        open_labelled(path, known=[f"{number:02}" for number in range(20)])


def test_a_split_that_is_not_held_in_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "train.tsv", f"{LINES}\n")
    text, held = open_labelled_split(tmp_path, "train"), open_labelled(path).in_memory()
    assert not isinstance(text.source, list)
    assert text.in_memory() == held
    assert len(text.source) == len(text.target) == 3
    assert held.source_sha256 == text_sha256(held.source)
    assert held.target_sha256 == text_sha256(held.target)
    write(path, LINES * 2)
    with pytest.raises(DataError, match="changed while it was being read"):
        list(text.target)


def test_a_file_that_grows_while_it_is_checked_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> Iterator[str]:
        yield from LINES.splitlines()
        write(path, LINES * 2)

    path = write(tmp_path / "train.tsv", LINES)
    with monkeypatch.context() as patch:
        patch.setattr(labelled, "lines_of", read)
        text = open_labelled(path)
    with pytest.raises(DataError, match="changed while it was being read"):
        list(text.source)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["de", "en"] * 5, []),
        (["de", "de", "en"], []),
        (["Ein Haus", "Ein Hund", "Ein Mann"], ["train.tsv: 3 of 3 labels occur only once; each line is label, tab"]),
        (["label", *["de", "en"] * 5], ["train.tsv: the label 'label' of line 1 occurs only there: is it a header?"]),
    ],
)
def test_labels_that_may_be_something_else(
    labels: list[str], said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    check_variety(TextInMemory("train.tsv", ["a"] * len(labels), labels, "", "", "x", unit="texts"))
    assert [message[: len(start)] for message, start in zip(caplog.messages, said, strict=True)] == said


def test_a_single_label() -> None:
    with pytest.raises(
        DataError, match=r"^train\.tsv: all texts have the label 'de'; give texts of at least two labels$"
    ):
        check_variety(TextInMemory("train.tsv", ["a", "b"], ["de", "de"], "", "", "x", unit="texts"))


# --- two files -------------------------------------------------------------------------------------------------------


def test_texts_and_labels_in_files_of_their_own(tmp_path: Path) -> None:
    texts = write(tmp_path / "texts", "Hund\ncat\nKatze\n\n")
    labels = write(tmp_path / "labels", "de\n en\nde\n\n")
    text = read_texts_and_labels(texts, labels, known=("de", "en"))
    assert (text.source, text.target, text.blank_end) == (["Hund", "cat", "Katze"], ["de", "en", "de"], 1)
    assert (text.name, text.unit) == ("texts / labels", "texts")
    same = open_labelled(write(tmp_path / "same.tsv", "de\tHund\nen\tcat\nde\tKatze\n"))
    assert (text.source_sha256, text.target_sha256) == (same.source_sha256, same.target_sha256)
    assert read_texts_and_labels(texts, labels, known=("de", "en", "fr")).variant == text.variant == same.variant
    with pytest.raises(DataError, match=re.escape(f"{labels}, line 2: the label 'en' does not occur in the training")):
        read_texts_and_labels(texts, labels, known=("de",))


# --- encoded ---------------------------------------------------------------------------------------------------------


def encoded(tmp_path: Path, text: TextInMemory) -> Dataset:
    cache = CorpusCache(tmp_path / "cache")
    return cache.dataset(cache.codecs(TextConfig(), ("de", None), text), text)


def test_a_batch_has_one_answer_a_text_numbered_from_0(tmp_path: Path) -> None:
    text = open_labelled(write(tmp_path / "train.tsv", LINES)).in_memory()
    encoded(tmp_path, text)
    dataset = encoded(tmp_path, text)  # from the cache
    assert dataset.labelled
    assert [line.tolist() for line in dataset.target] == [[len(SPECIALS)], [len(SPECIALS) + 1], [len(SPECIALS)]]
    batch = make_batch(dataset, [0, 1])
    assert batch.labels_N.tolist() == [0, 1]
    assert batch.target_BT.tolist() == [[BOS], [BOS]]
    assert batch.target_mask_BT.tolist() == [[True], [True]]
    assert [row[-1] for row in batch.source_BS.tolist()] == [EOS, EOS]


def test_long_and_empty_texts_are_left_out_whatever_their_labels() -> None:
    lengths = [3, 0, 9, 10]
    source = EncodedText(np.zeros(sum(lengths), np.uint16), np.cumsum([0, *lengths]))
    target = EncodedText(np.zeros(4, np.uint16), np.arange(5))
    dataset = Dataset(source, target, labelled=True)
    text = TextInMemory("train.tsv", [""] * 4, ["de"] * 4, "", "", "", unit="texts")
    pairs, report = select_texts(dataset, LabelledFilterConfig(max_tokens=9), text)
    assert pairs.tolist() == [0, 2]
    assert report == [
        "dropped 1 text: empty, first line 2",
        "dropped 1 text: over 9 tokens (data.filter.max_tokens), first line 4",
    ]
    with pytest.raises(DataError, match=r"train\.tsv: nothing is left to train on .*; change data\.filter$"):
        select_texts(dataset, LabelledFilterConfig(max_tokens=2), text)
