"""YAML to values that know where they were written, and back."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translate.config.yaml_source import Given, parse_yaml, read_yaml, to_yaml
from translate.errors import ConfigError

ALIASES = "aliases are not supported; use extends, or put text that begins with * in quotes"


def parse(text: str) -> tuple[Given, list[str]]:
    problems: list[str] = []
    return parse_yaml(text, lambda line: f"x.yaml:{line}", Path("/configs"), problems), problems


def bare(given: Given) -> Any:
    match given.value:
        case dict():
            return {key: bare(child) for key, child in given.value.items()}
        case list():
            return [bare(child) for child in given.value]
        case value:
            return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("2.", 2.0),
        ("12", 12),
        ("-1", -1),
        ("0", 0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("012", "012"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-01-02", "2026-01-02"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("[1, 2.5, no]", [1, 2.5, "no"]),
        ("{no: 1, 2: x}", {"no": 1, "2": "x"}),
        ("grün 🚲", "grün 🚲"),
        ("\ufeffa: 1", {"a": 1}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ],
)
def test_words_mean_what_people_mean(text: str, value: Any) -> None:
    given, problems = parse(text)
    assert problems == []
    assert bare(given) == value
    assert type(bare(given)) is type(value)


def test_every_value_knows_the_line_of_its_key() -> None:
    given, _ = parse("a:\n  b: 1\n\n  c:\n    - 2\n# note\nd: x\n")
    assert {key: child.place for key, child in given.value.items()} == {"a": "x.yaml:1", "d": "x.yaml:7"}
    assert {key: child.place for key, child in given.value["a"].value.items()} == {"b": "x.yaml:2", "c": "x.yaml:4"}


def test_duplicate_keys_are_named_with_both_lines() -> None:
    _, problems = parse("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\na: 3\n")
    assert problems == [
        "x.yaml:5: b.c: given twice, first on line 3",
        "x.yaml:6: a: given twice, first on line 1",
        "x.yaml:7: a: given twice, first on line 1",
    ]


def test_a_key_that_is_no_word_is_named() -> None:
    assert parse("a:\n  ? [1, 2]\n  : 3\n")[1] == ["x.yaml:2: a: a key must be a single word"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: 1\nb: c: d",
            "x.yaml:2: not YAML (column 5): mapping values are not allowed here; indent this line like its neighbours, "
            "write a space after each colon (in the line above, too), or put text that holds ': ' in quotes",
        ),
        (
            "a:\n  b: 1\n c: 2",
            "x.yaml:3: not YAML (column 2): while parsing a block mapping, expected <block end>, but found "
            "'<block mapping start>'; indent this line like the others of its section",
        ),
        (
            "a:\n\tb: 1",
            "x.yaml:2: not YAML (column 1): while scanning for the next token, "
            r"found character '\t' that cannot start any token; indent with spaces, not tabs",
        ),
        (
            "a: [1, 2\nb: 3",
            "x.yaml:2: not YAML (column 2): while parsing a flow sequence, expected ',' or ']', but got ':'",
        ),
        (
            "a: {b: x/?.de, c: 1}",
            "x.yaml:1: not YAML (column 10): while parsing a flow mapping, expected ',' or '}', but got '?'; put text "
            "that holds a question mark in quotes",
        ),
        (
            "a: {b: *.de, c: 1}",
            "x.yaml:1: not YAML (column 9): while scanning an alias, expected alphabetic or numeric character, but "
            "found '.'; put text that begins with * in quotes",
        ),
        ("a: &x 1\nb: *x", f"x.yaml:2: not YAML (column 4): *x: {ALIASES}"),
        ("a:\n  <<: *x", f"x.yaml:2: not YAML (column 7): *x: {ALIASES}"),
        ("a: !!int abc", "x.yaml:1: not YAML (column 4): tag:yaml.org,2002:int: tags are not supported; leave it out"),
        (
            "a: 1\n---\nb: 2",
            "x.yaml:2: not YAML (column 1): expected a single document in the stream, but found another document",
        ),
        ("a: 1\nb: \x07", "x.yaml:2: not YAML: unprintable character U+0007"),
    ],
)
def test_broken_yaml_is_named_with_line_and_column(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == message


class TestFiles:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("configs").mkdir()
        for name in ("multi30k.yaml", "demo.yml", "notes.txt"):
            Path("configs", name).write_text("a: 1\n", encoding="utf-8")
        Path("empty").mkdir()

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("configs/multi3k.yaml", "configs/multi3k.yaml: no such file; did you mean configs/multi30k.yaml?"),
            ("configs/multi30k", "configs/multi30k: no such file; did you mean configs/multi30k.yaml?"),
            ("configs/zzz", "configs/zzz: no such file; that folder holds demo.yml, multi30k.yaml"),
            (
                "configs/demonstrate.yml",  # The endings alone make no likeness.
                "configs/demonstrate.yml: no such file; that folder holds demo.yml, multi30k.yaml",
            ),
            ("empty/x.yaml", "empty/x.yaml: no such file; that folder holds no .yaml file"),
            ("multi30k", "multi30k: no such file; did you mean configs/multi30k.yaml?"),
            ("confgs/x.yaml", "confgs/x.yaml: no such file; there is no folder confgs either"),
            ("configs", "configs: is a folder; that folder holds demo.yml, multi30k.yaml"),
        ],
    )
    def test_a_missing_file_brings_up_those_near(self, path: str, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            read_yaml(Path(path), [])
        assert str(caught.value) == message

    def test_files_that_differ_only_in_their_endings(self) -> None:
        Path("configs/multi30k.yml").write_text("a: 1\n", encoding="utf-8")
        for name, message in (
            ("multi30", "did you mean configs/multi30k.yaml?"),
            ("zzz", "that folder holds demo.yml, multi30k.yaml, multi30k.yml"),
        ):
            with pytest.raises(ConfigError, match=re.escape(message)):
                read_yaml(Path("configs", name), [])

    def test_one_that_may_not_be_looked_at_is_not_brought_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stat = os.stat

        def refuse(path: Path, **how: bool) -> os.stat_result:
            if path == Path("configs/multi30k.yaml"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return stat(path, **how)

        monkeypatch.setattr(os, "stat", refuse)
        with pytest.raises(ConfigError, match=r"^empty/multi30k: no such file; that folder holds no \.yaml file$"):
            read_yaml(Path("empty/multi30k"), [])

    def test_other_encodings_are_named_with_line_and_byte(self) -> None:
        Path("x.yaml").write_bytes("a: 1\nb: grün\n".encode("latin-1"))
        with pytest.raises(ConfigError) as caught:
            read_yaml(Path("x.yaml"), [])
        assert str(caught.value) == "x.yaml:2: not UTF-8 (byte 0xfc); save the file as UTF-8"

    def test_a_file_that_may_not_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> bytes:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
        with pytest.raises(ConfigError) as caught:
            read_yaml(Path("configs/demo.yml"), [])
        assert str(caught.value) == "configs/demo.yml: cannot be read: Permission denied"

    def test_a_file_that_is_larger_than_any_config(self) -> None:
        Path("x.yaml").write_text("ü" * 2**19, encoding="utf-8")  # 1 MiB
        assert read_yaml(Path("x.yaml"), []).value == "ü" * 2**19
        with Path("x.yaml").open("a", encoding="utf-8") as file:
            file.write("ü")
        with pytest.raises(ConfigError) as caught:
            read_yaml(Path("x.yaml"), [])
        assert str(caught.value) == "x.yaml: larger than any config (1 MiB); give a .yaml file like those in configs/"

    @pytest.mark.parametrize("text", ["", "# only a note\n", "---\n"])
    def test_an_empty_file_is_an_empty_mapping(self, text: str) -> None:
        Path("x.yaml").write_text(text, encoding="utf-8")
        assert read_yaml(Path("x.yaml"), []).value == {}


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
trees = st.dictionaries(
    texts, scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=3), max_size=3
)


@settings(max_examples=60)
@given(trees)
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    given, problems = parse(to_yaml(values))
    assert problems == []
    assert bare(given) == values


@pytest.mark.parametrize(
    "word", ["no", "012", "09", "1e3", "1_000", "null", "true", "~", "3", "a: b", "# c", " x ", "\x85"]
)
def test_text_stays_text_when_written(word: str) -> None:
    assert bare(parse(to_yaml({word: word}))[0]) == {word: word}


def test_without_a_checkout_configs_have_to_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.config.yaml_source.demo_corpus", lambda: None)
    with pytest.raises(ConfigError, match=r"there is no folder .*/configs either; copy configs/ from a clone of this"):
        read_yaml(tmp_path / "configs/demo.yaml", [])
