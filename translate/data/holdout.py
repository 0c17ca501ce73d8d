"""Divides one corpus into training text and held-out pairs, which no sentence of the training text gives away."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from translate.data.lines import PACKED, Text
from translate.data.splits import names_of_split
from translate.errors import DataError
from translate.system.files import atomic_open, writing
from translate.text.codec import compose

TRAIN = "train"
MAX_LENGTH = 1000  # characters: longer lines are mostly several sentences, and slow to translate

log = logging.getLogger("translate")


def hold_out(
    source: Text, target: Text, sizes: Mapping[str, int], seed: int, max_length: int = MAX_LENGTH
) -> dict[str, NDArray[np.int64]]:
    """The indices of the pairs of each split: as many random ones as `sizes` says, and in `TRAIN` all the others.

    A pair is held out only if both of its lines have at most `max_length` characters and occur once in the corpus, so
    that training text and splits share no line.

    Raises:
        DataError: there are too few such pairs, or more pairs would be held out than are left.
    """
    wanted = sum(sizes.values())
    (once, lengths), (also_once, others) = map(_occur_once, (source, target))
    long = np.maximum(lengths, others) > max_length
    possible = np.flatnonzero(once & also_once & ~long)
    if wanted > len(possible):
        or_longer = f", or for longer ones, of which there are {long.sum()}: --max-length N" if long.any() else ""
        raise DataError(
            f"{wanted} pairs cannot be held out: of {len(source)} pairs, {len(possible)} have lines of 1 to "
            f"{max_length} characters that occur once. Ask for fewer: --valid N --test N{or_longer}."
        )
    if long.any():
        what = f"pairs with lines of more than {max_length} characters, all of them left to train on (--max-length N)"
        log.info("%s: %d of %d", what, long.sum(), len(source))
    if 2 * wanted > len(source):
        raise DataError(
            f"{wanted} of {len(source)} pairs would be held out, and fewer left to train on. Ask for fewer: --valid N "
            "--test N."
        )
    chosen = np.random.default_rng(seed).choice(possible, wanted, replace=False)
    parts = np.split(chosen, np.cumsum(list(sizes.values()))[:-1])
    left = np.setdiff1d(np.arange(len(source)), chosen)
    return {TRAIN: left, **{split: np.sort(part) for split, part in zip(sizes, parts, strict=True)}}


def _occur_once(lines: Text) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Which lines have text that differs from all others, and how long each is, stripped and in Unicode form NFC."""
    hashes = np.zeros(len(lines), np.int64)  # in place of the lines, of which there may be millions
    lengths = np.zeros(len(lines), np.int32)
    for index, line in enumerate(map(compose, map(str.strip, lines))):
        hashes[index], lengths[index] = hash(line), len(line)
    _, group, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    return (lengths > 0) & (counts[group] == 1), lengths


def new_files(folder: Path, splits: Iterable[str], languages: Sequence[str]) -> dict[tuple[str, str], Path]:
    """`folder/SPLIT.LANGUAGE` for each split and language.

    Raises:
        DataError: one of them exists, or a file that would be taken for the same split: packed, or by another name.
    """
    paths = {(split, language): folder / f"{split}.{language}" for split in splits for language in languages}
    for split, language in paths:
        for name in names_of_split(split):
            for ending in ("", *PACKED):
                path = folder / f"{name}.{language}{ending}"
                if os.path.lexists(path):
                    reason = "" if name == split else f", and {name!r} is another name of {split!r}"
                    raise DataError(f"{path} exists{reason}. Choose another --folder, or move it away.")
    return paths


def write_splits(
    files: Mapping[tuple[str, str], Path], sides: Mapping[str, Text], splits: Mapping[str, NDArray[np.int64]]
) -> None:
    """Write the lines of each split and language to its file, in the order of the corpus; create the folder.

    Raises:
        DataError: one of the files cannot be written; then none is.
    """
    names = list(splits)
    split_of = np.zeros(sum(map(len, splits.values())), np.uint8)
    for number, name in enumerate(names):
        split_of[splits[name]] = number
    folder = next(iter(files.values())).parent
    with writing(folder, DataError, "choose another --folder"), ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        opened = {place: stack.enter_context(atomic_open(path)) for place, path in files.items()}
        for language, lines in sides.items():
            for number, line in zip(split_of.tolist(), lines, strict=True):
                opened[names[number], language].write(f"{line}\n".encode())
        for file in opened.values():  # If that fails or is interrupted, none of them has its name yet.
            file.flush()
            os.fsync(file.fileno())
