"""The folder that keeps encoded text."""

import errno
import fcntl
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import numpy as np
import pytest
import spacy

from translate.config.text import TextConfig, WordTokenizerConfig
from translate.data import cache as cache_module
from translate.data import encoding
from translate.data.cache import CorpusCache
from translate.data.corpus import TextInMemory, TextPair, open_pair
from translate.data.dataset import Dataset
from translate.data.digest import text_sha256
from translate.errors import ConfigError, DataError
from translate.system import terminal
from translate.text.codec import Codec, Codecs
from translate.text.vocabulary import Vocabulary
from translate.text.words import WordTokenizer, _spacy_tokenizer

GERMAN = ["Der Hund schläft.", "", "Die Katze bellt!"]
ENGLISH = ["The dog sleeps.", "", "The cat doesn't bark!"]


def parallel(source: list[str], target: list[str], name: str = "train") -> TextInMemory:
    return TextInMemory(name, source, target, text_sha256(source), text_sha256(target), "made up")


TRAIN = parallel(GERMAN, ENGLISH)


class Opened:
    """A cache with the codecs of one training text."""

    def __init__(
        self,
        folder: Path,
        config: TextConfig | None = None,
        languages: tuple[str, str] = ("de", "en"),
        train: TextPair = TRAIN,
    ) -> None:
        self.cache = CorpusCache(folder)
        self.codecs = self.cache.codecs(config or TextConfig(), languages, train)

    def dataset(self, text: TextPair) -> Dataset:
        return self.cache.dataset(self.codecs, text)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def cutting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The languages of which text was cut, in order."""
    languages = []
    cut = WordTokenizer.tokenize_with_spaces

    def spy(self: WordTokenizer, lines: list[str]) -> object:
        languages.append(self.language)
        return cut(self, lines)

    monkeypatch.setattr(WordTokenizer, "tokenize_with_spaces", spy)
    return languages


def test_what_was_encoded_comes_back_mapped(tmp_path: Path, cutting: list[str]) -> None:
    folder = tmp_path / "deep" / "cache"
    first = Opened(folder)
    made = first.dataset(TRAIN)
    assert cutting == ["de", "en"] * 2
    again = Opened(folder)
    read = again.dataset(TRAIN)
    assert cutting == ["de", "en"] * 2
    assert again.codecs == first.codecs
    for dataset in (made, read):
        assert len(dataset) == 3
        for side, codec, lines in zip((dataset.source, dataset.target), again.codecs, (GERMAN, ENGLISH), strict=True):
            assert isinstance(side.ids, np.memmap)
            assert [line.tolist() for line in side] == codec.encode(lines)
            assert [codec.decode(line.tolist()) for line in side] == lines
    assert not [name for name in contents(folder) if name.startswith(".")]


def test_a_text_of_several_chunks_has_the_ids_of_each_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "CHUNK", 2)
    opened = Opened(tmp_path)
    dataset = opened.dataset(TRAIN)
    for side, codec, lines in zip((dataset.source, dataset.target), opened.codecs, (GERMAN, ENGLISH), strict=True):
        assert [line.tolist() for line in side] == codec.encode(lines)


@pytest.mark.parametrize(
    "config",
    [TextConfig(joint_vocabulary=True), TextConfig(tokenizer=WordTokenizerConfig(lowercase=True))],
    ids=["joint", "lowercase"],
)
def test_other_settings_or_other_text_are_other_entries(tmp_path: Path, config: TextConfig) -> None:
    plain = Opened(tmp_path).codecs
    assert Opened(tmp_path, config).codecs != plain
    for other in (parallel(GERMAN, GERMAN), parallel(ENGLISH, ENGLISH)):
        assert Opened(tmp_path, train=other).codecs != plain
    assert Opened(tmp_path, languages=("de", "it")).codecs[1].language == "it"
    assert Opened(tmp_path).codecs == plain


def test_a_cache_that_may_not_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **how: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    cache = Opened(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(Path, "stat", refuse)  # which on Python 3.10 has an `os.stat` of its own
    with pytest.raises(DataError, match=r"^cannot write to the cache folder .*: Permission denied; name another"):
        cache.dataset(TRAIN)


@pytest.mark.parametrize("sides", [(GERMAN, ENGLISH[::-1]), (GERMAN[::-1], ENGLISH)], ids=["target", "source"])
def test_text_corrected_on_one_side_is_encoded_anew(tmp_path: Path, sides: tuple[list[str], list[str]]) -> None:
    cache = Opened(tmp_path)
    cache.dataset(TRAIN)
    corrected = cache.dataset(parallel(*sides))
    for codec, encoded, lines in zip(cache.codecs, (corrected.source, corrected.target), sides, strict=True):
        assert [codec.decode(ids.tolist()) for ids in encoded] == lines


def test_validation_text_is_encoded_with_the_codecs_of_training(tmp_path: Path) -> None:
    cache = Opened(tmp_path)
    valid = cache.dataset(parallel(["Der Wal bellt."], ["The whale sleeps."], "val"))
    assert valid.source[0].tolist() == cache.codecs[0].encode(["Der Wal bellt."])[0]


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_text_is_encoded_anew_for_another_vocabulary_of_one_side(tmp_path: Path, side: int) -> None:
    valid = parallel(["Der Hund bellt!"], ["The cat sleeps."], "val")
    other = (["Ein Wal, ein Hund!"] * 3, ENGLISH), (GERMAN, ["A cat, the cat sleeps."] * 3)
    before, after = Opened(tmp_path), Opened(tmp_path, train=parallel(*other[side]))
    assert [one != two for one, two in zip(before.codecs, after.codecs, strict=True)] == [side == 0, side == 1]
    before.dataset(valid)
    encoded = after.dataset(valid)
    for codec, lines, ids in zip(
        after.codecs, (valid.source, valid.target), (encoded.source, encoded.target), strict=True
    ):
        assert [line.tolist() for line in ids] == codec.encode(lines)


def test_a_text_of_empty_lines_only(tmp_path: Path) -> None:
    cache = Opened(tmp_path)
    for _ in range(2):
        assert cache.dataset(parallel(["", " "], ["", ""], "val")).source.lengths.tolist() == [0, 0]


def test_text_in_files_is_encoded_as_text_in_memory(tmp_path: Path) -> None:
    for name, lines in (("train.de", GERMAN), ("train.en", ENGLISH)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    opened = open_pair(tmp_path / "train.de", tmp_path / "train.en", "train")
    one, other = Opened(tmp_path / "one", train=opened), Opened(tmp_path / "other")
    one.dataset(opened)
    other.dataset(TRAIN)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


@pytest.mark.parametrize("later", ["eins\nzwei\n", "eins\nzwei\nvier\n"])
def test_text_that_changes_while_it_is_read(later: str, tmp_path: Path) -> None:
    for name in ("train.de", "train.en"):
        (tmp_path / name).write_text("eins\nzwei\ndrei\n", encoding="utf-8")
    text = open_pair(tmp_path / "train.de", tmp_path / "train.en", "train")
    (tmp_path / "train.de").write_text(later, encoding="utf-8")
    os.utime(tmp_path / "train.de", ns=(0, 0))  # The clock of some file systems is slow.
    cache = Opened(tmp_path / "cache")
    before = contents(tmp_path / "cache")
    with pytest.raises(DataError, match=r"train(\.de)? changed while it was being read\. Run the command again\.$"):
        cache.dataset(text)
    assert contents(tmp_path / "cache") == before


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_reading_needs_no_tokenizer(tmp_path: Path, kind: str) -> None:
    config = {"tokenizer": {"kind": kind}}
    Opened(tmp_path, TextConfig.model_validate(config)).dataset(TRAIN)
    program = f"""
