"""Training pairs with another segmentation in each epoch, and the same one whenever that epoch is read."""

import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from translate.config.text import TextConfig
from translate.data.batching import make_batch
from translate.data.cache import CorpusCache
from translate.data.corpus import TextInMemory
from translate.data.dataset import Dataset, Lines, Pairs
from translate.data.digest import text_sha256
from translate.data.resegmented import ResegmentedDataset, ResegmentedPairs
from translate.text.codec import Codecs
from translate.text.vocabulary import BOS, EOS

GERMAN = ["der alte Hund bellt", "", "die alte Katze bellt nicht, der alte Hund bellt"] * 4
ENGLISH = ["the old dog barks", "", "the old cat doesn't bark, the old dog barks"] * 4
TEXT = TextInMemory("train", GERMAN, ENGLISH, text_sha256(GERMAN), text_sha256(ENGLISH), "made up")

Encoded = tuple[Dataset, Codecs]


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Encoded:
    cache = CorpusCache(tmp_path_factory.mktemp("cache"))
    codecs = cache.codecs(TextConfig.model_validate({"tokenizer": {"kind": "bpe"}}), ("de", "en"), TEXT)
    return cache.dataset(codecs, TEXT), codecs


def resegmented(
    encoded: Encoded, *, dropout: float = 0.3, max_tokens: int = 200, seed: int = 1, helpers: int = 0
) -> ResegmentedDataset:
    dataset, codecs = encoded
    return ResegmentedDataset(dataset, codecs, dropout=dropout, max_tokens=max_tokens, seed=seed, helpers=helpers)


def ids_of(side: Lines, line: int) -> list[int]:
    ids, lengths = side.gather(np.array([line]))
    assert lengths.tolist() == [len(ids)]
    return ids.tolist()


def read(pairs: ResegmentedPairs, *, backwards: bool = False) -> dict[int, tuple[list[int], list[int]]]:
    lines = range(len(GERMAN))
    return {
        line: (ids_of(pairs.source, line), ids_of(pairs.target, line))
        for line in (reversed(lines) if backwards else lines)
    }


def test_an_epoch_is_read_the_same_in_any_order(encoded: Encoded) -> None:
    once, again = resegmented(encoded), resegmented(encoded)
    third = read(once.epoch(3))
    assert read(again.epoch(3), backwards=True) == third == read(once.epoch(3))


@pytest.mark.parametrize("dropout", [0.0, 0.3, 1.0])
def test_how_much_longer_lines_become(dropout: float, encoded: Encoded) -> None:
    dataset = resegmented(encoded, dropout=dropout)
    epoch, whole = read(dataset.epoch(0)), encoded[0]
    tokens = sum(len(side) for pair in epoch.values() for side in pair)
    every = np.arange(len(GERMAN), dtype=np.int32)
    found = dataset.lengthening(every)
    assert found == pytest.approx(tokens / (len(whole.source.ids) + len(whole.target.ids)))
    assert (found > 1) == (dropout > 0)
    first = sum(map(len, epoch[0])) / sum(len(side[0]) for side in (whole.source, whole.target))
    assert dataset.lengthening(every[[0, 0]]) == pytest.approx(first)


