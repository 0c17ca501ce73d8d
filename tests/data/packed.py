"""Writes a file plain or packed, as the ending of its name says."""

import gzip
import sys
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GERMAN = ["Ein Hund schläft.", "Zwei Kinder bauen eine hohe Burg aus Sand.", "Regen fällt."]
ENGLISH = ["A dog is asleep.", "Two children are building a tall castle of sand.", "Rain is falling."]
PACK = {".gz": gzip.compress, ".zst": zstd.compress}


def write(path: Path, content: str | bytes) -> Path:
    """The path, with this text or these bytes in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.write_bytes(PACK.get(path.suffix, bytes)(data))
    return path


def write_split(folder: Path, split: str, ending: str = "") -> tuple[Path, Path]:
    """The files of a split with the text above."""
    source = write(folder / f"{split}.de{ending}", "\n".join(GERMAN) + "\n")
    target = write(folder / f"{split}.en{ending}", "\n".join(ENGLISH) + "\n")
    return source, target
