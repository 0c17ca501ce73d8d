"""Everything that is wrong with the values of a config, in a user's terms.

pydantic validates the values. This file turns each of its errors into a line that names the key and says what was
given, what is allowed and what was probably meant. For example, if run.yaml is

    model:
      dropot: 0.2
      heads: 7

then pydantic's error is `{"type": "extra_forbidden", "loc": ("model", "transformer", "dropot"), ...}`, and the line is

    run.yaml:2: model.dropot: unknown key; did you mean 'dropout'?

pydantic looks for contradictions between settings only once each of them is valid. So bad values are removed, and the
rest is validated again: here, only the second validation finds that 7 heads do not divide the width of the model. Where
a key allows several types (a union), pydantic reports a mistake once for each type that does not fit. Only the errors
at the longest paths are kept, one for each path.

This file knows nothing about YAML files: the caller says where the value at a path was written.
"""

import contextlib
import copy
import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from translate.config.foreign import VALUES_ELSEWHERE, instead_of, our_name
from translate.config.keys import (
    all_sections,
    allowed,
    choices,
    fields_named,
    items_below,
    kind_of,
    sections_below,
    show,
)
from translate.config.schema import Config
from translate.config.section import ConflictError, Section

KeyPath = tuple[str | int, ...]  # keys, and indices of sections in a list
MOST_INSIDE = 12  # keys of an unknown section of which is said what they are called here
_BOOLEAN_WORDS = {"yes": True, "on": True, "no": False, "off": False}


@dataclass(frozen=True)
class _Problem:
    paths: tuple[KeyPath, ...]  # the settings to blame; several if they contradict each other
    cause: KeyPath  # what to remove so that the rest can be checked
    text: str


def check(values: dict[str, Any], place: Callable[[KeyPath], str | None]) -> tuple[Config | None, list[str]]:
    """The config, or None and every problem as `PLACE: KEY: WHAT`.

    `place` says where the value at a path was written, or None if it was not. For the empty path, it must not be None.
    """
    values = copy.deepcopy(values)
    removed: list[KeyPath] = []
    lines: list[str] = []
    while True:
        try:
            config = Config.model_validate(values)
            return (None if removed else config), lines
        except ValidationError as error:
            problems = _problems(error.errors(include_url=False), values)
        # A problem with a key that was removed in an earlier round is about its default, which the user did not write.
        for problem in problems:
            if not any(_overlap(path, other) for path in problem.paths for other in removed):
                lines.append(f"{_places(problem.paths, place)}: {problem.text}")
        before = copy.deepcopy(values)
        for problem in problems:
            for path in map(_up_to_list, problem.paths) if len(problem.paths) > 1 else (problem.cause,):
                _remove(values, path)
                removed.append(path)
        if values == before:  # Another round would find the same.
            return None, lines


def _problems(errors: list[ErrorDetails], values: dict[str, Any]) -> list[_Problem]:
    found: dict[KeyPath, _Problem] = {}
    for error in errors:
        of_error = _contradictions(error, values) if error["type"] == "value_error" else [_problem(error, values)]
        for problem in of_error:
            found.setdefault(problem.paths[0], problem)
    # Where a union allows text or a section, pydantic reports a bad key in a section, and also that the section is not
    # text. Only the problem with the longer path is kept.
    return [
        problem
        for path, problem in found.items()
        if len(problem.paths) > 1 or not any(other != path and other[: len(path)] == path for other in found)
    ]


def _contradictions(error: ErrorDetails, values: dict[str, Any]) -> list[_Problem]:
    """The contradictions that a section's validator raised together as one ConflictError."""
    path = _key_path(error["loc"], values)
    conflicts = error["ctx"]["error"]
    assert isinstance(conflicts, ConflictError)
    return [
        _Problem(
            tuple((*path, *key.split(".")) for key in conflict.keys),
            path,
            f"{_dotted(path)}: {conflict.message}" if path else conflict.message,
        )
        for conflict in conflicts.conflicts
    ]


