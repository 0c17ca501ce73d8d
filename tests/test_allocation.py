"""Errors that say that memory has run out; speed and size of what is kept are no matter of tests."""

import pytest
import torch

from translate.allocation import is_out_of_memory


def test_the_error_of_a_cpu_without_memory_is_recognized() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    # That of a GPU which another program fills: not even a context fits.
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously …"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_out_of_memory_is_recognized_where_recording_went_wrong_by_it() -> None:
    def record() -> None:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(RuntimeError) as caught:
        record()
    assert is_out_of_memory(caught.value)
