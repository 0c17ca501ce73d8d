"""A folder of encoded pairs: made once, and memory-mapped from there without any tokenizer's library.

An entry of the folder is a JSON file, named after the hash of everything that it was made from. It holds its own
digest, the packages that made it, and the digests of the arrays beside it, which are written while the text is read.
Files are renamed into place once they are complete, a lock lets only one process at a time make an entry, and one that
is damaged in any way is noticed and made again.
"""

import hashlib
import importlib.metadata
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

import numpy as np

from translate.config.text import TextConfig
from translate.data.arrays import ArrayWriter, map_array
from translate.data.corpus import TextPair
from translate.data.dataset import SIDES, Dataset, EncodedText
from translate.data.encoding import encoded_chunks, id_type
from translate.data.lines import Text
from translate.errors import DataError
from translate.system.files import atomic_open, wait_for_lock, writing
from translate.system.paths import exists
from translate.system.terminal import telling_the_time
from translate.text.build import build_codecs
from translate.text.codec import Codec, Codecs

FORMAT = 6  # part of the hash in every name; raised when files change, or when the same settings give other tokens
REPORT_EVERY = 15.0  # seconds between messages while a long text is encoded

T = TypeVar("T")
log = logging.getLogger("translate")


class CorpusCache:
    """A folder of codecs and encoded texts, each made if it is missing, damaged, or from another version of a library.

    The folder is made on the first write; DataError if that is not possible.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writing = partial(
            writing, f"to the cache folder {folder}", DataError, "name another folder: data.cache=FOLDER"
        )

    def codecs(self, config: TextConfig, languages: tuple[str, str | None], train: TextPair) -> Codecs:
        """The codecs of both languages, learned from `train` or its part for vocabularies; labels have no language.

        Raises:
            ConfigError, DataError: they must be learned, and build_codecs says what is missing or wrong.
            DataError: the cache cannot be written.
        """
        text = train.vocabulary or train
        hashes = [text.source_sha256, text.target_sha256]
        settings = config.model_dump(mode="json", exclude={"tokenizer": {"dropout"}})  # codecs do not depend on it
        name = f"codecs-{_digest([FORMAT, settings, languages, hashes])}"
        codecs = self._read(name, _parse_codecs)
        if codecs is not None:
            return codecs
        unusable = exists(self._folder / f"{name}.json")
        with ExitStack() as stack:
            with self._writing():  # Fails now rather than after minutes of learning.
                self._folder.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=self._folder):
                    pass
                lock = self._folder / f".{name}.lock"
                stack.enter_context(wait_for_lock(lock, f"learning the vocabularies of {text.name}"))
            codecs = None if unusable else self._read(name, _parse_codecs)  # Another process may have learned them.
            if codecs is None:
                learning = f"{text.name}: learning tokenizers and vocabularies"
                log.info("%s", learning)
                with telling_the_time(learning):
                    codecs = build_codecs(config, languages, text.source, text.target)
                self._write(name, [codec.to_dict() for codec in codecs], codecs)
        return codecs

    def find(self, codecs: Codecs, text: TextPair) -> Dataset | None:
        """The encoded pairs of a text, memory-mapped, if they are here."""
        name = _text_name(codecs, text)
        return self._read(name, partial(self._mapped, name, codecs))

    def dataset(self, codecs: Codecs, text: TextPair) -> Dataset:
        """The encoded pairs of a text, memory-mapped; encoded now if they are not here yet.

        Raises:
            ConfigError: text must be tokenized, and the library or the spaCy model for it is not there.
            DataError: the text cannot be read, or the cache not written.
        """
        found = self.find(codecs, text)
        if found is not None:
            return found
        name = _text_name(codecs, text)
        unusable = exists(self._folder / f"{name}.json")
        lock = wait_for_lock(self._folder / f".{name}.lock", f"encoding {text.name}")
        with self._writing(), lock as alone:
            found = None if unusable else self.find(codecs, text)  # Another process may have encoded it meanwhile.
            if found is not None:
                return found
            # Temporary folders left by killed processes. If there is no lock on this file system, they may instead
            # belong to a process that is encoding the same text now.
            leftovers = self._folder.glob(f".{name}-*/") if alone else ()
            for leftover in leftovers:
                shutil.rmtree(leftover, ignore_errors=True)
            content = [
                self._encode(f"{name}-{side}", codec, lines, text.name)
                for side, codec, lines in zip(SIDES, codecs, (text.source, text.target), strict=True)
            ]
            self._write(name, content, codecs)
        try:
            return self._mapped(name, codecs, content)
        except (OSError, ValueError) as error:
            raise DataError(
                f"the encoded text in {self._folder} cannot be read again: {error}. Run the command again, or name "
                "another folder: data.cache=FOLDER."
            ) from error

    def _encode(self, name: str, codec: Codec, lines: Text, text: str) -> list[str]:
        """Write the arrays of one side while its lines are read, and return their digests."""
        with (
            self._new_file(f"{name}-ids.npy") as ids_file,
            self._new_file(f"{name}-offsets.npy") as offsets_file,
            closing(encoded_chunks(codec, lines)) as chunks,
        ):
            ids, offsets = ArrayWriter(ids_file, id_type(codec)), ArrayWriter(offsets_file, np.int64)
            offsets.append(np.zeros(1))
            told = time.monotonic()
            for chunk, lengths in chunks:
                offsets.append(ids.length + np.cumsum(lengths, dtype=np.int64))
                ids.append(chunk)
                if time.monotonic() - told > REPORT_EVERY:
                    told = time.monotonic()
                    log.info("%s: encoded %d of %d lines", text, offsets.length - 1, len(lines))
            if offsets.length != len(lines) + 1:
                raise DataError(f"{text} changed while it was being read. Run the command again.")
            return [ids.finish(), offsets.finish()]

    def _read(self, name: str, parse: Callable[[Any], T]) -> T | None:
        """The content of an entry; None if it has to be made."""
        path = self._folder / f"{name}.json"
        try:
            if not path.exists():
                return None
            entry = json.loads(path.read_text(encoding="utf-8"))
            if _digest(entry["content"]) != entry["digest"]:
                raise ValueError("its checksum does not match")
            for package, version in entry["packages"].items():
                installed = _version(package)
                if installed not in (version, None):
                    log.info(
                        "ignoring the cached file %s: it was made with %s %s, but %s is installed",
                        path,
                        package,
                        version,
                        installed,
                    )
                    return None
            return parse(entry["content"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            log.warning("ignoring the cached file %s: it is damaged or unreadable (%s)", path, error)
            return None

    def _write(self, name: str, content: Any, codecs: Iterable[Codec]) -> None:
        versions = {package: _version(package) for codec in codecs for package in codec.tokenizer.packages}
        packages = {package: version for package, version in versions.items() if version is not None}
        entry = json.dumps({"digest": _digest(content), "packages": packages, "content": content})
        with self._new_file(f"{name}.json") as file:
            file.write(entry.encode())

    def _mapped(self, name: str, codecs: Codecs, content: Any) -> Dataset:
        """The encoded pairs whose digests are the `content` of an entry."""
        source, target = (
            self._mapped_side(f"{name}-{side}", digests) for side, digests in zip(SIDES, content, strict=True)
        )
        return Dataset(source, target, labelled=codecs.target.holds_labels)

    def _mapped_side(self, name: str, digests: Any) -> EncodedText:
        """What `_encode` has written, if it has these digests."""
        ids, offsets = digests
        return EncodedText(
            map_array(self._folder / f"{name}-ids.npy", ids), map_array(self._folder / f"{name}-offsets.npy", offsets)
        )

    @contextmanager
    def _new_file(self, name: str) -> Iterator[BinaryIO]:
        """A file to write, which gets this name in the folder once it is complete."""
        path = self._folder / name
        with self._writing():
            if path.exists() and not os.access(path, os.R_OK):
                path.unlink()  # It is of another user, and the new one would get its permissions.
            with atomic_open(path) as file:
                yield file


def _text_name(codecs: Codecs, text: TextPair) -> str:
    hashes = [text.source_sha256, text.target_sha256]
    return f"text-{_digest([FORMAT, [codec.fingerprint for codec in codecs], hashes])}"


def _parse_codecs(content: Any) -> Codecs:
    source, target = content
    return Codecs(Codec.from_dict(source), Codec.from_dict(target))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _version(package: str) -> str | None:
    """The installed version of a package, or the digest of a spaCy model's tokenizer in a folder; None if neither."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        with suppress(OSError):
            return hashlib.sha256((Path(package) / "tokenizer").read_bytes()).hexdigest()
    return None
