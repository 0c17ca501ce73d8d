"""Encoded pairs: made once, kept in a folder, and read from there without any tokenizer's library and without copying.

An entry of the folder is a JSON file, named after the hash of all that it was made from. It carries its own digest and
says which packages made it; the arrays that it lists are files named after theirs. Each file appears whole or not at
all, so that two processes may fill one folder, and damage of any kind is noticed and mended.
"""

import hashlib
import importlib.metadata
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from translate.config.schema import FilterConfig, LabelledFilterConfig, TextConfig
from translate.data.corpus import ParallelText
from translate.errors import DataError
from translate.files import written_whole
from translate.text.build import build_codecs
from translate.text.codec import Codec
from translate.text.labels import LabelTokenizer

FORMAT = 1  # Goes into every name: entries of another format are never looked at.
CHUNK = 10_000  # Lines encoded at a time, which bounds the memory that Python's own lists take.

T = TypeVar("T")
log = logging.getLogger("translate")


# --- what a run reads ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EncodedText:
    """The ids of all lines, one behind the other, and where each line starts.

    Args:
        ids: flat uint16 or int32, without BOS and EOS.
        offsets: int64, one more than lines: line i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: NDArray[Any]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, line: int) -> NDArray[Any]:
        if not 0 <= line < len(self):
            raise IndexError(f"line {line} of {len(self)}")
        return self.ids[self.offsets[line] : self.offsets[line + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[line] for line in range(len(self)))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each line."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class Dataset:
    """The encoded pairs of one split, unfiltered. Where it is `labelled`, a target is a label and has no end."""

    name: str
    source: EncodedText
    target: EncodedText
    variant: str
    source_sha256: str
    target_sha256: str
    labelled: bool = False

    def __len__(self) -> int:
        return len(self.source)

    def epoch(self, number: int) -> "Dataset":
        """The pairs as an epoch reads them: the same in each."""
        return self


def encode_text(codec: Codec, lines: Sequence[str]) -> EncodedText:
    """Encode all lines, into the smallest type that holds the vocabulary."""
    dtype = np.uint16 if len(codec.vocabulary) <= 2**16 else np.int32
    ids, lengths = [np.empty(0, dtype)], [np.zeros(1, np.int64)]
    for start in range(0, len(lines), CHUNK):
        encoded = codec.encode(lines[start : start + CHUNK])
        ids.append(np.fromiter(chain.from_iterable(encoded), dtype))
        lengths.append(np.fromiter(map(len, encoded), np.int64))
    return EncodedText(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))


def select_pairs(dataset: Dataset, config: FilterConfig, text: ParallelText) -> tuple[NDArray[np.int64], list[str]]:
    """The indices of the pairs to train on, and one line of report for each reason to drop others.

    Raises:
        DataError: no pair is left.
    """
    longer = np.maximum(dataset.source.lengths, dataset.target.lengths)
    shorter = np.minimum(dataset.source.lengths, dataset.target.lengths)
    reasons = [("an empty side", shorter == 0)]
    if config.untranslated:
        wordless = [not (_has_word(s) and _has_word(t)) for s, t in zip(text.source, text.target, strict=True)]
        reasons.append(("no letter or digit on one side", np.array(wordless)))
    reasons.append((f"more than {config.max_tokens} tokens on one side", longer > config.max_tokens))
    if config.max_ratio is not None:
        reasons.append((f"one side over {config.max_ratio:g} times the other", longer > config.max_ratio * shorter))
    return _drop("pair", len(dataset), reasons, text.name)


def select_texts(dataset: Dataset, config: LabelledFilterConfig) -> tuple[NDArray[np.int64], list[str]]:
    """The same for labelled text."""
    lengths = dataset.source.lengths
    reasons = [("empty", lengths == 0), (f"more than {config.max_tokens} tokens", lengths > config.max_tokens)]
    return _drop("text", len(dataset), reasons, dataset.name)


def _drop(
    what: str, count: int, reasons: Sequence[tuple[str, NDArray[np.bool_]]], name: str
) -> tuple[NDArray[np.int64], list[str]]:
    kept = np.ones(count, dtype=bool)
    report = []
    for reason, applies in reasons:
        dropped = np.flatnonzero(kept & applies)
        kept[dropped] = False
        if dropped.size:
            items = f"1 {what}" if dropped.size == 1 else f"{dropped.size} {what}s"
            report.append(f"dropped {items}: {reason} (first: line {dropped[0] + 1})")
    if not kept.any():
        raise DataError(f"{name}: no {what} is left to train on ({'; '.join(report)}); see data.filter")
    return np.flatnonzero(kept), report


def _has_word(line: str) -> bool:
    return any(map(str.isalnum, line))


# --- the folder ------------------------------------------------------------------------------------------------------


class CorpusCache:
    """A folder of codecs and encoded texts, each made where it is missing, damaged, or cut by another library version.

    The folder is made when something is written into it first; DataError where that is not possible.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def codecs(self, config: TextConfig, languages: tuple[str, str | None], train: ParallelText) -> tuple[Codec, Codec]:
        """The codecs of both languages, with vocabularies and spacing learned from `train`; None stands for labels.

        Raises:
            ConfigError: text must be cut, and the library or the spaCy model for it is not there.
        """
        text = [train.source_sha256, train.target_sha256]
        name = f"codecs-{_digest([FORMAT, config.model_dump(mode='json'), languages, text])}"
        codecs = self._read(name, _parse_codecs)
        if codecs is None:
            codecs = build_codecs(config, languages, train.source, train.target)
            self._write(name, [codec.to_dict() for codec in codecs], codecs)
        return codecs

    def find(self, codecs: tuple[Codec, Codec], text: ParallelText) -> Dataset | None:
        """The encoded pairs of a text, memory-mapped, if they are here."""
        sides = self._read(_text_name(codecs, text), self._parse_sides)
        return None if sides is None else _dataset(codecs, text, sides)

    def dataset(self, codecs: tuple[Codec, Codec], text: ParallelText) -> Dataset:
        """The encoded pairs of a text, memory-mapped; encoded now where they are not here yet.

        Raises:
            ConfigError: text must be cut, and the library or the spaCy model for it is not there.
        """
        found = self.find(codecs, text)
        if found is not None:
            return found
        sides = [encode_text(*side) for side in zip(codecs, (text.source, text.target), strict=True)]
        content = [[self._write_array(array) for array in (side.ids, side.offsets)] for side in sides]
        self._write(_text_name(codecs, text), content, codecs)
        return _dataset(codecs, text, self._parse_sides(content))  # From now on mapped, as in every later run.

    def _read(self, name: str, parse: Callable[[Any], T]) -> T | None:
        """The content of an entry; None where it has to be made."""
        path = self._folder / f"{name}.json"
        try:
            if not path.exists():
                return None
            entry = json.loads(path.read_text(encoding="utf-8"))
            if _digest(entry["content"]) != entry["digest"]:
                raise ValueError("its digest differs")
            for package, version in entry["packages"].items():
                if (installed := _version(package)) not in (version, None):
                    log.info(
                        "%s is %s here, and %s was made with %s: making it anew", package, installed, path, version
                    )
                    return None
            return parse(entry["content"])
        except (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("%s is damaged or unreadable (%s): making it anew", path, error)
            return None

    def _write(self, name: str, content: Any, codecs: Iterable[Codec]) -> None:
        versions = {package: _version(package) for codec in codecs for package in codec.tokenizer.packages}
        packages = {package: version for package, version in versions.items() if version is not None}
        entry = json.dumps({"digest": _digest(content), "packages": packages, "content": content})
        self._write_file(f"{name}.json", lambda file: file.write(entry.encode()))

    def _parse_sides(self, content: Any) -> list[EncodedText]:
        return [EncodedText(self._read_array(ids), self._read_array(offsets)) for ids, offsets in content]

    def _read_array(self, digest: str) -> NDArray[Any]:
        array: NDArray[Any] = np.load(self._folder / f"{digest}.npy", mmap_mode="r")
        if _array_digest(array) != digest:
            raise ValueError(f"the digest of {digest}.npy differs")
        return array

    def _write_array(self, array: NDArray[Any]) -> str:
        digest = _array_digest(array)
        self._write_file(f"{digest}.npy", lambda file: np.save(file, array))
        return digest

    def _write_file(self, name: str, write: Callable[[BinaryIO], Any]) -> None:
        try:
            with written_whole(self._folder / name) as file:
                write(file)
        except OSError as error:
            raise DataError(
                f"cannot write encoded text to {self._folder} ({error.strerror}); "
                "name another folder: data.cache=FOLDER"
            ) from error


def _text_name(codecs: tuple[Codec, Codec], text: ParallelText) -> str:
    hashes = [text.source_sha256, text.target_sha256]
    return f"text-{_digest([FORMAT, [codec.fingerprint for codec in codecs], hashes])}"


def _dataset(codecs: tuple[Codec, Codec], text: ParallelText, sides: list[EncodedText]) -> Dataset:
    source, target = sides
    labelled = isinstance(codecs[1].tokenizer, LabelTokenizer)
    return Dataset(text.name, source, target, text.variant, text.source_sha256, text.target_sha256, labelled)


def _parse_codecs(content: Any) -> tuple[Codec, Codec]:
    source, target = content
    return Codec.from_dict(source), Codec.from_dict(target)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _array_digest(array: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    digest.update(array.data)
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
