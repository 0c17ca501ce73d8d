"""Which files hold the text of a config."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from translate.config.data import Corpus, DataConfig, LabelledDataConfig
from translate.data.labelled import labelled_splits_in
from translate.data.mixing import matching_files
from translate.data.splits import splits_in
from translate.errors import DataError


def split_files(data: DataConfig | LabelledDataConfig) -> dict[str, tuple[Path, ...]]:
    """The files of every split in the data folder. DataError if that folder cannot be read."""
    if isinstance(data, LabelledDataConfig):
        return {split: (path,) for split, path in labelled_splits_in(data.root).items()}
    return dict(splits_in(data.root, data.source, data.target))


def text_files(data: DataConfig | LabelledDataConfig) -> Iterator[Path]:
    """The files of all splits, and those that the config itself names, if they exist: none may be overwritten."""
    with suppress(DataError):
        for files in split_files(data).values():
            yield from files
    yield from named_files(data)


def named_files(data: DataConfig | LabelledDataConfig) -> Iterator[Path]:
    """The files that the config itself names, if they exist."""
    for pattern in () if isinstance(data, LabelledDataConfig) else patterns(data):
        with suppress(DataError):
            yield from matching_files(pattern).values()


def patterns(data: DataConfig) -> Iterator[Path]:
    """The names of files in the config, which may have wildcards."""
    for corpus in (*data.corpora, Corpus.of(data.valid)):
        yield from (pattern for pattern in (corpus.source, corpus.target) if pattern is not None)
