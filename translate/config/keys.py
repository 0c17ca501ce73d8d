"""What the schema allows at each key, in plain words: for the messages of problems.py and the page of reference.py."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from translate.config.schema import Config, Section


def sections_at(field: FieldInfo) -> list[type[Section]]:
    """The sections allowed at a key: none for a single value, several where `kind` chooses."""
    return [kind for kind, _ in _alternatives(field) if isinstance(kind, type) and issubclass(kind, Section)]


def items_at(field: FieldInfo) -> list[type[Section]]:
    """The sections allowed in a list at a key."""
    lists = [kind for kind, _ in _alternatives(field) if get_origin(kind) is list]
    members = [member for kind in lists for member, _ in _split(get_args(kind)[0], [])]
    return [member for member in members if isinstance(member, type) and issubclass(member, Section)]


def fields_named(key: str, sections: Sequence[type[Section]]) -> list[FieldInfo]:
    """The fields of that name in any of `sections`."""
    return [section.model_fields[key] for section in sections if key in section.model_fields]


def sections_below(key: str, sections: Sequence[type[Section]]) -> list[type[Section]]:
    """The sections allowed at `key` of any of `sections`."""
    return [section for field in fields_named(key, sections) for section in sections_at(field)]


def items_below(key: str, sections: Sequence[type[Section]]) -> list[type[Section]]:
    """The sections allowed in a list at `key` of any of `sections`."""
    return [section for field in fields_named(key, sections) for section in items_at(field)]


def all_sections(path: str = "", sections: Sequence[type[Section]] = (Config,)) -> Iterator[tuple[str, type[Section]]]:
    """Every section with its dotted path, depth first; the kinds of a section share their path."""
    for section in sections:
        yield path, section
        for key, field in section.model_fields.items():
            below = f"{path}.{key}".lstrip(".")
            yield from all_sections(below, sections_at(field))
            yield from all_sections(f"{below}[]", items_at(field))


def kind_of(section: type[Section]) -> str | None:
    """The `kind` that chooses this section, if it is one of several."""
    return section.model_fields["kind"].default if "kind" in section.model_fields else None


def is_path(field: FieldInfo) -> bool:
    """Whether a string at this key is a path."""
    return any(kind is Path for kind, _ in _alternatives(field))


def choices(field: FieldInfo) -> list[str]:
    """The words allowed at this key, if it takes only certain ones."""
    return [word for kind, _ in _alternatives(field) if get_origin(kind) is Literal for word in get_args(kind)]


def allowed(fields: Sequence[FieldInfo]) -> str:
    """What is allowed at a key, as in `a number above 0 or null`. Several fields: the same key of several kinds."""
    if words := [word for field in fields for word in choices(field)]:
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    if kinds := [name for section in sections_at(fields[0]) if (name := kind_of(section))]:
        return f"a section of kind {' or '.join(kinds)}"
    return " or ".join(_in_words(kind, limits) for kind, limits in _alternatives(fields[0]))


def show(value: Any) -> str:
    """A value as messages show it: like YAML, with text in quotes and long values cut."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list() | tuple():
            text = f"[{', '.join(map(show, value))}]"
        case dict():
            text = f"{{{', '.join(f'{key}: {show(item)}' for key, item in value.items())}}}"
        case _:
            text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _alternatives(field: FieldInfo) -> list[tuple[Any, list[Any]]]:
    """The members of a field's type, each with its limits."""
    return list(_split(field.annotation, field.metadata))


def _split(annotation: Any, limits: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    if get_origin(annotation) is Annotated:
        inner, *extra = get_args(annotation)
        more = [limit for item in extra for limit in (item.metadata if isinstance(item, FieldInfo) else [item])]
        yield from _split(inner, [*limits, *more])
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _split(member, limits)
    else:
        yield annotation, limits


def _in_words(kind: Any, limits: list[Any]) -> str:
    if isinstance(kind, type) and issubclass(kind, Section):
        return f"a section with {', '.join(kind.model_fields)}"
    if get_origin(kind) is tuple:
        items = get_args(kind)
        each = " or ".join(_in_words(*member) for member in _split(items[0], []))
        return f"a list of {len(items)}, each {each}"
    if get_origin(kind) is list:
        return f"a list (each {' or '.join(_in_words(*member) for member in _split(get_args(kind)[0], []))})"
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if kind in (int, float):
        return f"{'a whole number' if kind is int else 'a number'}{_range(limits)}"
    text = "text (not empty)" if any(getattr(limit, "min_length", 0) for limit in limits) else "text"
    return {bool: "true or false", str: text, Path: "a path", NoneType: "null"}[kind]


def _range(limits: list[Any]) -> str:
    bounds = {
        name: getattr(limit, name) for limit in limits for name in ("gt", "ge", "lt", "le") if hasattr(limit, name)
    }
    match bounds:
        case {"gt": low, "le": high}:
            return f" above {low:g}, up to {high:.12g}"
        case {"gt": low}:
            return f" above {low:g}"
        case {"ge": low, "lt": high}:
            return f" from {low:g} to below {high:.12g}"
        case {"ge": low, "le": high}:
            return f" from {low:g} to {high:.12g}"
        case {"ge": low}:
            return f" of at least {low:g}"
        case _:
            return ""