import sys
for name in ("spacy", "tokenizers", "torchtext", "torch"):
    sys.modules[name] = None  # Makes the import raise.
from pathlib import Path
from translate.config.text import TextConfig
from translate.data.corpus import TextInMemory
from translate.data.cache import CorpusCache
text = TextInMemory("train", {GERMAN!r}, {ENGLISH!r}, {TRAIN.source_sha256!r}, {TRAIN.target_sha256!r}, "")
cache = CorpusCache(Path({str(tmp_path)!r}))
codecs = cache.codecs(TextConfig.model_validate({config!r}), ("de", "en"), text)
for codec, side in zip(codecs, (cache.find(codecs, text).source, cache.find(codecs, text).target)):
    print(ascii([codec.decode(ids.tolist()) for ids in side]))
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=False)
    assert done.stderr == ""
    assert done.stdout == f"{GERMAN!a}\n{ENGLISH!a}\n"


def test_without_spacy_a_missing_entry_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _spacy_tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(
        ConfigError, match=r"^splitting text into words needs spaCy, .* pip install spacy\. .*data\.cache"
    ):
        Opened(tmp_path)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(("installed", "anew"), [("99.0", True), (None, False)])
def test_another_version_of_spacy_encodes_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cutting: list[str],
    installed: str | None,
    anew: bool,
) -> None:
    caplog.set_level(logging.INFO, "translate")
    Opened(tmp_path).dataset(TRAIN)
    cutting.clear()
    monkeypatch.setattr(cache_module, "_version", lambda package: installed)
    for _ in range(2):
        Opened(tmp_path).dataset(TRAIN)
    assert cutting == (["de", "en"] * 2 if anew else [])
    why = [message for message in caplog.messages if "learning tokenizers" not in message]
    assert len(why) == (2 if anew else 0)
    assert all("but 99.0 is installed" in message for message in why)


