"""Turns a YAML file, the files it extends, and `key=value` overrides into one checked Config.

All problems are reported together, each with its file and line. schema.py, with the files of its sections, defines
what a config may contain.
"""

import json
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
    show,
)
from translate.config.problems import check
from translate.config.schema import Config
from translate.config.section import Section
from translate.config.yaml_source import Given, folder_of, has_comment, parse_yaml, read_yaml, to_yaml
from translate.errors import ConfigError
from translate.system.paths import checkpoints, is_utf8, project_root, resolved

MANY = 5  # unknown keys, from which on a config seems to be that of another toolkit
LISTED = 50  # problems; a file that has more is probably no config, and nobody reads them


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The config in a YAML file, with overrides such as `training.optimizer.lr=3e-4`; every path in it is absolute.

    Raises a ConfigError that lists all problems, and a TypeError if the overrides are a single text.
    """
    if isinstance(overrides, str):
        raise TypeError(f"the overrides are a single text; give a list: [{overrides!r}]")
    path = Path(path)
    problems: list[str] = []
    given = _read(path, (), problems)
    overriding = Given({}, "overrides", Path.cwd())
    for override in overrides:
        try:
            setting = _override(override, problems)
        except ConfigError as error:
            problems.append(str(error))
            continue
        if hidden := _hidden(overriding, setting, override.partition("=")[0].count(".") + 1):
            problems.append(f"{setting.place}: contradicts {hidden.place}; leave one of them out")
        overriding = _merge(overriding, setting, ())
    given = _merge(given, overriding, (Config,))

    config, more = check(_plain(given, (Config,), problems), lambda key_path: _place(given, key_path))
    problems += more
    if problems or config is None:
        raise ConfigError(_report(problems, str(path)))
    config = _complete(config, path.stem)
    for key, value in flat(config_to_dict(config)).items():
        if not is_utf8(json.dumps(value, ensure_ascii=False)):
            raise ConfigError(f"{path}: {key}: {value!a} is not UTF-8; rename that file or folder, or choose another")
    return config


def dump_config(config: Config) -> str:
    """The config as YAML, every key written out; `load_config` reads back an equal one."""
    return to_yaml(config_to_dict(config))


def config_to_dict(config: Config) -> dict[str, Any]:
    """The config as plain JSON values, paths as text."""
    return config.model_dump(mode="json")


def config_from_dict(values: dict[str, Any]) -> Config:
    """The config that `config_to_dict` wrote. Raises a ConfigError that lists all problems."""
    config, problems = check(values, lambda _: "stored config")
    if config is None:
        raise ConfigError(_report(problems, "the stored config"))
    return config


def differences(old: Config, new: Config) -> dict[str, str]:
    """A line for each setting that is not the same, by its key, as in `training.optimizer.lr: 0.001 → 0.002`."""
    before, after = flat(config_to_dict(old)), flat(config_to_dict(new))
    return {
        key: f"{key}: {_shown(before, key)} → {_shown(after, key)}"
        for key in {**before, **after}
        if (key in before, before.get(key)) != (key in after, after.get(key))
    }


def flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The single values by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
    return found


def _read(path: Path, readers: tuple[Path, ...], problems: list[str]) -> Given:
    """The file merged over the one it extends; `readers` is the chain of files whose `extends` led here."""
    if resolved(path) in readers:
        circle = [*readers[readers.index(resolved(path)) :], path]
        raise ConfigError(f"{path}: extends itself: {' → '.join(file.name for file in circle)}")
    given = read_yaml(path, problems)
    if not isinstance(given.value, dict):
        raise ConfigError(
            f"{given.place}: given {show(_plain(given, (), problems))}, allowed: sections such as 'model:', or nothing"
        )
    extends = given.value.pop("extends", None)
    if extends is None:
        return given
    if not isinstance(extends.value, str):
        problems.append(f"{extends.place}: extends: given {show(_plain(extends, (), problems))}, allowed: a path")
        return given
    try:
        inherited = _read(folder_of(path) / _expand_home(extends.value), (*readers, resolved(path)), problems)
    except ConfigError as error:
        raise ConfigError(f"{extends.place}: extends: {error}") from None
    return _merge(inherited, given, (Config,))


def _override(override: str, problems: list[str]) -> Given:
    """`section.key=value` as nested mappings. Raises ConfigError if it cannot be read."""
    place = f"override {override!r}"
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys) or not dotted.isprintable():
        raise ConfigError(f"{place}: write section.key=value")
    if not text.strip():  # as from an empty variable of the shell
        raise ConfigError(f"{place}: no value; for none, write {dotted}=null")
    if keys == ["extends"]:
        raise ConfigError(f"{place}: extends is for config files; name another one with --config")
    above: list[type[Section]] = []
    sections: list[type[Section]] = [Config]
    for depth, key in enumerate(keys[:-1]):
        if key.isdecimal() and items_below(keys[depth - 1], above):
            raise ConfigError(f"{place}: a list is given as a whole: {'.'.join(keys[:depth])}=[…]")
        if not fields_named(key, sections):
            break  # an unknown key, which the check will name
        above, sections = sections, sections_below(key, sections)
        if not sections:
            raise ConfigError(f"{place}: {'.'.join(keys[: depth + 1])} is a single value and has no keys")
    given = parse_yaml(text, lambda _: place, Path.cwd(), problems)
    if has_comment(text):
        raise ConfigError(f"{place}: ' #' begins a comment; put text that holds it in quotes, inside the shell's")
    for key in reversed(keys):
        given = Given({key: given}, place, given.folder)
    return given


def _hidden(earlier: Given, later: Given, depth: int) -> Given | None:
    """A single value of earlier overrides that a later one would drop without a word, as `a=1 a.b=2` would drop 1.

    `depth` is how many keys the later one names: at the last of them, it may replace a value, as `a=1 a={b: 2}` does.
    """
    if not isinstance(later.value, dict) or earlier.value is None:
        return None
    if not isinstance(earlier.value, dict):
        return earlier if depth else None
    both = (_hidden(earlier.value[key], later.value[key], depth - 1) for key in earlier.value if key in later.value)
    return next(filter(None, both), None)


def _merge(base: Given, child: Given, sections: Sequence[type[Section]]) -> Given:
    """`child` merged over `base`, key by key.

    `sections` are those that the schema allows here. If `child` chooses one of them by `kind`, keys of `base` that only
    others have are dropped. A corpus of another text replaces that of `base`: weight and vocabulary belong to the text.
    Where `base` has a single value in place of a section, that value stays, whatever `child` has there: the check is to
    report it.
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
            merged[key] = _merge(merged[key], value, sections_below(key, sections))
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


