"""Everything that is wrong with a set of values, in a user's terms.

pydantic checks; this file finds the key behind each of its errors and says what was given, what is allowed and what was
probably meant. It knows nothing about files: the caller says where the value at a path was written.
"""

import contextlib
import copy
import difflib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

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
from translate.config.schema import Config, ConflictError, Section

KeyPath = tuple[str | int, ...]  # keys, and indices of sections in a list
_BOOLEAN_WORDS = {"yes": True, "on": True, "no": False, "off": False}


@dataclass(frozen=True)
class _Problem:
    paths: tuple[KeyPath, ...]  # the settings to blame; several contradict each other
    cause: KeyPath  # what to remove so that the rest can be checked
    text: str


def check(values: dict[str, Any], place: Callable[[KeyPath], str | None]) -> tuple[Config | None, list[str]]:
    """The config, or None and every problem as `PLACE: KEY: WHAT`. `place` must know at least the empty path."""
    values = copy.deepcopy(values)
    taken: list[KeyPath] = []
    lines: list[str] = []
    while True:
        try:
            config = Config.model_validate(values)
            return (None if taken else config), lines
        except ValidationError as error:
            problems = _problems(error.errors(include_url=False), values)
        # Contradictions are found only once every single value is valid, so defaults replace the bad ones; what is
        # found then is reported, unless it is about such a default.
        for problem in problems:
            if not any(_overlap(path, other) for path in problem.paths for other in taken):
                lines.append(f"{_places(problem.paths, place)}: {problem.text}")
        before = copy.deepcopy(values)
        for problem in problems:
            for path in map(_outside_lists, problem.paths) if len(problem.paths) > 1 else (problem.cause,):
                _take_away(values, path)
                taken.append(path)
        if values == before:
            return None, lines


def _problems(errors: list[ErrorDetails], values: dict[str, Any]) -> list[_Problem]:
    found: dict[KeyPath, _Problem] = {}
    for error in errors:
        of_error = _contradictions(error, values) if error["type"] == "value_error" else [_problem(error, values)]
        for problem in of_error:
            found.setdefault(problem.paths[0], problem)
    # Where text or a section is allowed, a section with a bad key is also "not text": only report the deeper problem.
    return [
        problem
        for path, problem in found.items()
        if len(problem.paths) > 1 or not any(other != path and other[: len(path)] == path for other in found)
    ]


def _contradictions(error: ErrorDetails, values: dict[str, Any]) -> list[_Problem]:
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
    # Only for keys: if a list is too short, the list itself is wrong.
    missing = error["type"] == "missing" and isinstance(error["loc"][-1], str)
    if missing:
        path = (*path, str(error["loc"][-1]))
    if error["type"].startswith("union_tag"):
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
    """pydantic's location without the parts that lead to no section: plain list items, alternatives of a union."""
    path: list[str | int] = []
    for part in location:
        is_item = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if (is_item and isinstance(values[part], dict)) or (isinstance(values, dict) and part in values):
            path.append(part)
            values = values[part]
    return tuple(path)


def _sections_at(path: KeyPath, values: dict[str, Any]) -> list[type[Section]]:
    """The sections allowed at a path: only the one of the chosen kind, if that kind is known."""
    sections: list[type[Section]] = [Config]
    for depth, key in enumerate(path):
        if isinstance(key, int):
            continue
        in_list = any(isinstance(place, int) for place in path[depth + 1 : depth + 2])
        sections = (items_below if in_list else sections_below)(key, sections)
        kind = _value_at(values, (*path[: depth + 1], "kind"))
        sections = [section for section in sections if kind_of(section) == kind] or sections
    return sections


def _unknown_key(path: KeyPath, values: dict[str, Any]) -> str:
    above, key = path[:-1], str(path[-1])
    known = list(_sections_at(above, values)[0].model_fields)
    everywhere = [(place, section) for place, section in all_sections() if key in section.model_fields]
    here = [section for place, section in everywhere if place == _dotted(above)]
    if kinds := [kind for section in here if (kind := kind_of(section))]:
        kind = _value_at(values, (*above, "kind"))
        return f"unknown key of kind {show(kind)}; {key} belongs to {_kinds(kinds)}"
    if everywhere and not here and key != "kind":
        homes = dict.fromkeys(place or "the top level" for place, _ in everywhere)
        return f"unknown key; {key!r} belongs to {' and '.join(homes)}"
    name, colon, value = key.partition(":")
    if colon and name in known:
        return f"unknown key; write a space after the colon, '{name}: {value}'"
    if near := difflib.get_close_matches(key, known, n=1):
        return f"unknown key; did you mean {near[0]!r}?"
    return f"unknown key; known here: {', '.join(known)}"


def _kinds(kinds: list[str]) -> str:
    return f"kind{'s' if len(kinds) > 1 else ''} {', '.join(kinds)}"


def _remedy(value: Any, key: str, sections: list[type[Section]]) -> str:
    fields = fields_named(key, sections)
    if value is None and not choices(fields[0]):
        return "; leave the key out for its default"
    words = [word for field in fields for word in choices(field)]
    if (value is None or isinstance(value, str)) and words:
        # A high cutoff, because short words resemble each other: `gpu` is not `cpu`.
        near = difflib.get_close_matches(str(value).lower(), words, n=1, cutoff=0.7)
        return f"; did you mean {near[0]!r}?" if near else ""
    for candidate in _meant(value):
        if any(_fits(candidate, key, section) for section in sections):
            return f"; write {show(candidate)}{' without quotes' if show(candidate) == value else ''}"
    return ""


def _fits(value: Any, key: str, section: type[Section]) -> bool:
    try:
        section.model_validate({key: value})
    except ValidationError as error:
        return not any(key in problem["loc"] for problem in error.errors())
    return True


def _meant(value: Any) -> Iterator[Any]:
    """What may have been meant by a value of the wrong type."""
    if isinstance(value, str):
        yield {"kind": value}
        if value.lower() in _BOOLEAN_WORDS:
            yield _BOOLEAN_WORDS[value.lower()]
        with contextlib.suppress(ValueError):
            number = float(value.replace("_", ""))
            yield int(number) if math.isfinite(number) and number.is_integer() else number
    elif isinstance(value, float) and math.isfinite(value) and value.is_integer():
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


def _take_away(values: dict[str, Any], path: KeyPath) -> None:
    if not path:
        return
    above = _value_at(values, path[:-1])
    if isinstance(above, dict):
        above.pop(path[-1], None)


def _outside_lists(path: KeyPath) -> KeyPath:
    """The path, or that of the first list on the way: an item without its keys may contradict itself still."""
    return tuple(takewhile(lambda key: not isinstance(key, int), path))


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _places(paths: tuple[KeyPath, ...], place: Callable[[KeyPath], str | None]) -> str:
    """Where the settings at `paths` were written; if none was, the section above the first."""
    if given := dict.fromkeys(where for path in paths if (where := place(path))):
        return ", ".join(given)
    return next(where for depth in reversed(range(len(paths[0]))) if (where := place(paths[0][:depth])))
