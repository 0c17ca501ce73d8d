"""Values that know where they were written: one layer of them over another, and the values alone for the check.

A config file lies over the one that it extends, and the overrides over both. `sections` are always those that the
schema allows at that place: several, if a `kind` chooses one of them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from translate.config.data import Corpus
from translate.config.key_paths import KeyPath, dotted
from translate.config.keys import (
    fields_named,
    is_path,
    items_below,
    kind_of,
    must_be_section,
    sections_below,
    sections_of,
)
from translate.config.section import Section
from translate.config.yaml_source import Given
from translate.errors import ConfigError
from translate.system.paths import resolved


def merge(base: Given, child: Given, sections: Sequence[type[Section]]) -> Given:
    """`child` merged over `base`, key by key.

    If `child` chooses one of the sections by `kind`, keys of `base` that only others have are dropped. A corpus of
    another text replaces that of `base`: weight and vocabulary belong to the text. Where `base` has a single value in
    place of a section, that value stays, whatever `child` has there: the check is to report it.
    """
    if not (isinstance(base.value, dict) and isinstance(child.value, dict)):
        return child
    given = {key for key, item in child.value.items() if item.value is not None}
    if Corpus in sections and ("split" in given or {"source", "target"} <= given):
        return child
    kind = child.value["kind"].value if "kind" in child.value else None
    if chosen := [section for section in sections if kind is not None and kind_of(section) == kind]:
        # Settings of the old kind would be unknown keys of the new one, and `child` could not remove them.
        base = _drop_other_kinds(base, chosen, sections)
    merged = dict(base.value)
    for key, value in child.value.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(merged[key].value, dict | NoneType) or not must_be_section(key, sections):
            merged[key] = merge(merged[key], value, sections_below(key, sections))
    return Given(merged, child.place, child.folder)


def _drop_other_kinds(given: Given, chosen: Sequence[type[Section]], known: Sequence[type[Section]]) -> Given:
    """`given` without the keys, at any depth, that sections in `known` have but none in `chosen`. Unknown keys stay."""
    if not (chosen and isinstance(given.value, dict)):
        return given
    kept = {
        key: _drop_other_kinds(child, sections_below(key, chosen), sections_below(key, known))
        for key, child in given.value.items()
        if fields_named(key, chosen) or not fields_named(key, known)
    }
    return Given(kept, given.place, given.folder)


def contradicted(earlier: Given, later: Given, depth: int) -> Given | None:
    """A single value of earlier overrides that a later one would drop without a word, as `a=1 a.b=2` would drop 1.

    `depth` is how many keys the later one names: at the last of them, it may replace a value, as `a=1 a={b: 2}` does.
    """
    if not isinstance(later.value, dict) or earlier.value is None:
        return None
    if not isinstance(earlier.value, dict):
        return earlier if depth else None
    common = [key for key in earlier.value if key in later.value]
    found = (contradicted(earlier.value[key], later.value[key], depth - 1) for key in common)
    return next(filter(None, found), None)


def plain_values(given: Given, sections: Sequence[type[Section]], problems: list[str], at: KeyPath = ()) -> Any:
    """The values alone, with paths made absolute and the default `kind` filled in where a section leaves it out.

    `at` is where in the config they are. What is wrong with a path of a file or folder is added to `problems`.
    """
    if isinstance(given.value, list):
        return [plain_values(item, sections, problems, (*at, number)) for number, item in enumerate(given.value)]
    if not isinstance(given.value, dict):
        return given.value
    values: dict[str, Any] = {}
    for key, child in given.value.items():
        below = items_below if isinstance(child.value, list) else sections_below
        values[key] = plain_values(child, below(key, sections), problems, (*at, key))
        fields = fields_named(key, sections)
        if isinstance(child.value, str) and any(map(is_path, fields)):
            try:
                values[key] = str(_absolute(child.value, child.folder))
            except ConfigError as error:
                problems.append(f"{child.place}: {dotted((*at, key))}: {error}")
        for field in fields:
            if isinstance(child.value, dict) and len(sections_of(field)) > 1:
                values[key].setdefault("kind", field.default.kind)
    return values


def _absolute(path: str, folder: Path) -> Path:
    if not path:  # as from an empty variable of a template; it would mean the folder itself
        raise ConfigError("an empty path; leave the key out for its default")
    whole = folder / expand_home(path)
    # A symbolic link keeps its own name, because that may say how the file is compressed (.gz), while the name of the
    # file that it points to may be a mere digest.
    return resolved(whole) if whole.name in ("", "..") else resolved(whole.parent) / whole.name


def expand_home(path: str) -> Path:
    """The path, with the home folder in place of `~`. ConfigError if that is unknown, or if it names a variable."""
    if re.search(r"(^|/)(\$\w+|\$\{\w+\})(/|$)", path):
        raise ConfigError(f"{path}: variables of the environment are not expanded; ~/ is your home folder")
    try:
        return Path(path).expanduser() if path.startswith("~/") else Path(path)
    except RuntimeError as error:  # as in a container, for a user that the system does not know
        raise ConfigError(f"{path}: the home folder is not known; set HOME, or write the whole path") from error


def place_of(given: Given, path: KeyPath) -> str | None:
    """Where the value at `path` was written; None if it was not."""
    for key in path:
        in_list = isinstance(given.value, list) and isinstance(key, int)
        if not (in_list or (isinstance(given.value, dict) and key in given.value)):
            return None
        given = given.value[key]
    return given.place
