"""The text that a config names: read for training and validation, and encoded ahead of scoring."""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from translate.config.schema import Config, Corpus, DataConfig, FilePair, LabelledDataConfig
from translate.data.corpus import ParallelText, TextPair, find_split, is_folder, open_split
from translate.data.dataset import SIDES, CorpusCache, Dataset
from translate.data.fetch import download_multi30k, is_to_be_downloaded
from translate.data.inventory import named_files, split_files
from translate.data.labelled import find_labelled_split, read_labelled_split
from translate.data.lines import version_of
from translate.data.mixing import join_corpora, matching_files, open_files
from translate.errors import ConfigError, DataError
from translate.paths import project_root
from translate.text.codec import Codec
from translate.text.vocabulary import UNK

log = logging.getLogger("translate")

Read = TypeVar("Read", bound=TextPair)

MUCH = 0.1  # Warn if more than this share of the tokens is unknown,
WORTH_SAYING = 0.01  # or if at least this share of the pairs is copied.
# Pairs are taken for misaligned if in a stretch of this many (in a text of at least `FEWEST` pairs), the lengths of
# source and target lines vary (by at least this standard deviation, in tokens), but have a rank correlation below this.
# In stretches of 200 of Multi30k it is at least 0.79, and below 0 if one side is shifted by a line; in stretches of 100
# it is at least 0.72, and with shuffled lines below 0.2 in 19 of 20.
STRETCH, FEWEST, VARIED, UNRELATED = 200, 100, 2.0, 0.2
MOST_OF_A_TEST_SET = 1 << 24  # bytes in the files of a test set, some 100,000 pairs


def read_training_text(config: Config) -> TextPair:
    """The training pairs; Multi30k is downloaded first if its folder is missing and the config allows it.

    DataError if a file is missing or cannot be read, the two sides differ in length, or the download fails.
    """
    data = config.data
    if isinstance(data, LabelledDataConfig):
        text = logged(read_labelled_split(data.root, data.train))
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


def check_validation_text(config: Config) -> None:
    """Find out before training starts if the validation text is missing.

    Raises:
        ConfigError: it would be that of the demo corpus, while the training text is another.
        DataError: the split, or that of training, is not in its folder; or a file that it names does not exist.
    """
    data = config.data
    if isinstance(data.valid, FilePair):
        for pattern in (data.valid.source, data.valid.target):
            for path in matching_files(pattern).values():
                version_of(path)
        return
    if isinstance(data, DataConfig) and data.root == project_root() / "data" and data.splits == [data.valid]:
        raise ConfigError(
            f"data.train names files, but data.valid is {data.valid!r} of the demo corpus, because no other "
            "data.root is given; name two files for it, too: data.valid={source: FILE, target: FILE}, or its "
            "folder: data.root=FOLDER"
        )
    will_download = isinstance(data, DataConfig) and _wants_multi30k(data)
    if is_folder(data.root) and not will_download:
        find: Callable[[str], object]
        if isinstance(data, LabelledDataConfig):
            find = partial(find_labelled_split, data.root)
        else:
            find = partial(find_split, data.root, source=data.source, target=data.target)
        if isinstance(data.train, str):
            find(data.train)
        try:
            find(data.valid)
        except DataError as error:
            raise DataError(
                f"{error} Validation selects the best model: hold out a few hundred lines of the training text for it."
            ) from None


def read_validation_text(config: Config, train: TextPair) -> ParallelText:
    """The validation pairs. DataError if a label is not one of the training text."""
    data = config.data
    if isinstance(data, LabelledDataConfig):
        return logged(read_labelled_split(data.root, data.valid, known=set(train.target)))
    return logged(open_corpus(data, data.valid).in_memory())


def check_variety(text: ParallelText) -> None:
    """DataError if all texts have one label; a warning if what is read as labels may be something else."""
    counts = Counter(text.target)
    if len(counts) == 1:
        raise DataError(f"{text.name}: all texts have the label {text.target[0]!r}; give texts of at least two labels")
    once = [label for label, count in counts.items() if count == 1]
    if 2 * len(once) > len(counts):
        log.warning(
            "%s: %d of %d labels occur only once; each line is label, tab, text: are they in this order?",
            *(text.name, len(once), len(counts)),
        )
    elif text.target[0] in once:
        log.warning("%s: the label %r of line 1 occurs only there: is it a header?", text.name, text.target[0])


