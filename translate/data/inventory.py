"""Which files hold the text of a config."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from translate.config.data import Corpus, DataConfig, LabelledDataConfig
from translate.data.corpus import find_split, list_splits
from translate.data.labelled import find_labelled_split, list_labelled_splits
from translate.data.mixing import matching_files
from translate.errors import DataError


def split_files(data: DataConfig | LabelledDataConfig) -> dict[str, tuple[Path, ...]]:
    """The files of every split in the data folder. DataError if that folder cannot be read."""
    if isinstance(data, LabelledDataConfig):
        return {split: (find_labelled_split(data.root, split),) for split in list_labelled_splits(data.root)}
    languages = data.source, data.target
    return {split: find_split(data.root, split, *languages) for split in list_splits(data.root, *languages)}


def text_files(data: DataConfig | LabelledDataConfig) -> Iterator[Path]:
    """The files of all splits, and those that the config itself names, if they exist: none may be overwritten."""
    with suppress(DataError):
        for files in split_files(data).values():
            yield from files
    yield from named_files(data)


def named_files(data: DataConfig | LabelledDataConfig) -> Iterator[Path]:
    """The files that the config itself names, by their patterns."""
    if isinstance(data, LabelledDataConfig):
        return
    for corpus in (*data.corpora, Corpus.of(data.valid)):
        for pattern in (corpus.source, corpus.target):
            if pattern is not None:
                with suppress(DataError):
                    yield from matching_files(pattern).values()