def test_a_spacy_model_in_a_folder_has_a_version(tmp_path: Path) -> None:
    nlp, versions = spacy.blank("en"), []
    for word in ("ab", "ab", "cd"):
        nlp.tokenizer.add_special_case(word, [{"ORTH": word[0]}, {"ORTH": word[1]}])
        nlp.to_disk(tmp_path)
        versions.append(cache_module._version(str(tmp_path)))
    assert versions[0] == versions[1] != versions[2]
    assert cache_module._version(str(tmp_path / "none")) is None


@pytest.mark.parametrize("language", ["de", "en"])
def test_another_version_of_what_cuts_either_side_encodes_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cutting: list[str], language: str
) -> None:
    versions = {"de": "1.0", "en": "1.0"}
    monkeypatch.setattr(WordTokenizer, "packages", property(lambda self: (self.language,)))
    monkeypatch.setattr(cache_module, "_version", versions.get)
    Opened(tmp_path).dataset(TRAIN)
    cutting.clear()
    Opened(tmp_path).dataset(TRAIN)
    assert cutting == []
    versions[language] = "2.0"
    Opened(tmp_path).dataset(TRAIN)
    assert cutting == ["de", "en"] * 2


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def other_json(path: Path) -> None:
    path.write_text("[]" if path.suffix == ".json" else "none", encoding="utf-8")


def forged(path: Path) -> None:
    """Sound JSON, whose content is not what was written: the two sides in each other's place."""
    if path.suffix == ".json":
        entry = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**entry, "content": entry["content"][::-1]}), encoding="utf-8")
    else:
        with path.open("wb") as file:
            np.save(file, np.zeros(3, np.uint16))


def header(path: Path) -> None:
    """Brackets without an end: NumPy reads the header of an array as Python."""
    content = bytearray(path.read_bytes())
    content[10:100] = b"[" * 90
    path.write_bytes(b"[" * 10**6 if path.suffix == ".json" else content)


def test_what_another_user_keeps_private_is_made_anew_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Opened(tmp_path).dataset(TRAIN)
    entry = min(tmp_path.glob("codecs-*.json"))
    permissions = entry.stat().st_mode
    cut_off(entry)
    entry.chmod(0o600)
    monkeypatch.setattr(os, "access", lambda path, mode: path != entry)  # root may read everything
    Opened(tmp_path)
    assert entry.stat().st_mode == permissions