def warn_of_equal_sides(text: TextPair) -> None:
    """Warn if the sources are the same text as their targets."""
    if text.source_sha256 == text.target_sha256:
        log.warning("%s: source and target are the same text: there is nothing to translate", text.name)


def warn_of_copies(train: TextPair, valid: TextPair) -> None:
    """Warn if sources are the same text as their targets or a whole row of a table, or if validation pairs are in the
    training text, too."""
    for text in (train, valid):
        warn_of_equal_sides(text)
    if (train.source_sha256, train.target_sha256) == (valid.source_sha256, valid.target_sha256):
        log.warning("the validation text is the training text: its scores say nothing about unseen text")
        return
    pairs = set(zip(valid.source, valid.target, strict=True))
    known: set[tuple[str, str]] = set()
    copies = tables = 0
    for pair in zip(train.source, train.target, strict=True):
        copies += pair[0] == pair[1] and bool(pair[0].strip())
        tables += "\t" in pair[0] or "\t" in pair[1]
        if pair in pairs:
            known.add(pair)
    if 2 * tables > len(train.source):
        log.warning(
            "%s: %d of %d %s have a tab on one side, which may be the rows of a table with the other side in them; cut "
            "-f1 FILE prints the first column",
            *(train.name, tables, len(train.source), train.unit),
        )
    if copies >= len(train.source) * WORTH_SAYING:
        log.warning(
            "%s: %d of %d %s have the same text on both sides, which teaches a model to copy; remove them, unless "
            "that is intended",
            train.name,
            copies,
            len(train.source),
            train.unit,
        )
    if len(known) >= len(pairs) * WORTH_SAYING:
        log.warning(
            "%s: %d of %d different %s are also in the training text, so validation scores, which select the best "
            "model, say less about unseen text; remove them from one of the two",
            valid.name,
            len(known),
            len(pairs),
            valid.unit,
        )


def warn_of_shifts(sources: NDArray[np.integer], targets: NDArray[np.integer], text: TextPair) -> None:
    """Warn if sources and targets of these lengths, in tokens or words, seem misaligned: if in some stretch, the
    lengths of their lines are not correlated.

    A long line has a long translation. If one side lacks a line, all later pairs are misaligned.
    """
    if len(sources) < FEWEST:
        return
    last = max(0, len(sources) - STRETCH)
    for start in (*range(0, last, STRETCH), last):
        source, target = (lengths[start : start + STRETCH] for lengths in (sources, targets))
        if min(source.std(), target.std()) >= VARIED and np.corrcoef(_ranks(source), _ranks(target)).min() < UNRELATED:
            log.warning(
                "%s: around %s, source and target lengths are not correlated: the lines may be misaligned, for example "
                "because one side lacks a line",
                *(text.name, text.place(start)),
            )
            return


def _ranks(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The rank of each line by length, so that a few very long lines count no more than others."""
    return lengths.argsort(kind="stable").argsort(kind="stable")


def log_unknown_share(valid: Dataset) -> None:
    """Log which share of the validation text the vocabularies lack; accuracy and perplexity count it like any word."""
    shares = [float((side.ids == UNK).sum()) / max(1, len(side.ids)) for side in (valid.source, valid.target)]
    if max(shares) > 0:
        tell = log.warning if max(shares) > MUCH else log.info
        of_each = [f"{share:.1%} of the {side} tokens" for share, side in zip(shares, SIDES, strict=True)]
        tell("%s: %s are out of vocabulary", valid.name, " and ".join(of_each))


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
    """Put every split of the data folder into the cache, so that scoring needs no tokenizer, here or elsewhere.

    A split that cannot be read or tokenized now is left until it is asked for; so is one too large to be a test set.
    """
    data = config.data
    read: Callable[[str], TextPair]
    if isinstance(data, LabelledDataConfig):
        read = partial(read_labelled_split, data.root, known=codecs[1].vocabulary.words)
        encoded = [data.train, data.valid]
    else:
        read = partial(open_split, data.root, source=data.source, target=data.target)
        encoded = data.splits
    own = set(named_files(data))  # Files of this folder, named one by one, may be a part of the training text.
    with suppress(DataError):  # The folder itself may be unreadable: text named file by file does not need it.
        for split, files in split_files(data).items():
            small = sum(file.stat().st_size for file in files) <= MOST_OF_A_TEST_SET
            if split not in encoded and own.isdisjoint(files) and small:
                with suppress(DataError, ConfigError):
                    cache.dataset(codecs, read(split))
