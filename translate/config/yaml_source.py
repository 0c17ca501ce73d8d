"""YAML to values that know where they were written, and back. It knows nothing about the settings themselves.

Plain words are read as people mean them, not as YAML 1.1 does: only `true` and `false` are booleans, `3e-4` and `1e3`
are numbers, and `no`, `012`, `1_000`, `1:30` and dates are text, which a field for numbers then refuses.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from yaml.composer import ComposerError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from translate.errors import ConfigError
from translate.system.paths import demo_corpus, exists, is_for_one_process

MAX_BYTES = 2**20  # of a file
MAX_DIGITS = 100  # of a whole number
MAX_DEPTH = 50  # levels of sections; no setting is deeper than a few
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_BOOL = "tag:yaml.org,2002:bool"
_STR = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
# The type of a value without quotes, by its text; None stands for any first character.
_PLAIN_WORDS = {
    None: [
        (_NULL, re.compile(r"(~|null|Null|NULL|)\Z")),
        (_BOOL, re.compile(r"(true|True|TRUE|false|False|FALSE)\Z")),
        (_INT, re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")),
        (_FLOAT, re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")),
    ]
}
# By a part of PyYAML's message.
_REMEDIES = {
    r"'\t'": "indent with spaces, not tabs",
    "mapping values are not allowed here": (
        "indent this line like its neighbours, write a space after each colon (in the line above, too), or put text "
        "that holds ': ' in quotes"
    ),
    "expected <block end>": "indent this line like the others of its section",
    "expected ',' or '}', but got '?'": "put text that holds a question mark in quotes",
    "expected ',' or '}', but got '['": "put text that holds brackets in quotes",
    "while scanning an alias": "put text that begins with * in quotes",
}


@dataclass(frozen=True)
class Given:
    """A value as written, where that was, and the folder that a relative path in it starts from."""

    value: Any  # str, int, float, bool, None, list[Given] or dict[str, Given]
    place: str
    folder: Path


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _PLAIN_WORDS


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _PLAIN_WORDS

    def represent_str(self, data: str) -> ScalarNode:
        # Outside double quotes, PyYAML writes U+0085 and U+2028 as they are, but reads them as line ends.
        return self.represent_scalar(_STR, data, style=None if data.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.represent_str)


def read_yaml(path: Path, problems: list[str]) -> Given:
    """The content of a file; an empty file is an empty mapping. Duplicate keys are added to `problems`.

    Raises ConfigError if the file cannot be read or parsed.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # not all: that of a device has no end
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than any config (1 MiB); give a .yaml file like those in configs/")
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; {_files_near(path)}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; {_files_near(path / '?')}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise ConfigError(f"{path}:{line}: not UTF-8 (byte 0x{byte:02x}); save the file as UTF-8") from None
    given = parse_yaml(text, lambda line: f"{path}:{line}", folder_of(path).resolve(), problems)
    return given if given.value is not None else Given({}, given.place, given.folder)


def folder_of(path: Path) -> Path:
    """The folder that relative paths in a config start from: its own; for a pipe, the working directory."""
    # A pipe, such as the shell makes for <(…), is in no folder of the user's. Nor is /dev/stdin, even behind `< FILE`.
    return Path() if is_for_one_process(path) else path.parent