@pytest.mark.parametrize("damage", [cut_off, empty, flip, header, other_json, forged, Path.unlink])
@pytest.mark.parametrize("files", ["codecs-*.json", "text-*.json", "*.npy"])
def test_a_damaged_entry_is_made_anew_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None], files: str
) -> None:
    Opened(tmp_path).dataset(TRAIN)
    sound = contents(tmp_path)
    path = min(tmp_path.glob(files))
    damage(path)
    for _ in range(2):
        cache = Opened(tmp_path)
        assert [cache.codecs[0].decode(ids.tolist()) for ids in cache.dataset(TRAIN).source] == GERMAN
    assert contents(tmp_path) == sound
    missing = damage is Path.unlink and path.suffix == ".json"
    assert len(caplog.messages) == (0 if missing else 1)
    assert all(
        "is damaged or unreadable" in message and "ignoring the cached file" in message for message in caplog.messages
    )


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "emptied"])
def test_a_folder_whose_files_are_lost_while_text_is_encoded(
    lose: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Opened(tmp_path)
    write = CorpusCache._write

    def write_and_lose(self: CorpusCache, name: str, content: Any, codecs: Iterable[Codec]) -> None:
        write(self, name, content, codecs)
        for path in tmp_path.glob("*.npy"):
            lose(path)

    monkeypatch.setattr(CorpusCache, "_write", write_and_lose)
    with pytest.raises(DataError, match=r"^the encoded text in .* cannot be read again: .*data\.cache="):
        cache.dataset(TRAIN)


@pytest.mark.parametrize("interruption", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    def fsync(descriptor: int) -> None:
        raise interruption

    cache = Opened(tmp_path)
    before = contents(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises((DataError, KeyboardInterrupt)) as caught:
            cache.dataset(TRAIN)
    if isinstance(interruption, OSError):
        assert str(caught.value) == (
            f"cannot write to the cache folder {tmp_path}: No space left on device; "
            "free some space, or name another folder: data.cache=FOLDER"
        )
    assert contents(tmp_path) == before
    assert len(cache.dataset(TRAIN)) == 3


def test_a_folder_that_cannot_be_made_is_noticed_before_codecs_are_learned(tmp_path: Path, cutting: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        DataError, match=r"^cannot write to the cache folder .*file/cache: Not a directory; .*data\.cache=F"
    ):
        Opened(tmp_path / "file" / "cache")
    assert cutting == []


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_to_is_noticed_before_codecs_are_learned(
    number: int, tmp_path: Path, cutting: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> NoReturn:
        assert dir == tmp_path
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("translate.data.cache.TemporaryFile", refuse)
    with pytest.raises(DataError) as caught:
        Opened(tmp_path)
    assert str(caught.value) == (
        f"cannot write to the cache folder {tmp_path}: {os.strerror(number)}; name another folder: data.cache=FOLDER"
    )
    assert cutting == []


def test_processes_encode_a_text_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Opened(tmp_path), Opened(tmp_path)
    encode, encoded = CorpusCache._encode, []

    def slowly(self: CorpusCache, name: str, *arguments: Any) -> list[str]:
        encoded.append(name)
        time.sleep(0.2)
        return encode(self, name, *arguments)

    monkeypatch.setattr(CorpusCache, "_encode", slowly)
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda cache: cache.dataset(TRAIN), (one, other)))
    assert len(encoded) == 2  # its two sides
    assert found[0].source.ids.tolist() == found[1].source.ids.tolist()
    assert not list(tmp_path.glob(".*"))


def test_processes_learn_a_vocabulary_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build, learned = cache_module.build_codecs, []

    def slowly(*arguments: Any) -> Codecs:
        learned.append(arguments)
        time.sleep(0.2)
        return build(*arguments)

    monkeypatch.setattr(cache_module, "build_codecs", slowly)
    with ThreadPoolExecutor() as threads:
        caches = (CorpusCache(tmp_path), CorpusCache(tmp_path))
        found = list(threads.map(lambda cache: cache.codecs(TextConfig(), ("de", "en"), TRAIN), caches))
    assert len(learned) == 1
    assert [codec.fingerprint for codec in found[0]] == [codec.fingerprint for codec in found[1]]
    assert not list(tmp_path.glob(".*"))


def test_progress_of_a_long_text_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Opened(tmp_path)
    caplog.set_level(logging.INFO, "translate")
    monkeypatch.setattr(encoding, "CHUNK", 1)
    monkeypatch.setattr(cache_module, "REPORT_EVERY", -1.0)
    cache.dataset(TRAIN)
    lines = len(TRAIN.source)
    assert caplog.messages[:lines] == [f"{TRAIN.name}: encoded {n} of {lines} lines" for n in range(1, lines + 1)]


def test_learning_for_long_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(*_: object) -> Codecs:
        while len(caplog.messages) < 2:
            time.sleep(0.001)
        return codecs

    codecs = Opened(tmp_path).codecs
    caplog.set_level(logging.INFO, "translate")
    monkeypatch.setattr(terminal, "TELL_EVERY", 0.001)
    monkeypatch.setattr(cache_module, "build_codecs", slow)
    CorpusCache(tmp_path / "new").codecs(TextConfig(), ("de", "en"), TRAIN)
    learning = f"{TRAIN.name}: learning tokenizers and vocabularies"
    assert caplog.messages[:2] == [learning, f"{learning}: 0 s so far"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    cache = Opened(tmp_path)
    held = cache.cache._new_file(f"{cache_module._text_name(cache.codecs, TRAIN)}-source-ids.npy")
    held.__enter__()  # as a killed process leaves it
    (left,) = tmp_path.glob(".text-*/")
    cache.dataset(TRAIN)
    assert not left.exists()


def test_entries_of_another_format_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Opened(tmp_path)
    cache.dataset(TRAIN)
    monkeypatch.setattr(cache_module, "FORMAT", 0)
    assert cache.cache.find(cache.codecs, TRAIN) is None


def test_ids_beyond_two_bytes_are_kept(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(2**16)]
    codec = Codec(WordTokenizer("de"), Vocabulary(tuple(words)))
    dataset = CorpusCache(tmp_path).dataset(Codecs(codec, codec), parallel(words[-1:], words[-1:]))
    assert dataset.source[0].tolist() == dataset.target[0].tolist() == [2**16 + 3]


def test_without_locks_it_may_be_of_a_process_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)
    encode, started = CorpusCache._encode, Event()

    def slowly(self: CorpusCache, name: str, *arguments: Any) -> list[str]:
        with self._new_file(f"{name}-of-this-process"):
            started.set()
            time.sleep(0.2)
            return encode(self, name, *arguments)

    one, other = Opened(tmp_path), Opened(tmp_path)
    monkeypatch.setattr(CorpusCache, "_encode", slowly)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(one.dataset, TRAIN)
        started.wait()
        second = other.dataset(TRAIN)
        assert first.result().source.ids.tolist() == second.source.ids.tolist()


def test_dropout_of_bpe_makes_no_other_codecs(tmp_path: Path) -> None:
    for dropout in (0.0, 0.1):
        config = TextConfig.model_validate({"tokenizer": {"kind": "bpe", "vocab_size": 60, "dropout": dropout}})
        CorpusCache(tmp_path).codecs(config, ("de", "en"), TRAIN)
    assert len(contents(tmp_path)) == 1


def test_two_processes_may_fill_one_folder(tmp_path: Path) -> None:
    one, other = Opened(tmp_path), Opened(tmp_path)
    first = one.dataset(TRAIN)
    for path in tmp_path.glob("text-*.json"):
        path.unlink()  # As the other process saw the folder before the first one had finished.
    second = other.dataset(TRAIN)
    assert first.source.ids.tolist() == second.source.ids.tolist()
    assert len(list(tmp_path.glob("*.npy"))) == 4