def test_lengths_are_measured_over_the_whole_text(encoded: Encoded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.data.resegmented.SAMPLE", 2)
    dataset, whole = resegmented(encoded), encoded[0]
    epoch, ends = read(dataset.epoch(0)), (0, len(GERMAN) - 1)
    tokens = sum(len(side) for line in ends for side in epoch[line])
    without = sum(len(side[line]) for line in ends for side in (whole.source, whole.target))
    assert dataset.lengthening(np.arange(len(GERMAN), dtype=np.int32)) == tokens / without


def test_epochs_seeds_pairs_and_sides_differ(encoded: Encoded) -> None:
    dataset = resegmented(encoded)
    ways = [read(dataset.epoch(0)), read(dataset.epoch(1)), read(resegmented(encoded, seed=2).epoch(0))]
    assert ways[0] != ways[1] != ways[2] != ways[0]
    assert len({str(ways[0][line]) for line in range(2, len(GERMAN), 3)}) > 1  # four times the same line
    german = Dataset(encoded[0].source, encoded[0].source)
    codec = encoded[1][0]
    same = ResegmentedDataset(german, (codec, codec), dropout=0.3, max_tokens=200, seed=1).epoch(0)
    assert any(ids_of(same.source, line) != ids_of(same.target, line) for line in range(len(GERMAN)))


def test_the_text_stays(encoded: Encoded) -> None:
    pairs = read(resegmented(encoded).epoch(7))
    source, target = encoded[1]
    assert [source.decode(ids) for ids, _ in pairs.values()] == GERMAN
    assert [target.decode(ids) for _, ids in pairs.values()] == ENGLISH


def test_a_line_that_would_get_too_long_stays_as_it_was(encoded: Encoded) -> None:
    dataset, _ = encoded
    max_tokens = len(dataset.source[2])
    pairs = read(resegmented(encoded, dropout=0.15, max_tokens=max_tokens).epoch(0))
    assert all(len(ids) <= max_tokens for ids, _ in pairs.values())
    same = [ids == dataset.source[line].tolist() for line, (ids, _) in pairs.items()]
    assert same[2::3] == [True] * 4
    assert not all(same[0::3])


def test_a_line_of_exactly_the_most_tokens_is_cut_anew(encoded: Encoded) -> None:
    free = resegmented(encoded).epoch(0).source
    max_tokens, line = max((len(ids_of(free, line)), line) for line in range(len(GERMAN)))
    assert len(encoded[0].source[line]) < max_tokens
    assert ids_of(resegmented(encoded, max_tokens=max_tokens).epoch(0).source, line) == ids_of(free, line)


def test_batches_are_made_of_it(encoded: Encoded) -> None:
    pairs = resegmented(encoded).epoch(0)
    batch = make_batch(pairs, np.array([0, 1, 2]))
    assert batch.source_BS[batch.source_mask_BS].tolist() == [
        token for line in range(3) for token in [*ids_of(pairs.source, line), EOS]
    ]
    assert batch.target_BT[batch.target_mask_BT].tolist() == [
        token for line in range(3) for token in [BOS, *ids_of(pairs.target, line)]
    ]


UPDATES = [(number, np.array(lines)) for number in (3, 4) for lines in ([7, 0, 3], [2], [5, 7, 1, 1], [0, 3], [8, 1])]


def tensors(pairs: Pairs, lines: np.ndarray) -> dict[str, list[Any]]:
    return {name: tensor.tolist() for name, tensor in vars(make_batch(pairs, lines)).items()}


@pytest.mark.parametrize("helpers", [0, 2])
def test_pairs_segmented_ahead_of_time_are_the_same(helpers: int, encoded: Encoded) -> None:
    dataset = resegmented(encoded, helpers=helpers)
    given = iter(UPDATES)
    pairs_of_updates = dataset.prefetch(given)
    for number, (epoch, lines) in enumerate(UPDATES, 1):
        pairs = next(pairs_of_updates)
        assert tensors(pairs, lines) == tensors(dataset.epoch(epoch), lines)
        if number == 1:
            assert len(list(deepcopy(given))) == len(UPDATES) - 1 - helpers  # One for each of them is in work.
    assert list(pairs_of_updates) == []


def test_ahead_of_time_there_are_only_the_pairs_that_were_asked_for(encoded: Encoded) -> None:
    pairs = next(resegmented(encoded, helpers=1).prefetch([(0, np.array([2, 5]))]))
    with pytest.raises(AssertionError):
        pairs.source.gather(np.array([3]))


def test_helpers_end_with_the_training(encoded: Encoded, processes: list[subprocess.Popen[bytes]]) -> None:
    pairs_of_updates = resegmented(encoded, helpers=2).prefetch(UPDATES)
    next(pairs_of_updates)
    assert [process.poll() for process in processes] == [None, None]
    pairs_of_updates.close()
    assert None not in [process.poll() for process in processes]


def test_without_helpers_training_goes_on(
    encoded: Encoded, processes: list[subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    dataset = resegmented(encoded, helpers=2)
    pairs_of_updates = dataset.prefetch(UPDATES)
    next(pairs_of_updates)
    for process in processes:
        process.kill()
        process.wait()
    rest = list(pairs_of_updates)
    assert len(rest) == len(UPDATES) - 1
    for pairs, (epoch, lines) in zip(rest, UPDATES[1:], strict=True):
        assert tensors(pairs, lines) == tensors(dataset.epoch(epoch), lines)
    (message,) = caplog.messages
    assert message.endswith(". From now on updates wait while BPE-dropout segments their text")


def test_labels_are_not_cut(tmp_path: Path) -> None:
    labels = ["de", "", "en"] * 4
    text = TextInMemory("train", GERMAN, labels, TEXT.source_sha256, text_sha256(labels), "")
    cache = CorpusCache(tmp_path)
    codecs = cache.codecs(TextConfig.model_validate({"tokenizer": {"kind": "bpe"}}), ("de", None), text)
    dataset = cache.dataset(codecs, text)
    resegmented = ResegmentedDataset(dataset, codecs, dropout=0.5, max_tokens=200, seed=1, helpers=1)
    pairs = resegmented.epoch(0)
    assert pairs.labelled
    assert pairs.target is dataset.target
    (prefetched,) = resegmented.prefetch([(0, np.array([2]))])
    assert prefetched.labelled
    assert prefetched.target is dataset.target
    assert ids_of(prefetched.source, 2) == ids_of(pairs.source, 2)
    assert ids_of(pairs.source, 2) != dataset.source[2].tolist()


def test_a_plain_dataset_is_the_same_in_each_epoch(encoded: Encoded) -> None:
    dataset, _ = encoded
    assert dataset.epoch(0) is dataset.epoch(5) is dataset
    assert list(dataset.prefetch(UPDATES[:2])) == [dataset, dataset]
