"""The text that a config names: read for training and validation, and encoded ahead of scoring."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from translate.config.data import Corpus, DataConfig, FilePair, LabelledDataConfig
from translate.config.schema import Config
from translate.data.cache import CorpusCache
from translate.data.checks import check_variety
from translate.data.corpus import TextInMemory, TextPair
from translate.data.fetch import download_multi30k, is_to_be_downloaded
from translate.data.inventory import named_files, patterns, split_files
from translate.data.labelled import find_labelled_split, open_labelled_split, read_labelled_split
from translate.data.lines import version_of
from translate.data.mixing import join_corpora, matching_files, open_files
from translate.data.splits import find_split, open_split
from translate.errors import ConfigError, DataError
from translate.paths import demo_corpus, exists
from translate.text.codec import Codec

log = logging.getLogger("translate")

Read = TypeVar("Read", bound=TextPair)

MOST_OF_TEST_SETS = 1 << 24  # bytes on disk of all test sets together, some 100,000 pairs if unpacked


def read_training_text(config: Config) -> TextPair:
    """The training pairs; Multi30k is downloaded first if its folder is missing and the config allows it.

    DataError if a file is missing or cannot be read, the two sides differ in length, or the download fails.
    """
    data = config.data
    if isinstance(data, LabelledDataConfig):
        text = logged(open_labelled_split(data.root, data.train))
        check_variety(text)
        return text
    if _wants_multi30k(data):
        download_multi30k(data.root)
    corpora = data.corpora
    if not isinstance(data.train, list) and corpora[0].weight == 1:
        return logged(open_corpus(data, corpora[0]))
    joined = join_corpora(
        [logged(open_corpus(data, corpus), corpus.weight) for corpus in corpora],
        [corpus.weight for corpus in corpora],
        [corpus.vocabulary for corpus in corpora],
    )
    return joined if len(corpora) == 1 else logged(joined)


def _wants_multi30k(data: DataConfig) -> bool:
    """Whether it has to be downloaded first; not if all text is named file by file."""
    languages = {data.source, data.target}
    return data.download and languages == {"de", "en"} and bool(data.splits) and is_to_be_downloaded(data.root)


def check_text(config: Config) -> None:
    """Find out before millions of lines are read if some of the text is missing.

    Raises:
        ConfigError: the validation text would be that of the demo corpus, while the training text is another.
        DataError: a split is not in its folder, a file that the config names does not exist, or other languages than
            those of Multi30k are to be downloaded.
    """
    data = config.data
    find: Callable[[str], object]
    if isinstance(data, LabelledDataConfig):
        find = partial(find_labelled_split, data.root)
        train = [data.train]
    else:
        find = partial(find_split, data.root, source=data.source, target=data.target)
        train = [corpus.split for corpus in data.corpora if corpus.split is not None]
        if isinstance(data.valid, str) and has_no_folder(data):
            raise ConfigError(
                f"data.train names files, but data.valid is {data.valid!r} of the demo corpus, because no other "
                "data.root is given; name two files for it, too: data.valid={source: FILE, target: FILE}, or its "
                "folder: data.root=FOLDER"
            )
        for pattern in patterns(data):
            for path in matching_files(pattern).values():
                version_of(path)
        if _wants_multi30k(data):
            return
        if data.download and data.splits and {data.source, data.target} != {"de", "en"} and not exists(data.root):
            raise DataError(
                f"data.download brings German (de) and English (en), not {data.source} and {data.target}: put the "
                f"files of these into {data.root}, or set data.root to the folder that has them."
            )
    for split in train:
        find(split)
    if isinstance(data.valid, str):
        try:
            find(data.valid)
        except DataError as error:
            raise DataError(
                f"{error} Validation selects the best model: hold out a few hundred lines of the training text for it."
            ) from None


def has_no_folder(data: DataConfig) -> bool:
    """Whether training text is named file by file, so that `root` is that of the demo corpus only by default."""
    return data.root == demo_corpus() and all(corpus.split is None for corpus in data.corpora)


def read_validation_text(config: Config, train: TextPair) -> TextInMemory:
    """The validation pairs. DataError if a label is not one of the training text."""
    data = config.data
    if isinstance(data, LabelledDataConfig):
        return logged(read_labelled_split(data.root, data.valid, known=set(train.target)))
    return logged(open_corpus(data, data.valid).in_memory())


def open_corpus(data: DataConfig, corpus: str | FilePair | Corpus) -> TextPair:
    """A split by name, or files."""
    corpus = Corpus.of(corpus)
    if corpus.split is not None:
        return open_split(data.root, corpus.split, data.source, data.target)
    assert corpus.source is not None
    assert corpus.target is not None
    return open_files(corpus.source, corpus.target)


def logged(text: Read, weight: int = 1) -> Read:
    """The text itself; what it is goes into the log."""
    often = f", {weight} times an epoch" if weight > 1 else ""
    log.info("%s: %s, %s%s", text.name, text.counted(len(text.source)), text.variant, often)
    return text


def encode_other_splits(config: Config, cache: CorpusCache, codecs: tuple[Codec, Codec]) -> None:
    """Put the splits of the data folder into the cache, so that scoring needs no tokenizer, here or elsewhere.

    Small ones first, up to MOST_OF_TEST_SETS: larger ones are probably training text of other runs. One that cannot be
    read or tokenized now is left until it is asked for. There is no such folder if all text is named file by file.
    """
    data = config.data
    if isinstance(data, DataConfig) and has_no_folder(data):
        return
    read: Callable[[str], TextPair]
    if isinstance(data, LabelledDataConfig):
        read = partial(read_labelled_split, data.root, known=codecs[1].vocabulary.words)
        encoded = [data.train, data.valid]
    else:
        read = partial(open_split, data.root, source=data.source, target=data.target)
        encoded = data.splits
    own = set(named_files(data))  # Files of this folder, named one by one, may be a part of the training text.
    try:
        splits = split_files(data)
        sizes = {split: sum(file.stat().st_size for file in files) for split, files in splits.items()}
    except (DataError, OSError):  # Text named file by file does not need this folder; or a file was just removed.
        return
    room = MOST_OF_TEST_SETS
    for split in sorted(splits, key=sizes.__getitem__):
        if split in encoded or not own.isdisjoint(splits[split]):
            continue
        room -= sizes[split]
        if room < 0:
            break
        with suppress(DataError, ConfigError):
            cache.dataset(codecs, read(split))