def _plain(given: Given, sections: Sequence[type[Section]], problems: list[str], at: KeyPath = ()) -> Any:
    """The values alone, with paths made absolute and the default `kind` filled in where a section leaves it out.

    `at` is where in the config they are. What is wrong with a path of a file or folder is added to `problems`.
    """
    if isinstance(given.value, list):
        return [_plain(item, sections, problems, (*at, number)) for number, item in enumerate(given.value)]
    if not isinstance(given.value, dict):
        return given.value
    values: dict[str, Any] = {}
    for key, child in given.value.items():
        below = items_below if isinstance(child.value, list) else sections_below
        values[key] = _plain(child, below(key, sections), problems, (*at, key))
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
    whole = folder / _expand_home(path)
    # A symbolic link keeps its own name, because that may say how the file is compressed (.gz), while the name of the
    # file that it points to may be a mere digest.
    return resolved(whole) if whole.name in ("", "..") else resolved(whole.parent) / whole.name


def _expand_home(path: str) -> Path:
    if re.search(r"(^|/)(\$\w+|\$\{\w+\})(/|$)", path):
        raise ConfigError(f"{path}: variables of the environment are not expanded; ~/ is your home folder")
    try:
        return Path(path).expanduser() if path.startswith("~/") else Path(path)
    except RuntimeError as error:  # as in a container, for a user that the system does not know
        raise ConfigError(f"{path}: the home folder is not known; set HOME, or write the whole path") from error


def _complete(config: Config, name: str) -> Config:
    """The config with `best` filled in, and with paths in the project where the default is null or relative."""
    root = project_root()
    data = config.data.model_copy(
        update={"root": root / config.data.root, "cache": config.data.cache or checkpoints() / ".cache"}
    )
    best = config.training.best or ("accuracy" if data.kind == "labelled" else "bleu")
    training = config.training.model_copy(update={"best": best})
    return config.model_copy(
        update={"output": config.output or checkpoints() / name, "data": data, "training": training}
    )


def _place(given: Given, path: KeyPath) -> str | None:
    """Where the value at `path` was written; None if it was not."""
    for key in path:
        in_list = isinstance(given.value, list) and isinstance(key, int)
        if not (in_list or (isinstance(given.value, dict) and key in given.value)):
            return None
        given = given.value[key]
    return given.place


def _report(problems: list[str], where: str) -> str:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    of_others = sum("unknown key" in problem for problem in problems) >= MANY
    hint = "; docs/migrating.md says what is called otherwise in fairseq and JoeyNMT" if of_others else ""
    more = [f"… and {len(problems) - LISTED} more"] if len(problems) > LISTED else []
    return "\n  ".join([f"{count} in {where}{hint}:", *problems[:LISTED], *more])


def _shown(values: dict[str, Any], key: str) -> str:
    return show(values[key]) if key in values else "absent"