def parse_yaml(text: str, place: Callable[[int], str], folder: Path, problems: list[str]) -> Given:
    """The value of `text`, None if it is empty; `place` names a line, counted from 1. Raises ConfigError."""

    def place_of(node: Node) -> str:
        return place(node.start_mark.line + 1)

    def text_of(node: Node, path: str) -> str:
        text: str = node.value
        # A lone surrogate stands for a byte of the command line that is not UTF-8.
        readable = re.sub("[\0\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
        if text != readable:
            problems.append(f"{place_of(node)}: {path or 'top level'}: {text!r} has an invalid character; remove it")
        return readable

    def section(node: MappingNode, path: str) -> dict[str, Given]:
        values: dict[str, Given] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                problems.append(f"{place_of(key_node)}: {path or 'top level'}: a key must be a single word")
                continue
            key = text_of(key_node, path)
            dotted = f"{path}.{key}" if path else key
            if key in lines:
                problems.append(f"{place_of(key_node)}: {dotted}: given twice, first on line {lines[key]}")
            lines.setdefault(key, key_node.start_mark.line + 1)
            # The line of the key, because the value of a section starts one line below.
            values[key] = Given(given(value_node, dotted).value, place_of(key_node), folder)
        return values

    def given(node: Node, path: str) -> Given:
        value: Any
        if isinstance(node, MappingNode):
            value = section(node, path)
        elif isinstance(node, SequenceNode):
            value = [given(item, path) for item in node.value]
        else:
            value = _scalar(node, text_of(node, path))
        return Given(value, place_of(node), folder)

    node = _composed(text, place)
    return Given(None, place(1), folder) if node is None else given(node, "")


def _composed(text: str, place: Callable[[int], str]) -> Node | None:
    """The nodes of `text`, as PyYAML reads it. Raises ConfigError."""
    try:
        _refuse_what_no_config_needs(text)
        return yaml.compose(text, Loader=_Loader)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{place(line)}: not YAML: unprintable character U+{ord(text[error.position]):04X}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        assert mark is not None
        what = ", ".join(part for part in (error.context, error.problem) if part)
        remedy = "".join(f"; {remedy}" for symptom, remedy in _REMEDIES.items() if symptom in what)
        raise ConfigError(f"{place(mark.line + 1)}: not YAML (column {mark.column + 1}): {what}{remedy}") from None


def has_comment(text: str) -> bool:
    """Whether a comment follows the value of `text`, which is one line of YAML."""
    node = yaml.compose(text, Loader=_Loader)
    return bool(text[node.end_mark.index if node else 0 :].strip())


def to_yaml(values: dict[str, Any]) -> str:
    """Plain values as YAML that `parse_yaml` reads back unchanged."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def _refuse_what_no_config_needs(text: str) -> None:
    """Raises ComposerError at the first alias, tag or level below the deepest.

    With aliases and tags, a line would not show the value that it gives; to share settings, configs have `extends`.
    Composing thousands of levels takes more recursion than Python allows, and reading 5,000 takes PyYAML 13 s.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        mark = cast(yaml.Mark, event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ComposerError(None, None, "nested too deeply", mark)
        if isinstance(event, yaml.AliasEvent):
            what = f"*{event.anchor}: aliases are not supported; use extends, or put text that begins with * in quotes"
            raise ComposerError(None, None, what, mark)
        if tag := getattr(event, "tag", None):
            raise ComposerError(None, None, f"{tag}: tags are not supported; leave it out", mark)


def _scalar(node: Node, text: str) -> str | int | float | bool | None:
    if node.tag == _NULL:
        return None
    if node.tag == _BOOL:
        return text.lower() == "true"
    if node.tag == _INT:
        return int(text) if len(text) < MAX_DIGITS else text  # Python limits how many digits it reads.
    return float(text) if node.tag == _FLOAT else text


def _files_near(path: Path) -> str:
    """What a user who asked for `path` may have meant."""
    folder = path.parent
    if not folder.is_dir():
        installed = "" if demo_corpus() else "; copy configs/ from a clone of this project (for the demo, data/, too)"
        return f"there is no folder {folder} either{installed}"
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in {".yaml", ".yml"})
    except OSError:
        return "the folder cannot be listed"
    if near := difflib.get_close_matches(path.stem, [file.stem for file in files], n=1):
        return f"did you mean {next(file for file in files if file.stem == near[0])}?"
    if exists(shipped := Path("configs") / f"{path.stem}.yaml"):
        return f"did you mean {shipped}?"
    return f"that folder holds {', '.join(file.name for file in files[:8]) or 'no .yaml file'}"
