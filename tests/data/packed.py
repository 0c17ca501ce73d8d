"""Writes a file plain or packed, as the ending of its name says."""

import gzip
import sys
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACK = {".gz": gzip.compress, ".zst": zstd.compress}


def write(path: Path, content: str | bytes) -> Path:
    """The path, with this text or these bytes in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode("utf-8") if isinstance(content, str) else content
    path.write_bytes(PACK.get(path.suffix, bytes)(data))
    return path
