"""Held-out pairs: as many as asked for, random, and with lines that training text does not have."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.data import holdout
from translate.data.holdout import MAX_LENGTH, hold_out, new_files, write_splits
from translate.data.lines import read_lines
from translate.errors import DataError
from translate.system.files import atomic_file

SOURCE = [f"Satz {n}" for n in range(100)]
TARGET = [f"sentence {n}" for n in range(100)]
FULL = r"^cannot write .*: No space left on device; free some space, or choose another --folder$"


def test_every_pair_is_in_one_split() -> None:
    splits = hold_out(SOURCE, TARGET, {"val": 10, "test": 20}, seed=1)
    assert [(name, len(indices)) for name, indices in splits.items()] == [("train", 70), ("val", 10), ("test", 20)]
    assert sorted(np.concatenate(list(splits.values()))) == list(range(100))
    assert all((np.diff(indices) > 0).all() for indices in splits.values())


def test_which_pairs_depends_on_the_seed_alone() -> None:
    chosen = [hold_out(SOURCE, TARGET, {"val": 10, "test": 20}, seed)["test"].tolist() for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert chosen[0] != list(range(chosen[0][0], chosen[0][0] + 20))


lines = st.lists(st.tuples(st.sampled_from("abcdefgh "), st.sampled_from("uvwxyz")), min_size=1, max_size=30)


@given(lines, st.integers(0, 3), st.integers(0, 3))
def test_no_held_out_line_is_in_another_split(pairs: list[tuple[str, str]], valid: int, test: int) -> None:
    source = [f"{one}{' ' * (index % 2)}" for index, (one, _) in enumerate(pairs)]
    target = [f"{' ' * (index % 2)}{other}" for index, (_, other) in enumerate(pairs)]
    try:
        splits = hold_out(source, target, {"val": valid, "test": test}, seed=1)
    except DataError:
        once = [p for p in pairs if p[0] != " " and [q[0] for q in pairs].count(p[0]) == 1]
        once = [p for p in once if [q[1] for q in pairs].count(p[1]) == 1]
        assert valid + test > min(len(once), len(pairs) // 2)
        return
    for side in (source, target):
        found = {name: [side[index].strip() for index in indices] for name, indices in splits.items()}
        for name in ("val", "test"):
            elsewhere = [line for other, lines in found.items() if other != name for line in lines]
            assert not set(found[name]) & set(elsewhere)
            assert len(set(found[name])) == len(found[name])
            assert all(found[name])


def test_long_lines_are_not_held_out() -> None:
    long = ["x" * MAX_LENGTH, "y" * (MAX_LENGTH + 1), *SOURCE[2:]]
    assert {index for seed in range(20) for index in hold_out(long, TARGET, {"val": 50}, seed)["val"]} == {
        0,
        *range(2, 100),
    }


def test_how_long_they_may_be_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    long = ["x" * (MAX_LENGTH + 1), *SOURCE[1:]]
    found = {index for seed in range(20) for index in hold_out(long, TARGET, {"val": 50}, seed, MAX_LENGTH + 1)["val"]}
    assert found == set(range(100))
    assert caplog.messages == []
    hold_out(long, TARGET, {"val": 50}, seed=1)
    assert caplog.messages == [
        "pairs with lines of more than 1000 characters, all of them left to train on (--max-length N): 1 of 100"
    ]
    with pytest.raises(DataError, match=r"or for longer ones, of which there are 100: --max-length N\.$"):
        hold_out(SOURCE, TARGET, {"val": 10}, seed=1, max_length=5)


def test_a_blank_line_is_not_held_out() -> None:
    blank = [" ", *SOURCE[1:]], ["sentence 0", "", *TARGET[2:]]
    for seed in range(20):
        assert not {0, 1} & set(hold_out(*blank, {"val": 50}, seed)["val"].tolist())


def test_a_line_in_another_unicode_form_is_the_same_line() -> None:
    twice = ["Caf\u00e9", "Cafe\u0301", *SOURCE[2:]]
    for seed in range(20):
        assert not {0, 1} & set(hold_out(twice, TARGET, {"val": 50}, seed)["val"].tolist())


def test_too_few_pairs() -> None:
    with pytest.raises(DataError, match=r"^30 pairs cannot be held out: of 100 pairs, 20 have lines of 1 to 1000"):
        hold_out(["again"] * 80 + SOURCE[80:], TARGET, {"val": 10, "test": 20}, seed=1)
    with pytest.raises(DataError, match=r"^51 of 100 pairs would be held out, and fewer left to train on"):
        hold_out(SOURCE, TARGET, {"val": 1, "test": 50}, seed=1)
    assert len(hold_out(SOURCE, TARGET, {"val": 0, "test": 50}, seed=1)["train"]) == 50


def test_files_are_in_the_order_of_the_corpus(tmp_path: Path) -> None:
    splits = {"train": np.array([0, 2, 4]), "val": np.array([1, 3]), "test": np.array([], np.int64)}
    source = ["eins", " zwei\u2028", "drei\tTab", "", "fünf"]
    folder = tmp_path / "new" / "folder"
    files = new_files(folder, ["train", "val"], ("de", "en"))
    write_splits(files, {"de": source, "en": TARGET[:5]}, splits)
    assert sorted(path.name for path in folder.iterdir()) == ["train.de", "train.en", "val.de", "val.en"]
    assert (folder / "train.de").read_bytes() == "eins\ndrei\tTab\nfünf\n".encode()
    assert (folder / "val.de").read_bytes() == " zwei\u2028\n\n".encode()
    assert read_lines(folder / "train.en") == [TARGET[0], TARGET[2], TARGET[4]]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("val.en", ""),
        ("val.en.gz", ""),
        ("train.de.zst", ""),
        ("dev.de", ", and 'dev' is another name of 'val'"),
        ("training.en.gz", ", and 'training' is another name of 'train'"),
    ],
)
def test_nothing_is_overwritten_or_hidden(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match=re.escape(f"{name} exists{reason}. Choose another --folder")):
        new_files(tmp_path, ["train", "val"], ("de", "en"))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_text_of_other_splits_and_languages_may_be_there(tmp_path: Path) -> None:
    for name in ("dev.de", "train.fr"):
        (tmp_path / name).write_text("mine")
    assert len(new_files(tmp_path, ["train"], ("de", "en"))) == 2


def test_a_link_is_not_overwritten_even_if_it_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "train.en").symlink_to("missing")
    with pytest.raises(DataError, match=r"train\.en exists"):
        new_files(tmp_path, ["train"], ("de", "en"))


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    class Fails(list[str]):
        def __iter__(self) -> Iterator[str]:
            yield "one"
            raise OSError(28, "No space left on device")

    splits = {"train": np.array([0]), "val": np.array([1])}
    with pytest.raises(DataError, match=FULL):
        write_splits(new_files(tmp_path, splits, ("de", "en")), {"de": SOURCE[:2], "en": Fails(TARGET[:2])}, splits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("full", ["train.de", "test.en"])
def test_a_disk_that_is_full_at_the_end_leaves_no_file(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So little text is in Python's buffers until then."""

    class OnFullDisk(io.FileIO):
        def write(self, content: Any) -> int:
            raise OSError(28, "No space left on device")

    @contextmanager
    def opened(path: Path) -> Iterator[BinaryIO]:
        kind = OnFullDisk if path.name == full else io.FileIO
        with atomic_file(path) as place, io.BufferedWriter(kind(place, "w")) as file:
            yield file

    monkeypatch.setattr(holdout, "atomic_open", opened)
    splits = {"train": np.array([0]), "val": np.array([1]), "test": np.array([2])}
    with pytest.raises(DataError, match=FULL):
        write_splits(new_files(tmp_path, splits, ("de", "en")), {"de": SOURCE[:3], "en": TARGET[:3]}, splits)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("before", range(6))  # files that have reached the disk by then
def test_ctrl_c_while_the_files_are_brought_to_the_disk_leaves_no_file(
    before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[object] = []

    def interrupted(file: object) -> None:
        if len(synced) == before:
            raise KeyboardInterrupt
        synced.append(file)

    monkeypatch.setattr(os, "fsync", interrupted)
    splits = {"train": np.array([0]), "val": np.array([1]), "test": np.array([2])}
    with pytest.raises(KeyboardInterrupt):
        write_splits(new_files(tmp_path, splits, ("de", "en")), {"de": SOURCE[:3], "en": TARGET[:3]}, splits)
    assert list(tmp_path.iterdir()) == []
