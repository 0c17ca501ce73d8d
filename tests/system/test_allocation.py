"""Errors that say that memory has run out, and the heap that threads share; how much is kept is no matter of tests."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from translate.system.allocation import is_out_of_memory


def test_the_error_of_a_cpu_without_memory_is_recognized() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    # That of a GPU which another program fills: not even a context fits.
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously …"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_no_memory_for_machine_code_is_recognized() -> None:
    assert is_out_of_memory(RuntimeError("could not create a primitive"))
    assert not is_out_of_memory(RuntimeError("could not create a primitive descriptor for a matmul primitive"))


def test_out_of_memory_is_recognized_where_recording_went_wrong_by_it() -> None:
    def record() -> None:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    with pytest.raises(RuntimeError) as caught:
        record()
    assert is_out_of_memory(caught.value)


ROOT = Path(__file__).resolve().parents[2]

# Fills memory in another thread, then lets glibc describe its heaps in a file.
OTHER_THREAD = """
import ctypes, sys, threading, torch
from translate.system.allocation import keep_memory
if "keep" in sys.argv:
    keep_memory()
thread = threading.Thread(target=lambda: torch.ones(2**20))
thread.start()
thread.join()
libc = ctypes.CDLL("libc.so.6")
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not with this C library")
@pytest.mark.parametrize(("keep", "heaps"), [([], 2), (["keep"], 1)])
def test_threads_share_one_heap(tmp_path: Path, keep: list[str], heaps: int) -> None:
    described = tmp_path / "heaps.xml"
    subprocess.run([sys.executable, "-c", OTHER_THREAD, described, *keep], cwd=ROOT, check=True)
    assert described.read_text(encoding="utf-8").count("<heap nr=") == heaps


# Prints how many MiB the process still has of a tensor of 256 MiB that it has freed, and then of the memory returned.
FREED = """
import resource, sys, torch
from translate.system.allocation import keep_memory, release_memory

def resident():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize() / 2**20

if "keep" in sys.argv:
    keep_memory()
torch.ones(1)
before = resident()
tensor = torch.ones(2**26)
del tensor
print(resident() - before)
release_memory()
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not with this C library")
@pytest.mark.parametrize("keep", [[], ["keep"]])
def test_freed_memory_is_kept_until_it_is_released(keep: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", FREED, *keep], cwd=ROOT, check=True, capture_output=True)
    kept, left = map(float, done.stdout.split())
    assert (kept > 200) == bool(keep)
    assert left < 50