def _problem(error: ErrorDetails, values: dict[str, Any]) -> _Problem:
    path = _key_path(error["loc"], values)
    if path and isinstance(path[-1], int):
        path = path[:-1]  # What a list may contain is reported for the list as a whole.
    cause = path
    # pydantic also calls an item of a list missing if the list is too short; then the list itself is wrong.
    missing = error["type"] == "missing" and isinstance(error["loc"][-1], str)
    if missing:
        path = (*path, str(error["loc"][-1]))
    if error["type"].startswith("union_tag"):  # `kind` is missing or unknown.
        path = (*path, "kind")
    value = _value_at(values, path)
    key = str(path[-1])
    sections = _sections_at(path[:-1], values)
    fields = fields_named(key, sections)
    if error["type"] == "extra_forbidden":
        what = _unknown_key(path, values)
    elif missing:
        what = f"missing, allowed: {allowed(fields)}"
    else:
        what = f"given {show(value)}, allowed: {allowed(fields)}{_remedy(value, key, sections)}"
    return _Problem((path,), cause, f"{_dotted(path)}: {what}")


def _key_path(location: tuple[int | str, ...], values: Any) -> KeyPath:
    """pydantic's location reduced to keys and sections in lists: without names of union members, and other indices."""
    path: list[str | int] = []
    kind = None  # of the section entered last; pydantic names it once, before the keys, one of which may be the same
    for part in location:
        if kind is not None and part == kind:
            kind = None
            continue
        is_item = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if (is_item and isinstance(values[part], dict)) or (isinstance(values, dict) and part in values):
            path.append(part)
            values = values[part]
            kind = _value_at(values, ("kind",))
    return tuple(path)


def _sections_at(path: KeyPath, values: dict[str, Any]) -> list[type[Section]]:
    """The sections allowed at a path: only the one of the chosen kind, if that kind is known."""
    sections: list[type[Section]] = [Config]
    for depth, key in enumerate(path):
        if isinstance(key, int):
            continue
        in_list = any(isinstance(part, int) for part in path[depth + 1 : depth + 2])
        sections = (items_below if in_list else sections_below)(key, sections)
        kind = _value_at(values, (*path[: depth + 1], "kind"))
        sections = [section for section in sections if kind_of(section) == kind] or sections
    return sections


def _unknown_key(path: KeyPath, values: dict[str, Any]) -> str:
    above, key = path[:-1], str(path[-1])
    known = list(_sections_at(above, values)[0].model_fields)
    if not above and key != "extends":
        known.append("extends")
    here = [section for home, section in all_sections() if home == _dotted(above) and key in section.model_fields]
    if kinds := [kind for section in here if (kind := kind_of(section))]:
        kind = _value_at(values, (*above, "kind"))
        belongs = f"belongs to kind{'s' if len(kinds) > 1 else ''} {', '.join(kinds)}"
        return f"unknown key for kind {show(kind)}; {key} {belongs}"
    if above and key in map(kind_of, sections_below(str(above[-1]), _sections_at(above[:-1], values))):
        return f"unknown key; to choose it, write kind: {key}"
    if (homes := _homes(key)) and not here and key != "kind":
        return f"unknown key; {key!r} belongs to {' and '.join(home or 'the top level' for home in homes)}"
    name, colon, value = key.partition(":")
    if colon and name in known:
        return f"unknown key; write a space after the colon, '{name}: {value}'"
    settings = (f"{home}.{name}" for home, section in all_sections() for name in section.model_fields)
    if "." in key and _dotted(path) in settings:
        return f"unknown key; write {key.replace('.', ': {')}: …{'}' * key.count('.')}"
    return f"unknown key; {_meant_by_key(path, known, values)}"


def _meant_by_key(path: KeyPath, known: list[str], values: dict[str, Any]) -> str:
    """What may be meant by a key that exists nowhere: a name from another toolkit, or one of the `known`, misspelt."""
    above, key, value = path[:-1], str(path[-1]), _value_at(values, path)
    if key in ("name", "type") and "kind" in known:
        return "did you mean 'kind'?"
    if advice := instead_of(key):
        return advice
    is_section = isinstance(value, dict)
    home = _dotted(tuple(part for part in above if not isinstance(part, int)))
    if ours := our_name(key, home, known):
        section, _, name = ours.rpartition(".")
        if section == home and name not in known:
            return f"its name here, {name!r}, belongs to another kind"
        if not is_section or ours in dict(all_sections()):
            return f"did you mean {name if section == home else ours!r}?"
    fitting = [name for name in known if not is_section or sections_below(name, _sections_at(above, values))]
    if near := difflib.get_close_matches(key, fitting, n=1):
        return f"did you mean {near[0]!r}?"
    if is_section and (inside := _names_inside(key, value, home)):
        return f"in it, {', '.join(inside[:MOST_INSIDE])}"
    return f"allowed here: {', '.join(known)}"


