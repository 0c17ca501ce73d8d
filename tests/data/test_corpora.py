"""The text that a config names, parallel or labelled."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from translate.config.data import Corpus, FilePair, LabelledDataConfig, ParallelDataConfig, ParallelFilterConfig
from translate.data import corpora
from translate.data.cache import CorpusCache
from translate.data.corpora import corpora_of, encode_other_splits
from translate.data.selection import upsample_pairs
from translate.errors import DataError
from translate.system.paths import project_root
from translate.text.codec import Codec, Codecs
from translate.text.labels import LabelTokenizer
from translate.text.vocabulary import Vocabulary

LABELS = Codec(LabelTokenizer(), Vocabulary(("x", "y")))


def write_splits(folder: Path, *splits: str) -> None:
    for split in splits:
        for language in ("de", "en"):
            (folder / f"{split}.{language}").write_text("a\nb\n", encoding="utf-8")


@pytest.mark.parametrize("weight", [1, 3])
def test_a_corpus_by_itself(weight: int, tmp_path: Path) -> None:
    write_splits(tmp_path, "clean")
    corpus = Corpus(split="clean", weight=weight)
    text = corpora_of(ParallelDataConfig(root=tmp_path, train=corpus)).open_train()
    assert list(text.source) == ["a", "b"]
    assert len(upsample_pairs(np.arange(2, dtype=np.int32), text)) == 2 * weight


@pytest.mark.parametrize(
    ("train", "told"),
    [
        ("a", ["a: 2 pairs"]),
        (["a"], ["a: 2 pairs"]),
        (Corpus(split="a", weight=3), ["a: 2 pairs"]),
        (["a", "b"], ["a: 2 pairs", "b: 2 pairs", "a + b: 4 pairs"]),
    ],
    ids=["one", "a list of one", "one with a weight", "two"],
)
def test_each_text_is_told_once(train: Any, told: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    write_splits(tmp_path, "a", "b")
    corpora_of(ParallelDataConfig(root=tmp_path, train=train)).open_train()
    assert [message.partition(",")[0] for message in caplog.messages] == told


@pytest.mark.parametrize("swapped", ["", "a", "b", "ab"])
@pytest.mark.parametrize("tag", ["", "<2en> "])
def test_corpora_with_swapped_sides(swapped: str, tag: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As it may happen to back-translations; on purpose, sources have a tag."""
    for name in ("a", "b", "few", "val"):
        for language, turned in (("de", "en"), ("en", "de")):
            word = {"de": "Satz", "en": "Sentence"}[turned if name in swapped else language]
            mark = tag if language == "de" and name in swapped else ""
            lines = "".join(f"{mark}{word} {word} {word} {number}\n" for number in range(99 if name == "few" else 100))
            (tmp_path / f"{name}.{language}").write_text(lines, encoding="utf-8")
    text = corpora_of(ParallelDataConfig(root=tmp_path, train=["few", "a", "b"]))
    text.read_valid(text.open_train())
    expected = f"the source of val has the words of the target of {', '.join(swapped)}, and its target those of the "
    warnings = [message for message in caplog.messages if "the words of" in message]
    assert [message.startswith(expected) for message in warnings] == [True] * bool(swapped and not tag)


def test_test_pairs_that_are_trained_on_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = {"train": "a\nb\n", "val": "c\n", "test_1": "b\nc\n", "newstest": "d\n", "test_2": "", "train_small": "a\n"}
    for split, lines in texts.items():
        (tmp_path / f"{split}.de").write_text(lines, encoding="utf-8")
        (tmp_path / f"{split}.en").write_text(lines.upper(), encoding="utf-8")
    for language in ("de", "en"):
        (tmp_path / f"test_3.{language}").write_bytes(b"a\n\xff\n")
    text = corpora_of(ParallelDataConfig(root=tmp_path))
    text.read_valid(text.open_train())
    assert [message.partition(",")[0] for message in caplog.messages] == [
        "test_1: 1 of 2 different pairs are also in the training text"
    ]


