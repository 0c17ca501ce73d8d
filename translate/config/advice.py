"""Advice on unknown keys and on values that are not allowed: what was probably meant, as the end of a message."""

import contextlib
import difflib
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from translate.config.foreign import VALUES_ELSEWHERE, instead_of, our_name, underscored
from translate.config.key_paths import KeyPath, dotted, sections_at, value_at
from translate.config.keys import all_sections, choices, fields_named, kind_of, sections_below, show
from translate.config.section import Section

MAX_NAMES_INSIDE = 12  # keys of an unknown section for which advice gives our names
_BOOLEAN_WORDS = {"yes": True, "on": True, "no": False, "off": False}


def advice_on_key(path: KeyPath, values: dict[str, Any]) -> str:
    """What to write instead of the unknown key at the end of `path`."""
    above, key = path[:-1], str(path[-1])
    known = list(sections_at(above, values)[0].model_fields)
    if not above and key != "extends":  # which is allowed at the top of a file, but not among overrides
        known.append("extends")
    here = [section for home, section in all_sections() if home == dotted(above) and key in section.model_fields]
    kinds = [kind for kind in map(kind_of, here) if kind is not None]
    if kinds:  # It is a setting of another kind of this section.
        chosen = value_at(values, (*above, "kind"))
        return f" for kind {show(chosen)}; {key} belongs to kind{'s' if len(kinds) > 1 else ''} {', '.join(kinds)}"
    # It is a kind of this section.
    if above and key in map(kind_of, sections_below(str(above[-1]), sections_at(above[:-1], values))):
        return f"; to choose it, write kind: {key}"
    ours = underscored(key)  # It is a setting of other sections, perhaps with dashes.
    if (homes := _homes(ours)) and dotted(above) not in homes and key != "kind":
        return f"; {ours!r} belongs to {' and '.join(home or 'the top level' for home in homes)}"
    name, colon, value = key.partition(":")  # {heads:4} is one key, and so is "a.b".
    if colon and name in known:
        return f"; write a space after the colon, '{name}: {value}'"
    settings = (f"{home}.{name}" for home, section in all_sections() for name in section.model_fields)
    if "." in key and dotted(path) in settings:
        return f"; write {key.replace('.', ': {')}: …{'}' * key.count('.')}"
    return f"; {_meant_by_key(path, known, values)}"


def _meant_by_key(path: KeyPath, known: list[str], values: dict[str, Any]) -> str:
    """What may be meant by a key that exists nowhere: a name from another toolkit, or one of the `known`, misspelt."""
    above, key, value = path[:-1], str(path[-1]), value_at(values, path)
    if key in ("name", "type") and "kind" in known:
        return "did you mean 'kind'?"
    is_section = isinstance(value, dict)
    home = dotted(tuple(part for part in above if not isinstance(part, int)))
    if advice := instead_of(key, home):
        return advice
    if ours := our_name(key, home, known):
        section, _, name = ours.rpartition(".")
        if section == home and name not in known:
            return f"its name here, {name!r}, belongs to another kind"
        if not is_section or ours in dict(all_sections()):
            return f"did you mean {name if section == home else ours!r}?"
    fitting = [name for name in known if not is_section or sections_below(name, sections_at(above, values))]
    if near := difflib.get_close_matches(key, fitting, n=1):
        return f"did you mean {near[0]!r}?"
    if is_section and (inside := _names_inside(key, value, home)):
        return f"in it, {', '.join(inside[:MAX_NAMES_INSIDE])}"
    return f"allowed here: {', '.join(known)}"


def _names_inside(name: str, section: dict[Any, Any], home: str) -> list[str]:
    """Our names for the keys of a section of another toolkit, which is called `name` there."""
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


def advice_on_value(value: Any, key: str, sections: list[type[Section]]) -> str:
    """What to write instead of a value that `key` of these sections does not allow; empty if there is no guess."""
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
        near += [each for each in words if sorted(each) == sorted(word)]
        longer = [each for each in words if each.startswith(word)]
        near += longer if len(longer) == 1 else []
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
        if word in _BOOLEAN_WORDS:
            yield _BOOLEAN_WORDS[word]
        with contextlib.suppress(ValueError):
            number = float(value)
            yield int(number) if number.is_integer() else number
    elif isinstance(value, float) and value.is_integer():
        yield int(value)
    elif isinstance(value, (bool, int, float)):
        yield show(value)
