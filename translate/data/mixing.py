"""Many files as one corpus, and several corpora as one text to train on."""

import re
from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path

from translate.data.corpus import TextPair, TextPart, open_pair
from translate.data.digest import abridged, text_sha256
from translate.data.lines import JoinedText
from translate.errors import DataError
from translate.system.paths import exists


def open_files(source: Path, target: Path) -> TextPair:
    """Two files or, if their names contain `*` or `?`, all files that match, in alphabetical order.

    Files go together if the wildcards stand for the same text: `a.de` with `a.en` for `*.de` and `*.en`.

    Raises:
        DataError: both are the same file, no file matches, one has no partner, or the wildcards differ; see open_pair
            for the rest.
    """
    if source == target:
        raise DataError(
            f"{source} is given as source and as target. Name two files; to turn table columns into files: "
            "cut -f1 TABLE > FILE"
        )
    sources, targets = matching_files(source), matching_files(target)
    if {len(key) for key in sources} != {len(key) for key in targets}:
        raise DataError(
            f"{source} and {target} do not have the same wildcards. Use the same number of * and ? in both."
        )
    for files, others, pattern in ((sources, targets, target), (targets, sources, source)):
        for key, path in files.items():
            if key not in others:
                raise DataError(
                    f"{path} has no counterpart: no file matches {pattern} with {', '.join(map(repr, key))}."
                )
    texts = [open_pair(path, targets[key]) for key, path in sources.items()]
    if len(texts) == 1:
        return texts[0]
    name = f"{source.name} / {target.name}"
    return replace(_joined(name, texts, f"{len(texts)} pairs of files"), parts=tuple(map(part_of, texts)))


def matching_files(pattern: Path) -> dict[tuple[str, ...], Path]:
    """The files that match a pattern, by the text that each wildcard matched; by () for a path without wildcards.

    DataError if no file matches; a path without wildcards need not exist.
    """
    text = str(pattern)
    if not re.search(r"[*?]", text) or exists(pattern):
        return {(): pattern}
    wild = {"*": "(.*)", "?": "(.)"}
    fits = re.compile("".join(wild.get(character, re.escape(character)) for character in text), re.DOTALL)
    paths = glob(text.replace("[", "[[]"))  # noqa: PTH207 - that of Path also finds hidden files
    found = [match for path in paths if (match := fits.fullmatch(path))]
    if not found:
        raise DataError(
            f"No file matches {pattern}. Check the path, which starts from the folder of the config (in an override, "
            "from the working directory), and that its folder is readable. Only * and ? are wildcards."
        )
    return {match.groups(): Path(match.string) for match in sorted(found, key=lambda match: match.string)}


def join_corpora(texts: Sequence[TextPair], weights: Sequence[int], vocabulary: Sequence[bool]) -> TextPair:
    """The texts one after the other, with `weights`: how many times an epoch has the pairs of each.

    `vocabulary` says for each text whether vocabularies are learned from it; for none, if they come from another model.
    """
    parts = tuple(
        replace(part, weight=weight)
        for text, weight in zip(texts, weights, strict=True)
        for part in text.parts or (part_of(text),)
    )
    learned = [text for text, counts in zip(texts, vocabulary, strict=True) if counts]
    wanted = None if len(learned) == len(texts) else _corpora(learned)
    return replace(_corpora(texts), parts=parts, corpora=tuple(texts), vocabulary=wanted)


def part_of(text: TextPair) -> TextPart:
    """A text as a part of a larger one."""
    return TextPart(text.name, len(text.source), 1, text.variant)


def _corpora(texts: Sequence[TextPair]) -> TextPair:
    if len(texts) == 1:
        return texts[0]
    return _joined(" + ".join(text.name for text in texts), texts, f"{len(texts)} corpora")


def _joined(name: str, texts: Sequence[TextPair], what: str) -> TextPair:
    source, target = JoinedText(tuple(text.source for text in texts)), JoinedText(tuple(text.target for text in texts))
    hashes = text_sha256([text.source_sha256 for text in texts]), text_sha256([text.target_sha256 for text in texts])
    return TextPair(name, source, target, *hashes, f"{what}, {abridged(*hashes)}")