def test_so_are_texts_with_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for split, lines in {"train": "x\ta\ny\tb\n" * 2, "val": "x\tc\n", "test": "y\tb\nz\td\n"}.items():
        (tmp_path / f"{split}.tsv").write_text(lines, encoding="utf-8")
    text = corpora_of(LabelledDataConfig(root=tmp_path))
    text.read_valid(text.open_train())
    assert [message.partition(",")[0] for message in caplog.messages][-1] == (
        "test.tsv: 1 of 2 different texts are also in the training text"
    )


def test_swapped_sides_of_the_validation_text_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, line in (("train.de", "Ein Hund"), ("train.en", "a dog"), ("val.de", "a dog"), ("val.en", "Ein Hund")):
        (tmp_path / name).write_text(f"{line}\n" * 100, encoding="utf-8")
    text = corpora_of(ParallelDataConfig(root=tmp_path))
    text.read_valid(text.open_train())
    assert sum("one of the two texts has its sides swapped" in message for message in caplog.messages) == 1


@pytest.mark.parametrize("identical", [False, True])
def test_copies_that_are_dropped_are_not_warned_of(
    identical: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_splits(tmp_path, "train", "val")
    (tmp_path / "train.en").write_text("a\nc\n", encoding="utf-8")
    (tmp_path / "val.en").write_text("d\ne\n", encoding="utf-8")
    text = corpora_of(ParallelDataConfig(root=tmp_path, filter=ParallelFilterConfig(identical=identical)))
    text.read_valid(text.open_train())
    assert ("have the same text on both sides" in caplog.text) == (not identical)


def test_text_of_which_nothing_is_missing(tmp_path: Path) -> None:
    write_splits(tmp_path, "train", "clean", "val")
    files = Corpus(source=tmp_path / "cle*.de", target=tmp_path / "cle*.en")
    corpora_of(ParallelDataConfig(root=tmp_path, train=["train", Corpus(split="clean"), files])).check()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"train": ["train", "cleann"]}, "No split 'cleann' in {root}: "),
        ({"train": ["train", Corpus(source=Path("none.de"), target=Path("none.en"))]}, "none.de does not exist. "),
        ({"valid": FilePair(source=Path("n*.de"), target=Path("n*.en"))}, "No file matches n*.de. "),
        ({"valid": "dev2"}, "hold out a few hundred lines of the training text for it (scripts/split.py does that)."),
    ],
)
def test_what_is_missing_is_noticed_first(data: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_splits(tmp_path, "train", "val")
    with pytest.raises(DataError, match=re.escape(message.format(root=tmp_path))):
        corpora_of(ParallelDataConfig(root=tmp_path, **data)).check()


def test_other_languages_than_those_of_multi30k_are_not_downloaded(tmp_path: Path) -> None:
    data = ParallelDataConfig(root=tmp_path / "absent", source="fr", target="de", download=True)
    message = (
        "data.download brings German (de) and English (en), not fr and de: put the files of these into "
        f"{tmp_path / 'absent'}, or set data.root to the folder that has them."
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        corpora_of(data).check()


def test_labelled_text_that_is_missing_is_noticed_first(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("x\ta\n", encoding="utf-8")
    with pytest.raises(DataError, match="No labelled split 'val'"):
        corpora_of(LabelledDataConfig(root=tmp_path)).check()


def test_without_a_folder_no_other_split_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(*_: object) -> None:
        raise AssertionError("the folder of the demo corpus is not that of this text")

    monkeypatch.setattr(corpora, "splits_in", listed)
    files = {"source": tmp_path / "a.de", "target": tmp_path / "a.en"}
    data = ParallelDataConfig(root=project_root() / "data", train=Corpus(**files), valid=FilePair(**files))
    codecs: Any = ()
    encode_other_splits(corpora_of(data), CorpusCache(tmp_path / "cache"), codecs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train.de", "train.en.gz", "val.de", "val.en", "notes.de", "test.tsv", "crawl/a.de", "crawl/a.en"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    return tmp_path


def names(data: ParallelDataConfig | LabelledDataConfig, folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in corpora_of(data).files()}


def test_the_files_of_every_split_of_the_folder(folder: Path) -> None:
    assert names(ParallelDataConfig(root=folder), folder) == {"train.de", "train.en.gz", "val.de", "val.en"}


def test_the_files_of_labelled_text(folder: Path) -> None:
    assert names(LabelledDataConfig(root=folder), folder) == {"test.tsv"}


def test_the_files_that_the_config_names(folder: Path) -> None:
    crawl = {"source": folder / "crawl/*.de", "target": folder / "crawl/*.en"}
    expected = {"crawl/a.de", "crawl/a.en"}
    data = ParallelDataConfig(
        root=folder / "absent", valid=FilePair(source=folder / "absent.de", target=folder / "absent.en")
    )
    assert names(data.model_copy(update={"train": Corpus(**crawl)}), folder) == {*expected, "absent.de", "absent.en"}
    assert names(data.model_copy(update={"train": ["train", Corpus(**crawl)]}), folder) >= expected


def test_splits_that_the_config_does_not_name(folder: Path) -> None:
    files = FilePair(source=folder / "val.de", target=folder / "val.en")
    assert corpora_of(ParallelDataConfig(root=folder)).other_splits() == {}
    assert list(corpora_of(ParallelDataConfig(root=folder, train="crawl/a")).other_splits()) == ["train"]
    assert list(corpora_of(ParallelDataConfig(root=folder, train="crawl/a", valid=files)).other_splits()) == ["train"]
    link = folder.with_name("link")
    link.symlink_to(folder)
    assert list(corpora_of(ParallelDataConfig(root=link, train="crawl/a", valid=files)).other_splits()) == ["train"]
    assert corpora_of(LabelledDataConfig(root=folder)).other_splits() == {"test": (folder / "test.tsv",)}
    assert corpora_of(LabelledDataConfig(root=folder, valid="test")).other_splits() == {}


def test_validation_files_are_the_validation_split_unless_another_folder_is_asked_for(tmp_path: Path) -> None:
    write_splits(tmp_path, "dev", "a")
    (tmp_path / "a.en").write_text("c\nd\n", encoding="utf-8")
    text = corpora_of(
        ParallelDataConfig(root=tmp_path, valid=FilePair(source=tmp_path / "a.de", target=tmp_path / "a.en"))
    )
    assert list(text.open_split("val").target) == ["c", "d"]
    assert list(text.open_split("val", tmp_path).target) == ["a", "b"]


def test_a_validation_split_of_another_name_is_not_the_split_asked_for(tmp_path: Path) -> None:
    write_splits(tmp_path, "val", "heldout")
    (tmp_path / "heldout.en").write_text("c\nd\n", encoding="utf-8")
    assert list(corpora_of(ParallelDataConfig(root=tmp_path, valid="heldout")).open_split("val").target) == ["a", "b"]


def test_a_label_that_the_model_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("x\ta\nz\tb\n", encoding="utf-8")
    for name, line in (("a.txt", "a"), ("a.labels", "z")):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    text = corpora_of(LabelledDataConfig(root=tmp_path), LABELS)
    with pytest.raises(DataError, match="line 2: the label 'z' does not occur in the training text"):
        text.open_split("test")
    with pytest.raises(DataError, match="line 1: the label 'z' does not occur in the training text"):
        text.read_files(tmp_path / "a.txt", tmp_path / "a.labels")


def test_splits_with_labels_that_the_model_knows_are_encoded(tmp_path: Path) -> None:
    for split, label in {"train": "x", "val": "x", "a": "y", "b": "z"}.items():
        (tmp_path / f"{split}.tsv").write_text(f"{label}\tx\n", encoding="utf-8")
    text, cache = corpora_of(LabelledDataConfig(root=tmp_path), LABELS), CorpusCache(tmp_path / "cache")
    encode_other_splits(text, cache, Codecs(LABELS, LABELS))
    assert len(list((tmp_path / "cache").glob("text-*.json"))) == 1
