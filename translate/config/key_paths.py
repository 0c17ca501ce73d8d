"""Paths of keys in the values of a config, and what is at them: values, and sections of the schema."""

from typing import Any

from translate.config.keys import items_below, kind_of, sections_below
from translate.config.schema import Config
from translate.config.section import Section

KeyPath = tuple[str | int, ...]  # keys, and indices of sections in a list


def value_at(values: Any, path: KeyPath) -> Any:
    """The value at a path; None if there is none."""
    for key in path:
        if isinstance(values, list) and isinstance(key, int):
            values = values[key]
        else:
            values = values.get(key) if isinstance(values, dict) else None
    return values


def sections_at(path: KeyPath, values: dict[str, Any]) -> list[type[Section]]:
    """The sections allowed at a path: only the one of the chosen kind, if that kind is known."""
    sections: list[type[Section]] = [Config]
    for depth, key in enumerate(path, start=1):
        if isinstance(key, int):
            continue
        in_list = depth < len(path) and isinstance(path[depth], int)
        sections = (items_below if in_list else sections_below)(key, sections)
        kind = value_at(values, (*path[:depth], "kind"))
        sections = [section for section in sections if kind_of(section) == kind] or sections
    return sections


def dotted(path: KeyPath) -> str:
    """A path as messages show it."""
    return ".".join(map(str, path))
