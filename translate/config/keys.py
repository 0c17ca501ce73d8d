"""What the schema allows at each key, in plain words: for the messages of problems.py and the page of reference.py."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from translate.config.schema import Config
from translate.config.section import Section


def sections_of(field: FieldInfo) -> list[type[Section]]:
    """The sections that a field allows: none for a single value, several if `kind` chooses a member of a union."""
    return [member for member, _ in _members(field) if isinstance(member, type) and issubclass(member, Section)]


def items_of(field: FieldInfo) -> list[type[Section]]:
    """The sections allowed in the list that a field takes."""
    lists = [member for member, _ in _members(field) if get_origin(member) is list]
    items = [item for member in lists for item, _ in _split(get_args(member)[0], [])]
    return [item for item in items if isinstance(item, type) and issubclass(item, Section)]


def fields_named(key: str, sections: Sequence[type[Section]]) -> list[FieldInfo]:
    """The fields of that name in any of `sections`."""
    return [section.model_fields[key] for section in sections if key in section.model_fields]


def must_be_section(key: str, sections: Sequence[type[Section]]) -> bool:
    """Whether a key of `sections` allows nothing but a section."""
    fields = fields_named(key, sections)
    return bool(fields) and all(len(sections_of(field)) == len(_members(field)) for field in fields)


def sections_below(key: str, sections: Sequence[type[Section]]) -> list[type[Section]]:
    """The sections allowed at `key` of any of `sections`."""
    return [section for field in fields_named(key, sections) for section in sections_of(field)]


def items_below(key: str, sections: Sequence[type[Section]]) -> list[type[Section]]:
    """The sections allowed in a list at `key` of any of `sections`."""
    return [section for field in fields_named(key, sections) for section in items_of(field)]


@cache
def all_sections() -> tuple[tuple[str, type[Section]], ...]:
    """Every section with its dotted path, depth first; the kinds of a section share their path."""
    return tuple(_sections_from("", (Config,)))


def _sections_from(path: str, sections: Sequence[type[Section]]) -> Iterator[tuple[str, type[Section]]]:
    for section in sections:
        yield path, section
        for key, field in section.model_fields.items():
            below = f"{path}.{key}".lstrip(".")
            yield from _sections_from(below, sections_of(field))
            yield from _sections_from(f"{below}[]", items_of(field))


def kind_of(section: type[Section]) -> str | None:
    """The `kind` that chooses this section, if it is one of several."""
    return section.model_fields["kind"].default if "kind" in section.model_fields else None


def is_path(field: FieldInfo) -> bool:
    """Whether a string at this key is a path."""
    return any(member is Path for member, _ in _members(field))


def choices(field: FieldInfo) -> list[str]:
    """The words allowed at this key, if it takes only certain ones."""
    return [word for member, _ in _members(field) if get_origin(member) is Literal for word in get_args(member)]


def allowed(fields: Sequence[FieldInfo]) -> str:
    """What is allowed at a key, as in `a number above 0 or null`.

    Where the kind of its section is not known, `fields` has that of each kind.
    """
    if words := [word for field in fields for word in choices(field)]:
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    if kinds := [name for section in sections_of(fields[0]) if (name := kind_of(section))]:
        return f"a section of kind {' or '.join(kinds)}"
    return " or ".join(_in_words(member, limits) for member, limits in _members(fields[0]))


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


def _members(field: FieldInfo) -> list[tuple[Any, list[Any]]]:
    """The members of a field's type if it is a union, otherwise the type itself; each with its limits, such as `gt`."""
    return list(_split(field.annotation, field.metadata))


def _split(annotation: Any, limits: list[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The members of a type, taken out of any `Annotated` and unions, with their limits added to `limits`."""
    if get_origin(annotation) is Annotated:
        inner, *extra = get_args(annotation)
        more = [limit for item in extra for limit in (item.metadata if isinstance(item, FieldInfo) else [item])]
        yield from _split(inner, [*limits, *more])
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _split(member, limits)
    else:
        yield annotation, limits


def _in_words(member: Any, limits: list[Any]) -> str:
    if isinstance(member, type) and issubclass(member, Section):
        return f"a section with {', '.join(member.model_fields)}"
    if get_origin(member) is tuple:
        items = get_args(member)
        each = " or ".join(_in_words(*item) for item in _split(items[0], []))
        return f"a list of {len(items)}, each {each}"
    if get_origin(member) is list:
        return f"a list (each {' or '.join(_in_words(*item) for item in _split(get_args(member)[0], []))})"
    if get_origin(member) is Literal:
        return f"one of {', '.join(get_args(member))}"
    if member in (int, float):
        return f"{'a whole number' if member is int else 'a number'}{_range(limits)}"
    text = "text (not empty)" if any(getattr(limit, "min_length", 0) for limit in limits) else "text"
    return {bool: "true or false", str: text, Path: "a path", NoneType: "null"}[member]


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
