"""Tensors and plain values in one file that is either complete or absent: safetensors with a digest.

It knows nothing of what the tensors are; only its messages name what users keep in such files. No pickle is ever read.
"""

import errno
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from translate.errors import CheckpointError
from translate.system.files import atomic_file
from translate.system.paths import is_utf8

# safetensors keeps one flat map of strings beside the tensors; we use these two keys.
VALUES = "translate"
DIGEST = "sha256"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
    """Write tensors and values (plain JSON) to `path`, atomically even if the machine stops in the middle.

    Raises:
        CheckpointError: the file cannot be written; an earlier one is left as it was.
    """
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(values, ensure_ascii=False)
    metadata = {VALUES: text, DIGEST: tensors_sha256(stored, text)}
    try:
        with atomic_file(path) as file:
            # Not `save`, which copies everything into one bytes object, and blocks all other threads meanwhile.
            save_file(stored, file, metadata)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"cannot write {path}: its folder does not exist; create it or, if that of a run was moved, continue there "
            "with --resume and output=…"
        ) from error
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CheckpointError(
            f"cannot write {path}: {reason}; free some space, or choose another place (of a run: output=…)"
        ) from error


def tensor_files(folder: Path) -> list[Path]:
    """The files of a folder that hold tensors; none if it is missing. CheckpointError if it cannot be read."""
    try:
        return [path for path in folder.iterdir() if path.suffix == ".safetensors"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"the folder {folder} cannot be read: {error.strerror}") from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote.

    Raises:
        CheckpointError: the file is missing, damaged, or not one of ours.
    """
    written = _modified(path)
    try:
        return _read(path)
    except (CheckpointError, RuntimeError):
        if _modified(path) == written:
            raise
    return read_tensors(path)  # Training has put a newer file in its place.


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        if not path.is_file():
            with suppress(FileNotFoundError, NotADirectoryError):
                path.lstat()  # raises what `is_file` hides since Python 3.14: no access, too long a name
            what = "a folder" if path.is_dir() else "not a regular file" if path.exists() else "missing"
            inside = path / "model.safetensors"  # where a run has its model
            hint = f"did you mean {inside}?" if inside.is_file() else "give a .safetensors file"
            raise CheckpointError(f"{path} is {what}; {hint}")
        if not is_utf8(str(path)):  # safetensors would call the file damaged.
            raise CheckpointError(f"{path}: this path is not UTF-8; rename that file or folder")
        path.open("rb").close()  # Without permission to read a file, safetensors says that it does not exist.
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG):
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
        foreign = "" if path.suffix == ".safetensors" else ". Models of other toolkits cannot be read"
        raise CheckpointError(f"{path} is damaged, or not a safetensors file: {error}{foreign}") from error
    if VALUES not in metadata or DIGEST not in metadata:
        raise CheckpointError(f"{path} is a safetensors file, but was not written by this project")
    try:
        values: dict[str, Any] = json.loads(metadata[VALUES])
    except (ValueError, RecursionError) as error:  # of nesting without an end
        raise CheckpointError(f"{path} is damaged: its metadata cannot be read ({error})") from error
    if tensors_sha256(tensors, metadata[VALUES]) != metadata[DIGEST]:
        raise CheckpointError(f"{path} is damaged, or was changed by another program: its checksum does not match")
    return tensors, values


def _modified(path: Path) -> int | None:
    """When a file was written, in nanoseconds; None if that cannot be seen."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def tensors_sha256(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """The SHA-256 of tensors with their names, and of a text, as hexadecimal digits."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
