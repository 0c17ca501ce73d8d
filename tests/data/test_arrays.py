"""Arrays in files that grow."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from translate.data.arrays import ArrayWriter, map_array


def write(path: Path, pieces: list[Any], dtype: Any) -> str:
    with path.open("wb") as file:
        writer = ArrayWriter(file, dtype)
        for piece in pieces:
            writer.append(np.array(piece))
        assert writer.length == sum(map(len, pieces))
        return writer.finish()


@given(st.lists(st.lists(st.integers(0, 2**16 - 1))), st.sampled_from([np.uint16, np.int32, np.int64]))
def test_what_is_written_piece_by_piece_is_one_array(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[int]], dtype: Any
) -> None:
    path = tmp_path_factory.mktemp("array") / "array.npy"
    digest = write(path, pieces, dtype)
    array = map_array(path, digest)
    assert isinstance(array, np.memmap)
    assert array.dtype == dtype
    assert array.tolist() == [value for piece in pieces for value in piece]
    assert np.load(path).tolist() == array.tolist()


def test_the_digest_is_of_values_type_and_length(tmp_path: Path) -> None:
    digests = [
        write(tmp_path / "array.npy", pieces, dtype)
        for pieces, dtype in (
            ([[1, 2], [3]], np.uint16),
            ([[1], [2, 3]], np.uint16),
            ([[1, 2, 4]], np.uint16),
            ([[1, 2, 3, 0]], np.uint16),
            ([[1, 2, 3]], np.int16),  # the same bytes
            ([[1 + (2 << 16), 3]], np.int32),  # the same bytes, unless this machine is big-endian
        )
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 5


def test_the_length_takes_no_room_of_the_values(tmp_path: Path) -> None:
    write(tmp_path / "short.npy", [], np.uint16)
    write(tmp_path / "long.npy", [np.zeros(10**6)], np.uint16)
    assert (tmp_path / "long.npy").stat().st_size - (tmp_path / "short.npy").stat().st_size == 2 * 10**6


def test_another_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    digest = write(path, [[1, 2, 3]], np.uint16)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ValueError, match=r"the checksum of array\.npy does not match"):
        map_array(path, digest)
    np.save(path, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"array\.npy is not a flat array"):
        map_array(path, digest)


TOO_LONG = f"{{'descr': '<u2', 'fortran_order': False, 'shape': ({'9' * 25},)}}".ljust(117) + "\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "EOF"),
        (b"PK\x03\x04 begins a zip archive", "the magic string is not correct"),
        (b"\x93NUMPY\x01\0\x76\0" + TOO_LONG.encode(), r"the header of array\.npy cannot be read"),
    ],
    ids=["empty", "zip", "too long"],
)
def test_a_file_that_is_no_array_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        map_array(path, "")
