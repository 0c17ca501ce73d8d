"""Which files the text of a config lies in: what nothing else may be written over."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from translate.config.schema import Corpus, DataConfig, FilePair, LabelledDataConfig
from translate.data.corpus import find_split, list_splits
from translate.data.labelled import find_labelled_split, list_labelled_splits
from translate.data.mixing import matching_files
from translate.errors import DataError


def text_files(data: DataConfig | LabelledDataConfig) -> Iterator[Path]:
    """The files of every split in the data folder, and those that the config names itself, as far as they are there."""
    with suppress(DataError):  # No folder, or none that can be read.
        if isinstance(data, LabelledDataConfig):
            for split in list_labelled_splits(data.root):
                yield find_labelled_split(data.root, split)
            return
        for split in list_splits(data.root, data.source, data.target):
            yield from find_split(data.root, split, data.source, data.target)
    if isinstance(data, LabelledDataConfig):
        return
    for corpus in (*(data.train if isinstance(data.train, list) else [data.train]), data.valid):
        if isinstance(corpus, FilePair | Corpus):
            for pattern in (corpus.source, corpus.target):
                if pattern is not None:
                    with suppress(DataError):
                        yield from matching_files(pattern).values()
