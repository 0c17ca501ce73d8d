"""Writes files of tensors in the background: copies the tensors at once, and writes the copies in a thread."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for

import torch
from torch import Tensor

from translate.system.threads import worker_threads


class Writer:
    """Writes files one after the other, in the order of the requests; after a failure, it writes no more.

    The order matters: a training state says which model is the best, so it must not exist before that model. The
    buffers of the copies are reused for the next file of the same kind, because filling newly allocated memory takes
    ten times as long. So the buffers of all kinds are in memory until the end of the run.
    """

    def __init__(self) -> None:
        # Operations of one thread: with a second team of OpenMP's threads there would be more threads than cores, and
        # then all of them sleep between two operations, in training, too.
        self._thread = worker_threads(1, threads=1, name="writer")
        self._copies: dict[str, dict[str, Tensor]] = {}
        self._last: Future[None] | None = None
        self._last_of: dict[str, Future[None]] = {}

    def submit(
        self, kind: str, tensors: Mapping[str, Tensor], write: Callable[[Mapping[str, Tensor]], None]
    ) -> Future[None]:
        """Copy `tensors` to the CPU now, and call `write` with the copies in the thread; the future is that call.

        First waits until the previous file of this kind, which shares its buffers, is written.

        Raises:
            CheckpointError: an earlier file could not be written.
        """
        self.check()
        if kind in self._last_of:
            self._last_of[kind].result()
        copies = self._memory_for(kind, tensors)
        for name, tensor in tensors.items():
            copies[name].copy_(tensor.detach())
        return self._enqueue(kind, lambda: write(copies))

    def reserve(self, kind: str, tensors: Mapping[str, Tensor]) -> None:
        """Let the thread allocate and fill buffers for such tensors, so that even the first copy is quick.

        It does so after it has written the previous file of this kind, which may be in the same buffers.
        """
        copies = self._memory_for(kind, tensors)

        def touch() -> None:
            for copy in copies.values():
                copy.zero_()

        self._enqueue(kind, touch)

    def is_free(self, kind: str, seconds: float) -> bool:
        """Whether `submit` would not wait for the previous file of this kind; known after at most so many seconds."""
        return kind not in self._last_of or bool(wait_for([self._last_of[kind]], seconds).done)

    def check(self) -> None:
        """CheckpointError if a file could not be written."""
        if self._last is not None and self._last.done():
            self._last.result()

    def wait(self) -> None:
        """Wait until everything is written. CheckpointError if that failed."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """End the thread once it is done, successfully or not."""
        self._thread.shutdown()

    def _memory_for(self, kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        known = self._copies.get(kind, {})
        self._copies[kind] = {
            name: known[name]
            if name in known and (known[name].shape, known[name].dtype) == (tensor.shape, tensor.dtype)
            else torch.empty(tensor.shape, dtype=tensor.dtype)
            for name, tensor in tensors.items()
        }
        return self._copies[kind]

    def _enqueue(self, kind: str, work: Callable[[], None]) -> Future[None]:
        before = self._last

        def in_turn() -> None:
            if before is not None:
                before.result()  # Already done: raises its error, if it had one.
            work()

        self._last = self._last_of[kind] = self._thread.submit(in_turn)
        return self._last
