"""split.py: from one corpus to the files that train.py reads."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_project import Call, Outcome, write_lines

from translate.commands.split import main
from translate.config.loading import load_config
from translate.data.corpora import corpora_of
from translate.data.lines import read_lines

GERMAN = [f"Satz {n}" for n in range(60)]
ENGLISH = [f"sentence {n}" for n in range(60)]


@pytest.fixture
def split(call: Call, tmp_path: Path) -> Callable[..., Outcome]:
    """The command for German and English, with ten pairs for val and twelve for test."""
    usual = ("--languages", "de", "en", "--folder", tmp_path / "new", "--valid", 10, "--test", 12)
    return lambda *arguments: call(main, *usual, *arguments)


def pairs_in(folder: Path, name: str) -> list[tuple[str, str]]:
    return list(zip(read_lines(folder / f"{name}.de"), read_lines(folder / f"{name}.en"), strict=True))


def test_two_files(split: Callable[..., Outcome], tmp_path: Path) -> None:
    files = write_lines(tmp_path / "all.de", GERMAN), write_lines(tmp_path / "all.en", ENGLISH)
    said = split(*files)
    assert said == Outcome(0, "", f"{tmp_path}/new: 60 pairs, 38 in train, 10 in val, 12 in test\n")
    found = [pair for name in ("train", "val", "test") for pair in pairs_in(tmp_path / "new", name)]
    assert found != list(zip(GERMAN, ENGLISH, strict=True))
    assert sorted(found) == sorted(zip(GERMAN, ENGLISH, strict=True))

    (tmp_path / "mine.yaml").write_text("data: {root: new, source: de, target: en, download: false}")
    corpora = corpora_of(load_config(tmp_path / "mine.yaml").data)
    corpora.check()
    assert len(corpora.open_train().source) == 38

    again = split("gone.de", "gone.en")  # refused before anything is read
    assert (again.code, again.out) == (2, "")
    assert again.err.endswith(f"error: {tmp_path}/new/train.de exists. Choose another --folder, or move it away.\n")


@pytest.mark.parametrize("columns", [(), ("--columns", 4, 2)])
def test_a_table(columns: tuple[object, ...], split: Callable[..., Outcome], tmp_path: Path) -> None:
    rows = [f"{n}\t{one}\t{n}\t{other}" for n, (one, other) in enumerate(zip(GERMAN, ENGLISH, strict=True))]
    table = write_lines(tmp_path / "table.tsv", rows)
    said = split(table, *columns)
    one, other = ("4 ('sentence 0')", "2 ('Satz 0')") if columns else ("2 ('Satz 0')", "4 ('sentence 0')")
    assert said.code == 0
    assert said.err.startswith(f"{table}: de is column {one}, en is column {other} (line 1)\n{tmp_path}/new: 60 pairs")
    expected = {*zip(ENGLISH, GERMAN, strict=True)} if columns else {*zip(GERMAN, ENGLISH, strict=True)}
    assert {pair for name in ("train", "val", "test") for pair in pairs_in(tmp_path / "new", name)} == expected


def test_a_table_that_is_a_pipe_is_refused_unread(split: Callable[..., Outcome], tmp_path: Path) -> None:
    """Nobody writes to it: opening it would wait forever."""
    os.mkfifo(tmp_path / "pipe")
    said = split(tmp_path / "pipe")
    assert said.code == 2
    assert said.err.endswith(
        f"error: {tmp_path}/pipe is a pipe or a device, which can be read only once. Save it as a file.\n"
    )


def test_all_of_it_as_training_text(split: Callable[..., Outcome], tmp_path: Path) -> None:
    files = write_lines(tmp_path / "all.de", GERMAN), write_lines(tmp_path / "all.en", ENGLISH)
    assert split(*files, "--valid", 0, "--test", 0).err == f"{tmp_path}/new: 60 pairs, 60 in train\n"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["train.de", "train.en"]


def test_another_seed_holds_out_other_pairs(split: Callable[..., Outcome], tmp_path: Path) -> None:
    files = write_lines(tmp_path / "all.de", GERMAN), write_lines(tmp_path / "all.en", ENGLISH)
    found = []
    for seed in (2, 2, 3):
        assert split(*files, "--seed", seed).code == 0
        found.append(pairs_in(tmp_path / "new", "val"))
        (tmp_path / "new").rename(tmp_path / f"before {len(found)}")
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(("options", "pairs"), [((), 1000), (("--valid", 100), 600), (("--test", 200), 700)])
def test_500_pairs_for_each_unless_another_number_is_given(
    options: tuple[object, ...], pairs: int, call: Call, tmp_path: Path
) -> None:
    files = write_lines(tmp_path / "all.de", GERMAN), write_lines(tmp_path / "all.en", ENGLISH)
    said = call(main, *files, "--languages", "de", "en", "--folder", tmp_path / "new", *options)
    assert said.err.startswith(f"error: {pairs} pairs cannot be held out: of 60 pairs, 60 have lines")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["all.en", "all.de"], "--languages de en, but the files are all.en and all.de; swap either"),
        (["all.de", "short.en"], "all.de has 60 lines, short.en has 59; they must correspond line by line. They seem"),
        (["all.de"], "all.de, line 1 has 1 column, with a tab between two, but columns 1 and 2 are needed"),
        (["all.de", "all.en", "all.fr"], "give two files, or one table with both languages"),
        (["all.de", "all.en", "--columns", 1, 2], "--columns applies only to a table; leave it out with two files"),
        (["all.de", "all.de"], "both languages are to be read from all.de; give the file of each"),
        (["all.de", "--columns", 2, 2], "--columns takes two different columns, counted from 1"),
        (["all.de", "--columns", 0, 1], "--columns takes two different columns, counted from 1"),
        (["missing.de", "all.en"], "missing.de does not exist. Check the path."),
        (["all.de", "all.en", "--valid", 500], "512 pairs cannot be held out: of 60 pairs, 60 have lines of 1 to 1000"),
    ],
)
def test_what_is_refused(
    arguments: list[object],
    message: str,
    split: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("all.de", GERMAN), ("all.en", ENGLISH), ("short.en", ENGLISH[1:])):
        write_lines(tmp_path / name, lines)
    said = split(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {message}")
    assert not (tmp_path / "new").exists()


def test_a_folder_whose_name_is_too_long(call: Call, tmp_path: Path) -> None:
    write_lines(tmp_path / "all.de", GERMAN)
    write_lines(tmp_path / "all.en", ENGLISH)
    folder = tmp_path / ("x" * 300)
    files = (tmp_path / "all.de", tmp_path / "all.en", "--valid", 5, "--test", 5)
    said = call(main, *files, "--languages", "de", "en", "--folder", folder)
    assert said == Outcome(2, "", f"error: cannot write {folder}: File name too long; choose another --folder\n")


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (("de", "de"), "--languages de de: both files would have the same name"),
        (("../de", "en"), "--languages ../de en: '../de' is not the code of a language, such as de or en"),
        (("de/x", "en"), "--languages de/x en: 'de/x' is not the code of a language, such as de or en"),
        (("de", ""), "--languages de : '' is not the code of a language, such as de or en"),
    ],
)
def test_languages(languages: tuple[str, str], message: str, call: Call, tmp_path: Path) -> None:
    said = call(main, "--languages", *languages, "--folder", tmp_path, "table.tsv")
    assert said == Outcome(2, "", f"error: {message}\n")
