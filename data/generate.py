"""Writes the demo corpus next to this file: German and English captions from a small grammar, always the same bytes.

`python data/generate.py` rewrites train, val and test, and in languages/ some of their lines, labelled by language;
`--check` compares what is on disk and exits 1 if it differs.
It needs only the standard library and knows nothing about the package.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from pathlib import Path

from captions import KEPT_OUT, Author
from grammar import Pair

SIZES = {"train": 8000, "val": 500, "test": 500}
LABELLED = {"train": 2000, "val": 300, "test": 300}  # how many of these lines go into languages/
SEED = 2016
MIN_COUNT = 5  # a word of val or test occurs at least this often in train

# In no split, but with every word in train: what `make demo` translates at the end.
SHOWCASE = Pair(
    "Im Winter zieht ein kleines Mädchen einen roten Mantel an, weil es auf den Schulbus wartet.",
    "In winter, a little girl is putting on a red coat because she is waiting for the school bus.",
)


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def draw() -> dict[str, list[Pair]]:
    """All splits: no sentence twice in either language, and a kept-out pair of words in every line of val and test."""
    author = Author(SEED)
    seen = set(SHOWCASE)
    train: list[Pair] = []
    held: list[Pair] = []
    while len(train) < SIZES["train"]:
        pair = author.caption()
        if not seen.isdisjoint(pair):
            continue
        seen.update(pair)
        (held if author.pairs & KEPT_OUT else train).append(pair)
    counts = [Counter(word for pair in train for word in words(pair[side])) for side in (0, 1)]
    known = [
        pair for pair in held if all(counts[side][word] >= MIN_COUNT for side in (0, 1) for word in words(pair[side]))
    ]
    val_end = SIZES["val"] + SIZES["test"]
    return {"train": train, "test": known[: SIZES["test"]], "val": known[SIZES["test"] : val_end]}


def files() -> dict[str, str]:
    """The text of each file by its name."""
    splits = draw()
    parallel = {
        f"{split}.{language}": "".join(f"{getattr(pair, language)}\n" for pair in pairs)
        for split, pairs in splits.items()
        for language in Pair._fields
    }
    rng = random.Random(SEED)
    labelled = {
        f"languages/{split}.tsv": "".join(label(pair, rng.choice(Pair._fields)) for pair in splits[split][:count])
        for split, count in LABELLED.items()
    }
    return parallel | labelled


def label(pair: Pair, language: str) -> str:
    """One side of a pair after its language: only one, so that no line is the translation of another."""
    return f"{language}\t{getattr(pair, language)}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the demo corpus next to this script.")
    parser.add_argument("--check", action="store_true", help="compare with the files on disk instead of writing them")
    check = parser.parse_args().check
    folder = Path(__file__).parent
    differing = []
    for name, text in files().items():
        path = folder / name
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text.encode())
        elif not path.is_file() or path.read_bytes() != text.encode():
            differing.append(name)
    if differing:
        print(f"data/: {', '.join(differing)} not as generated; run python data/generate.py", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
