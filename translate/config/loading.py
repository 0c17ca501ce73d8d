"""Turns a YAML file, the files it extends, and `key=value` overrides into one checked Config.

All problems are reported together, each with its file and line. schema.py, with the files of its sections, defines
what a config may contain.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from translate.config.keys import fields_named, items_below, sections_below, show
from translate.config.merging import contradicted, expand_home, merge, place_of, plain_values
from translate.config.problems import check
from translate.config.schema import Config
from translate.config.section import Section
from translate.config.yaml_source import Given, folder_of, has_comment, parse_yaml, read_yaml, to_yaml
from translate.errors import ConfigError
from translate.system.paths import checkpoints, is_utf8, project_root, resolved

FOREIGN_KEYS = 5  # a config with so many unknown keys seems to be that of another toolkit
MAX_LISTED = 50  # problems; a file that has more is probably no config, and nobody reads them


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
        if earlier := contradicted(overriding, setting, override.partition("=")[0].count(".") + 1):
            problems.append(f"{setting.place}: contradicts {earlier.place}; leave one of them out")
        overriding = merge(overriding, setting, ())
    given = merge(given, overriding, (Config,))

    config, more = check(plain_values(given, (Config,), problems), lambda key_path: place_of(given, key_path))
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
        found = show(plain_values(given, (), problems))
        raise ConfigError(f"{given.place}: given {found}, allowed: sections such as 'model:', or nothing")
    extends = given.value.pop("extends", None)
    if extends is None:
        return given
    if not isinstance(extends.value, str):
        problems.append(f"{extends.place}: extends: given {show(plain_values(extends, (), problems))}, allowed: a path")
        return given
    try:
        inherited = _read(folder_of(path) / expand_home(extends.value), (*readers, resolved(path)), problems)
    except ConfigError as error:
        raise ConfigError(f"{extends.place}: extends: {error}") from None
    return merge(inherited, given, (Config,))


def _override(override: str, problems: list[str]) -> Given:
    """`section.key=value` as nested mappings. Raises ConfigError if it cannot be read."""
    place = f"override {override!r}"
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys) or not dotted.isprintable():
        raise ConfigError(f"{place}: write section.key=value")
    if not text.strip():  # as from an empty variable of the shell
        raise ConfigError(f"{place}: no value; leave it out for the default, or write null if the key may be empty")
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


def _report(problems: list[str], where: str) -> str:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    of_others = sum("unknown key" in problem for problem in problems) >= FOREIGN_KEYS
    hint = "; docs/migrating.md has the names of fairseq and JoeyNMT" if of_others else ""
    more = [f"… and {len(problems) - MAX_LISTED} more"] if len(problems) > MAX_LISTED else []
    return "\n  ".join([f"{count} in {where}{hint}:", *sorted(problems, key=_place)[:MAX_LISTED], *more])


def _place(problem: str) -> tuple[bool, str, int]:
    """Sorts problems by file and line; those that are in no file come last."""
    found = None if problem.startswith("override ") else re.match(r"(.*?):(\d+)[:,] ", problem)
    return (False, found[1], int(found[2])) if found else (True, "", 0)


def _shown(values: dict[str, Any], key: str) -> str:
    return show(values[key]) if key in values else "absent"
