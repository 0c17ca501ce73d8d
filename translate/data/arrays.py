"""Flat arrays in .npy files: written piece by piece, checked by a digest, and memory-mapped."""

import hashlib
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

BLOCK = 1 << 20  # bytes


class ArrayWriter:
    """Writes an array whose length is not known beforehand: values are appended, and `finish` completes the header."""

    def __init__(self, file: BinaryIO, dtype: DTypeLike) -> None:
        self.length = 0
        self._file = file
        self._dtype = np.dtype(dtype)
        self._sha256 = hashlib.sha256()
        self._start = self._write_header()

    def append(self, values: NDArray[Any]) -> None:
        """Write these values after those before."""
        data = np.ascontiguousarray(values, self._dtype)
        self._file.write(data.data)
        self._sha256.update(data.data)
        self.length += len(data)

    def finish(self) -> str:
        """Complete the file and return its digest."""
        self._file.seek(0)
        start = self._write_header()
        assert start == self._start, "NumPy leaves room for a length of any number of digits"
        return _complete_digest(self._sha256, self._dtype, self.length)

    def _write_header(self) -> int:
        header = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.length,),
        }
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell()


def map_array(path: Path, digest: str) -> NDArray[Any]:
    """The array in a file, memory-mapped.

    Raises:
        OSError, ValueError: the file cannot be read, is not an array, or does not have this digest.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # np.load takes other kinds of files, too.
    except (SyntaxError, TokenError, OverflowError) as error:  # NumPy reads the header of a file as Python.
        raise ValueError(f"the header of {path.name} cannot be read") from error
    if array.ndim != 1:
        raise ValueError(f"{path.name} is not a flat array")
    sha256 = hashlib.sha256()
    with path.open("rb") as file:  # Not by the map, whose pages would stay in this process's memory.
        file.seek(array.offset)
        while block := file.read(BLOCK):
            sha256.update(block)
    if _complete_digest(sha256, array.dtype, len(array)) != digest:
        raise ValueError(f"the checksum of {path.name} does not match")
    return array


def _complete_digest(sha256: Any, dtype: np.dtype[Any], length: int) -> str:
    """The digest of an array's values, type and length; `sha256` has seen the values only."""
    sha256.update(f"{dtype.str} {length}".encode())
    return sha256.hexdigest()
