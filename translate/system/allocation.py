"""The memory of tensors: kept for reuse, returned to the operating system, and errors explained when it runs out."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from translate.errors import TrainingError

# From glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8

# Texts of PyTorch's errors that are plain RuntimeErrors: from its allocator on CPUs, and from CUDA's libraries.
OUT_OF_MEMORY = ("DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory")

# The whole text of oneDNN's error where it has no memory for the machine code of an operation, as under `ulimit -v`.
# Where it lacks an operation, it names that.
NO_MEMORY_FOR_CODE = "could not create a primitive"


def keep_memory(*, one_heap: bool = True) -> None:
    """Let glibc keep the memory of freed tensors for new ones, until `release_memory`.

    By default glibc returns every large tensor to the operating system, which clears each page before handing it out
    again: a sixth of the CPU time of small models. No effect with other C libraries. Call it before another thread has
    allocated anything.

    Args:
        one_heap: whether all threads share one heap. By default each has its own, whose free memory no other uses, so
            that together they take more. At a shared one, threads that allocate much wait for each other.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TOP_PAD, 2**26)
        if one_heap:
            libc.mallopt(M_ARENA_MAX, 1)


def release_memory() -> None:
    """Return free memory to the operating system.

    Batches of ever new shapes fragment the heap, and glibc keeps all free blocks: without this, a process that works on
    500 MB grows to 2 GB. No effect with other C libraries.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this is what PyTorch or Python raises when there is no memory left.

    While a CUDA graph is recorded, PyTorch reports that recording failed; the lack of memory is the context of that
    error.
    """
    cause = error.__context__
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or any(sign in str(error) for sign in OUT_OF_MEMORY)
        or str(error) == NO_MEMORY_FOR_CODE
        or (cause is not None and is_out_of_memory(cause))
    )


@contextmanager
def explained_lack_of_memory(explanation: Callable[[], str]) -> Iterator[None]:
    """If memory runs out inside, raise TrainingError with this explanation instead of what PyTorch raises."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(f"out of memory {explanation()}") from error
