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

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from translate.config.advice import advice_on_key, advice_on_value
from translate.config.key_paths import KeyPath, dotted, sections_at, value_at
from translate.config.keys import allowed, fields_named, show
from translate.config.schema import Config
from translate.config.section import ConflictError


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
    above = {path[:length] for path in found for length in range(len(path))}
    return [problem for path, problem in found.items() if len(problem.paths) > 1 or path not in above]


def _contradictions(error: ErrorDetails, values: dict[str, Any]) -> list[_Problem]:
    """The contradictions that a section's validator raised together as one ConflictError."""
    path = _key_path(error["loc"], values)
    conflicts = error["ctx"]["error"]
    assert isinstance(conflicts, ConflictError)
    return [
        _Problem(
            tuple((*path, *key.split(".")) for key in conflict.keys),
            path,
            f"{dotted(path)}: {conflict.message}" if path else conflict.message,
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
    value = value_at(values, path)
    key = str(path[-1])
    sections = sections_at(path[:-1], values)
    fields = fields_named(key, sections)
    if error["type"] == "extra_forbidden":
        what = f"unknown key{advice_on_key(path, values)}"
    elif missing:
        what = f"missing, allowed: {allowed(fields)}"
    else:
        what = f"given {show(value)}, allowed: {allowed(fields)}{advice_on_value(value, key, sections)}"
    return _Problem((path,), cause, f"{dotted(path)}: {what}")


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
            kind = value_at(values, ("kind",))
    return tuple(path)


def _remove(values: dict[str, Any], path: KeyPath) -> None:
    if not path:
        return
    above = value_at(values, path[:-1])
    if isinstance(above, dict):
        above.pop(path[-1], None)


def _up_to_list(path: KeyPath) -> KeyPath:
    """The path up to the first list on the way: without some of its keys, an item of it may still be contradictory."""
    return tuple(takewhile(lambda key: not isinstance(key, int), path))


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    """Whether the paths are the same, or one leads to the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _places(paths: tuple[KeyPath, ...], place: Callable[[KeyPath], str | None]) -> str:
    """Where the settings at `paths` were written; if none was, where the nearest section above the first one was."""
    if given := dict.fromkeys(where for path in paths if (where := place(path))):
        return ", ".join(given)
    return next(where for depth in reversed(range(len(paths[0]))) if (where := place(paths[0][:depth])))
