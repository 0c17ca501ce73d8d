"""A tiny corpus, Spanish to Italian word by word, with its config; and how a command ended that was called on it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SETTINGS = """\
output: run
device: cpu
processes: 1
data: {root: corpus, cache: cache, source: es, target: it}
model: {d_model: 32, ffn: 64, heads: 2, encoder_layers: 1, decoder_layers: 1}
training:
  max_epochs: 12
  batch: {max_tokens: 100}
  optimizer: {kind: adamw, lr: 1e-2}
  schedule: {kind: constant}
  precision: float32
  samples: 1
decoding: {max_ratio: 0.2, max_extra: 6, beam_size: 3}
"""
LINES = ["el gato come", "el perro", "niño", "el niño ve el gato verde", "también"]
WORDS = {
    "el": "il",
    "gato": "gatto",
    "niño": "bambino",
    "perro": "cane",
    "ve": "vede",
    "come": "mangia",
    "verde": "verde",
    "también": "anche",
}


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


@dataclass(frozen=True)
class Project:
    """A folder with a config, a corpus, its cache, and a finished run."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "tiny.yaml"

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    @property
    def model(self) -> Path:
        return self.folder / "run" / "model.safetensors"


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(joined(lines).encode())
    return path


def joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def write_project(folder: Path) -> Project:
    rng = random.Random(1)
    (folder / "tiny.yaml").write_text(SETTINGS, encoding="utf-8")
    for split, count in (("train", 200), ("val", 20), ("test", 20)):
        sources = [rng.choices(list(WORDS), k=rng.randint(1, 7)) for _ in range(count)]
        write_lines(folder / f"corpus/{split}.es", [" ".join(words) for words in sources])
        write_lines(folder / f"corpus/{split}.it", [" ".join(WORDS[word] for word in words) for words in sources])
    return Project(folder)