def _names_inside(name: str, section: dict[Any, Any], home: str) -> list[str]:
    """What the keys of a section are called here, where it is one of another toolkit, called `name` there."""
    found = []
    for key, value in section.items():
        if isinstance(value, dict):
            found += _names_inside(str(key), value, home)
            continue
        homes = _homes(key)
        same = f"{homes[0]}.{key}" if len(homes) == 1 and homes[0] else None
        if ours := same or our_name(f"{name}.{key}", home) or our_name(str(key), home):
            found.append(f"{key} is {ours}")
    return list(dict.fromkeys(found))


def _homes(key: str) -> list[str]:
    """The paths of the sections that have this key."""
    return list(dict.fromkeys(home for home, section in all_sections() if key in section.model_fields))


def _remedy(value: Any, key: str, sections: list[type[Section]]) -> str:
    fields = fields_named(key, sections)
    if value is None and not choices(fields[0]):
        return "; leave the key out for its default"
    if isinstance(value, str) and re.match(r"\w+:\S", value) and sections_below(key, sections):
        return f"; write a space after the colon, '{value.replace(':', ': ', 1)}'"
    words = [word for field in fields for word in choices(field)]
    if (value is None or isinstance(value, str)) and words:
        word = str(value).lower()
        if word.startswith("cuda:"):
            return "; write 'cuda', and choose the GPU by CUDA_VISIBLE_DEVICES in the environment"
        ours = VALUES_ELSEWHERE.get(word)
        # A high cutoff, because short words resemble each other.
        near = [ours] if ours in words else difflib.get_close_matches(word, words, n=1, cutoff=0.7)
        return f"; did you mean {near[0]!r}?" if near else ""
    for candidate in _meant(value):
        if any(_fits(candidate, key, section) for section in sections):
            return f"; write {show(candidate)}{' without quotes' if show(candidate) == value else ''}"
    return ""


def _fits(value: Any, key: str, section: type[Section]) -> bool:
    """Whether the section allows this value at this key; other keys may be missing."""
    try:
        section.model_validate({key: value})
    except ValidationError as error:
        return not any(key in problem["loc"] for problem in error.errors())
    return True


def _meant(value: Any) -> Iterator[Any]:
    """What may have been meant by a value of the wrong type."""
    if isinstance(value, str):
        word = value.lower()
        yield {"kind": VALUES_ELSEWHERE.get(word, word)}
        if value.lower() in _BOOLEAN_WORDS:
            yield _BOOLEAN_WORDS[value.lower()]
        with contextlib.suppress(ValueError):
            number = float(value)
            yield int(number) if number.is_integer() else number
    elif isinstance(value, float) and value.is_integer():
        yield int(value)
    elif isinstance(value, (bool, int, float)):
        yield show(value)


def _value_at(values: Any, path: KeyPath) -> Any:
    for key in path:
        if isinstance(values, list) and isinstance(key, int):
            values = values[key]
        else:
            values = values.get(key) if isinstance(values, dict) else None
    return values


def _remove(values: dict[str, Any], path: KeyPath) -> None:
    if not path:
        return
    above = _value_at(values, path[:-1])
    if isinstance(above, dict):
        above.pop(path[-1], None)


def _up_to_list(path: KeyPath) -> KeyPath:
    """The path up to the first list on the way: without some of its keys, an item of it may still be contradictory."""
    return tuple(takewhile(lambda key: not isinstance(key, int), path))


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    """Whether the paths are the same, or one leads to the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _places(paths: tuple[KeyPath, ...], place: Callable[[KeyPath], str | None]) -> str:
    """Where the settings at `paths` were written; if none was, where the nearest section above the first one was."""
    if given := dict.fromkeys(where for path in paths if (where := place(path))):
        return ", ".join(given)
    return next(where for depth in reversed(range(len(paths[0]))) if (where := place(paths[0][:depth])))
