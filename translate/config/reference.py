"""The page docs/configuration.md: a few words on how configs work, and every key of the schema in tables."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from translate.config.keys import all_sections, allowed, kind_of, show
from translate.config.section import Section

_HEAD = """\
# Configuration

<!-- Made by `python -m translate.config.reference > docs/configuration.md` from translate/config/. -->

A run is described by one YAML file. Every key has a default, so a file holds only what differs; an empty one is a
complete config. Unknown keys, wrong types and contradictions are refused before anything else happens, all of them at
once, each with its file and line.

```yaml
extends: multi30k.yaml      # start from another config; its path is relative to this file's folder
model:
  d_model: 512
  heads: 8
training:
  optimizer: {kind: adam, lr: 3e-4}
```

**Extending.** The file that extends wins, key by key; the file it extends can extend another. Where it chooses another
`kind` (of optimizer, say), the inherited settings that only the old kind has are dropped. Those that both have are
kept: give a new optimizer its own `lr`. A training corpus that names its text, by `split` or by `source` and `target`,
replaces the inherited one as a whole.

**Overrides.** On the command line, `section.key=value` changes one key for one run: `training.max_epochs=20`,
`training.optimizer={kind: adam, lr: 5e-4}` (in quotes, for the shell), `training.max_steps=null`. They win over the
file, by the same rules. Among each other they are merged key by key: of two for one key, the later one wins, but one
that chooses another `kind` or text drops nothing that an earlier one has set. What then does not go together is
refused.

**Paths.** A relative path in a file starts from the folder of that file, one in an override or in a config that comes
through a pipe or standard input from the working directory, a default from the project's folder. `~/` is your home
folder.

**Values.** Booleans are `true` and `false` only, so the language code `no` is just that. `3e-4` is a number; a whole
number is written plainly (`1000`, not `1e3`, `1_000` or `01000`). A key may stand only once in a section. Tags, anchors
with aliases, and merge keys are not read.

The run's folder keeps the resolved config, every key written out, as a file that can be loaded again.
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_table(title, section) for title, section in _described())])


def _described() -> Iterator[tuple[str, type[Section]]]:
    """Each section once, with its title: the paths where it is allowed, such as `data.train`, `data.valid`, and a kind.

    Two sections without a kind may share a path, such as `data.filter`. The title of the second then names the kind of
    the section that contains it.
    """
    places: dict[type[Section], dict[str, None]] = {}
    for path, section in all_sections():
        places.setdefault(section, {})[path] = None
    titles: set[str] = set()
    # The kind last seen at each path. As the order is depth first, it is that of the section that contains this one.
    kinds: dict[str, str] = {}
    for section, paths in places.items():
        title = ", ".join(f"`{path}`" for path in paths if path) or "Top level"
        if kind := kind_of(section):
            title += f" with `kind: {kind}`"
            kinds |= dict.fromkeys(paths, kind)
        elif title in titles:
            holder = next(iter(paths)).rpartition(".")[0]
            title += f" with `{holder}.kind: {kinds[holder]}`"
        titles.add(title)
        yield title, section


def _table(title: str, section: type[Section]) -> str:
    lines = [
        f"## {title}",
        "",
        inspect.getdoc(section) or "",
        "",
        "| Key | Allowed | Default | Meaning |",
        "|---|---|---|---|",
    ]
    for key, field in section.model_fields.items():
        default = field.default
        if field.is_required():
            shown = "none, must be given"
        elif isinstance(default, Section):
            shown = f"kind {default_kind}" if (default_kind := kind_of(type(default))) else "see below"
        else:
            shown = f"`{default}`" if isinstance(default, (str, Path)) else f"`{show(default)}`"
        what = "a section" if isinstance(default, Section) else allowed([field])
        lines.append(f"| `{key}` | {what} | {shown} | {field.description} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.stdout.buffer.write(reference().encode())  # UTF-8 in any locale
