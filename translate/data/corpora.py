"""All text that a config names, parallel or labelled: read for training, validation and scoring, or encoded ahead."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from translate.config.data import Corpus, FilePair, LabelledDataConfig, ParallelDataConfig
from translate.data.cache import CorpusCache
from translate.data.copies import warn_of_copies
from translate.data.corpus import TextInMemory, TextPair, open_pair
from translate.data.dataset import Dataset
from translate.data.fetch import download_multi30k, is_to_be_downloaded
from translate.data.labelled import check_variety, read_texts_and_labels
from translate.data.lines import version_of
from translate.data.mixing import join_corpora, matching_files, open_files
from translate.data.multi30k import DOWNLOADED_LANGUAGES
from translate.data.selection import select_pairs, select_texts
from translate.data.sides import are_swapped, refuse_swapped_files, warn_of_wrong_sides
from translate.data.splits import (
    find_labelled_split,
    find_split,
    labelled_splits_in,
    names_of_split,
    open_labelled_split,
    open_split,
    splits_in,
)
from translate.errors import ConfigError, DataError
from translate.system.paths import demo_corpus, exists, resolved
from translate.text.codec import Codec, Codecs

log = logging.getLogger("translate")

Read = TypeVar("Read", bound=TextPair)

MAX_BYTES_OF_TEST_SETS = 1 << 24  # bytes on disk of all test sets together, some 100,000 pairs if unpacked


@dataclass(frozen=True)
class ParallelCorpora:
    """Sentences and their translations: splits of a folder, and files by name."""

    data: ParallelDataConfig

    def check(self) -> None:
        """Find out before millions of lines are read if some of the text is missing.

        Raises:
            ConfigError: the files of both sides are swapped, or the validation text would be that of the demo corpus,
                while the training text is another.
            DataError: a split is not in its folder, a file that the config names does not exist, or other languages
                than those of Multi30k are to be downloaded.
        """
        data = self.data
        refuse_swapped_files(data)
        if isinstance(data.valid, str) and self._has_no_folder():
            raise ConfigError(
                f"data.train names files, but data.valid is {data.valid!r} of the demo corpus, because no other "
                "data.root is given; name two files for it, too: data.valid={source: FILE, target: FILE}, or its "
                "folder: data.root=FOLDER"
            )
        for pattern in self._patterns():
            for path in matching_files(pattern).values():
                version_of(path)
        if self._wants_multi30k():
            return
        languages = {data.source, data.target}
        if data.download and data.splits and languages != DOWNLOADED_LANGUAGES and not exists(data.root):
            raise DataError(
                f"data.download brings German (de) and English (en), not {data.source} and {data.target}: put the "
                f"files of these into {data.root}, or set data.root to the folder that has them."
            )
        for corpus in data.corpora:
            if corpus.split is not None:
                find_split(data.root, corpus.split, data.source, data.target)
        if isinstance(data.valid, str):
            with needed_for_validation(" (scripts/split.py does that)"):
                find_split(data.root, data.valid, data.source, data.target)

    def open_train(self) -> TextPair:
        """The training pairs; Multi30k is downloaded first if its folder is missing and the config allows it.

        DataError if a file is missing or cannot be read, the two sides differ in length, or the download fails.
        """
        if self._wants_multi30k():
            download_multi30k(self.data.root)
        corpora = self.data.corpora
        texts = [logged(self._open(corpus), corpus.weight) for corpus in corpora]
        if not isinstance(self.data.train, list) and corpora[0].weight == 1:
            return texts[0]
        joined = join_corpora(texts, [corpus.weight for corpus in corpora], [corpus.vocabulary for corpus in corpora])
        return joined if len(corpora) == 1 else logged(joined)

    def read_valid(self, train: TextPair) -> TextInMemory:
        """The validation pairs. Warns of all that warn_of_copies and warn_of_wrong_sides look for."""
        text = logged(self._open(Corpus.of(self.data.valid)).in_memory())
        warn_of_copies(train, text, test_sets_of(self), self.data.filter)
        warn_of_wrong_sides(train, text)
        return text

    def open_split(self, split: str, root: Path | None = None) -> TextPair:
        """A split of the folder `root`, or else of the config, which may name files for validation.

        ConfigError if the config has no folder, DataError if the split cannot be read.
        """
        data = self.data
        if root is None:
            if isinstance(data.valid, FilePair) and split in names_of_split("val"):
                return self._open(Corpus.of(data.valid))
            if self._has_no_folder():
                raise ConfigError(
                    "the text of this model was named file by file, so there is no folder with splits; give "
                    "--data-root, or --source and --reference"
                )
        return open_split(root or data.root, split, data.source, data.target)

    def read_files(self, source: Path, reference: Path) -> TextInMemory:
        """Two files. ConfigError if they are named after each other's language, DataError if they cannot be read."""
        if are_swapped(source, reference, (self.data.source, self.data.target)):
            raise ConfigError(
                f"the model translates from {self.data.source!r} to {self.data.target!r}, but the source is {source}, "
                f"and the reference {reference}; swap the two files"
            )
        return open_pair(source, reference).in_memory()

    def other_splits(self) -> dict[str, tuple[Path, ...]]:
        """The splits of the folder that the config does not name, with their files. DataError if it cannot be read."""
        if self._has_no_folder():
            return {}
        # Files of this folder, named one by one, may be a part of the training text.
        own = set(map(resolved, self._named_files()))
        splits = splits_in(self.data.root, self.data.source, self.data.target)
        return {
            split: files
            for split, files in splits.items()
            if split not in self.data.splits and own.isdisjoint(map(resolved, files))
        }

    def files(self) -> Iterator[Path]:
        """The files of all splits, and those that the config itself names: none may be overwritten."""
        with suppress(DataError):
            for files in splits_in(self.data.root, self.data.source, self.data.target).values():
                yield from files
        yield from self._named_files()

    def select(self, dataset: Dataset, text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
        """The pairs to train on, and what is dropped: see select_pairs."""
        return select_pairs(dataset, self.data.filter, text)

    def _open(self, corpus: Corpus) -> TextPair:
        """A split by name, or files."""
        if corpus.split is not None:
            return open_split(self.data.root, corpus.split, self.data.source, self.data.target)
        assert corpus.source is not None
        assert corpus.target is not None
        return open_files(corpus.source, corpus.target)

    def _wants_multi30k(self) -> bool:
        """Whether it has to be downloaded first; not if all text is named file by file."""
        languages = {self.data.source, self.data.target}
        wanted = self.data.download and languages == DOWNLOADED_LANGUAGES and bool(self.data.splits)
        return wanted and is_to_be_downloaded(self.data.root)

    def _has_no_folder(self) -> bool:
        """Whether training text is named file by file, so that `root` is that of the demo corpus only by default."""
        return self.data.root == demo_corpus() and all(corpus.split is None for corpus in self.data.corpora)

    def _named_files(self) -> Iterator[Path]:
        """The files that the config itself names; of those with wildcards, the ones that exist."""
        for pattern in self._patterns():
            with suppress(DataError):
                yield from matching_files(pattern).values()

    def _patterns(self) -> Iterator[Path]:
        """The names of files in the config, which may have wildcards."""
        for corpus in self.data.texts:
            yield from (pattern for pattern in (corpus.source, corpus.target) if pattern is not None)


@dataclass(frozen=True)
class LabelledCorpora:
    """Texts and their labels: splits of a folder.

    Args:
        known: the labels of a model, if the text is for one that is trained already: no others may occur in it.
    """

    data: LabelledDataConfig
    known: frozenset[str] | None

    def check(self) -> None:
        """Find out before millions of lines are read if some of the text is missing: a DataError."""
        find_labelled_split(self.data.root, self.data.train)
        with needed_for_validation():
            find_labelled_split(self.data.root, self.data.valid)

    def open_train(self) -> TextPair:
        """The training texts. DataError if they cannot be read, or all have one label."""
        text = logged(open_labelled_split(self.data.root, self.data.train))
        check_variety(text)
        return text

    def read_valid(self, train: TextPair) -> TextInMemory:
        """The validation texts; warns as warn_of_copies does. DataError if a label does not occur in `train`."""
        text = logged(open_labelled_split(self.data.root, self.data.valid, known=set(train.target)).in_memory())
        warn_of_copies(train, text, test_sets_of(self))
        return text

    def open_split(self, split: str, root: Path | None = None) -> TextPair:
        """A split of the folder `root`, or else of the config. DataError if one of its labels is not `known`."""
        return open_labelled_split(root or self.data.root, split, self.known)

    def read_files(self, source: Path, reference: Path) -> TextInMemory:
        """A file with texts and one with their labels. DataError if one of these is not `known`."""
        return read_texts_and_labels(source, reference, self.known)

    def other_splits(self) -> dict[str, tuple[Path, ...]]:
        """The splits of the folder that the config does not name, with their files. DataError if it cannot be read."""
        own = (self.data.train, self.data.valid)
        return {split: (path,) for split, path in labelled_splits_in(self.data.root).items() if split not in own}

    def files(self) -> Iterator[Path]:
        """The files of all splits: none may be overwritten."""
        with suppress(DataError):
            yield from labelled_splits_in(self.data.root).values()

    def select(self, dataset: Dataset, text: TextPair) -> tuple[NDArray[np.int32], list[str]]:
        """The texts to train on, and what is dropped: see select_texts."""
        return select_texts(dataset, self.data.filter, text)


Corpora = ParallelCorpora | LabelledCorpora


def corpora_of(data: ParallelDataConfig | LabelledDataConfig, target: Codec | None = None) -> Corpora:
    """The text that the section `data` names; `target` is the codec of the model that it is for, if there is one."""
    if isinstance(data, LabelledDataConfig):
        return LabelledCorpora(data, frozenset(target.vocabulary.words) if target else None)
    return ParallelCorpora(data)


def encode_other_splits(corpora: Corpora, cache: CorpusCache, codecs: Codecs) -> None:
    """Put the small splits of the data folder into the cache, so that scoring needs no tokenizer, here or elsewhere.

    One that cannot be read or tokenized now is left until it is asked for.
    """
    for split in small_splits(corpora):
        with suppress(DataError, ConfigError):
            cache.dataset(codecs, corpora.open_split(split, corpora.data.root))


def test_sets_of(corpora: Corpora) -> list[TextPair]:
    """The small splits of the data folder that are called a test, if they can be read."""
    texts = []
    for split in small_splits(corpora):
        if "test" in split:
            with suppress(DataError):
                texts.append(corpora.open_split(split, corpora.data.root))
    return texts


def small_splits(corpora: Corpora) -> Iterator[str]:
    """The splits that the config does not name, small ones first, up to MAX_BYTES_OF_TEST_SETS.

    Larger ones are probably training text of other runs.
    """
    try:
        splits = corpora.other_splits()
        sizes = {split: sum(version_of(file)[1] for file in files) for split, files in splits.items()}
    except DataError:  # Text named file by file does not need this folder; or a file was just removed.
        return
    room = MAX_BYTES_OF_TEST_SETS
    for split in sorted(splits, key=sizes.__getitem__):
        room -= sizes[split]
        if room < 0:
            break
        yield split


@contextmanager
def needed_for_validation(how: str = "") -> Iterator[None]:
    """A DataError inside, which says that there is no such text, also says where to take it from."""
    try:
        yield
    except DataError as error:
        raise DataError(
            f"{error} Validation selects the best model: hold out a few hundred lines of the training text for it{how}."
        ) from None


def logged(text: Read, weight: int = 1) -> Read:
    """The text itself; what it is goes into the log."""
    often = f", {weight} times an epoch" if weight > 1 else ""
    log.info("%s: %s, %s%s", text.name, text.counted(len(text.source)), text.variant, often)
    return text
