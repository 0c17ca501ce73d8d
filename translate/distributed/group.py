"""Several processes that train one model together: the communication between them.

How they find each other is in rendezvous.py, and which part of an update each works on in processes.py. This module
knows nothing of models.
"""

import gc
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

# Imported before there is a process group. If DDP imported it later, default arguments of its functions would hold the
# group, whose threads would then still run while Python shuts down, and can end the process by SIGABRT.
import torch.distributed.nn.functional
from numpy.typing import NDArray
from torch import Tensor

from translate.distributed.processes import Processes, number_from, seed_of
from translate.distributed.rendezvous import connected, follow_environment, number_in_environment
from translate.errors import ConfigError, DataError, TrainingError, first_line
from translate.system.allocation import explained_lack_of_memory
from translate.system.interrupt import SHUTDOWN, Interrupted, under_torchrun

# How long a process waits for the others, which may be encoding a corpus or validating. A dead process is noticed at
# once, because its connections close.
TIMEOUT = timedelta(days=1)
LAST_QUESTION = 2.0  # seconds for the others to ask whether a failure has been reported, before their store ends
TOLD = "translate/told"  # key in the store: how many processes have asked whether they should report a failure

T = TypeVar("T")
log = logging.getLogger("translate")


class Group(Processes):
    """One of several processes, which find each other through a `store` of torch.distributed.

    Raises:
        ConfigError: the others cannot be reached.
        TrainingError: on leaving its `with` statement, in place of PyTorch's error when another process has ended.
            From then on, SIGTERM is ignored under torchrun, which kills processes that do not end.
    """

    def __init__(self, store: Any, rank: int, count: int, *, outlived: bool = False) -> None:
        """Waits until all have joined.

        `outlived` says that this process runs the store, and may end while others still ask it.
        """
        self.rank, self.count = rank, count
        self._store = store
        self._outlived = outlived
        self.local_count = number_in_environment("LOCAL_WORLD_SIZE", count)
        self._last_word = rank == 0  # whether this process says when all may end
        self.failed = False
        self._at_the_end: list[Callable[[], object]] = []
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        connected(
            lambda: dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=TIMEOUT),
            "waiting for the other processes of this run",
        )
        if rank > 0:
            log.setLevel(logging.ERROR)

    @classmethod
    def of_environment(cls) -> "Group":
        """The process that torchrun, or another launcher, describes in environment variables.

        Raises:
            ConfigError: as `follow_environment`.
        """
        store, rank, count = follow_environment()
        return cls(store, rank, count, outlived=rank == 0 and not under_torchrun())

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        by_gloo = "gloo" in str(error).lower()  # Its errors are plain RuntimeErrors.
        if isinstance(error, RuntimeError) and (by_gloo or isinstance(error, dist.DistError)):
            if under_torchrun():  # It now asks all others to end, perhaps before this one has said why it ends.
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            # NCCL may have failed for another reason, so quote it.
            detail = "" if by_gloo else f" ({first_line(error)})"
            raise TrainingError(has_ended(detail)) from error

    def gather(self, *numbers: float) -> NDArray[np.float64]:
        return np.stack([row.numpy() for row in self.gather_tensors(torch.tensor(numbers, dtype=torch.float64))])

    def gather_tensors(self, tensor: Tensor) -> list[Tensor]:
        tensors = [torch.empty_like(tensor) for _ in range(self.count)]
        dist.all_gather(tensors, tensor)
        return tensors

    def on_first(self, work: Callable[[], T]) -> T:
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = work()
            except (Interrupted, DataError) as error:
                outcome[1] = error
        dist.broadcast_object_list(outcome, device=torch.device("cpu"))
        found, failure = outcome
        if failure is not None:
            raise failure
        return found

    @contextmanager
    def first_ahead(self) -> Iterator[None]:
        if self.rank > 0:
            self.gather(0)
        yield
        if self.rank == 0:
            self.gather(0)

    def own_device(self, device: torch.device) -> torch.device:
        identifier = f"CPU {self.rank}"
        if device.type == "cuda":
            # Some launchers show each process no other device than its own, or do not set LOCAL_RANK.
            number = number_in_environment("LOCAL_RANK", self.rank) % torch.cuda.device_count()
            device = torch.device("cuda", number)
            with explained_lack_of_memory(lambda: f"on CUDA device {number}; does another program use it?"):
                torch.cuda.set_device(number)
            identifier = str(getattr(torch.cuda.get_device_properties(number), "uuid", self.rank))
        on_gpu, identifiers = self.gather(device.type == "cuda", number_from(identifier.encode())).T
        if len(np.unique(on_gpu)) > 1:
            raise ConfigError(
                "some processes of this run find a CUDA device, and others do not; use device=cpu for all"
            )
        if len(np.unique(identifiers)) < self.count:
            raise ConfigError(
                f"more processes than CUDA devices: this machine has {torch.cuda.device_count()}; "
                "lower processes or torchrun's --nproc-per-node, or use device=cpu"
            )
        return device

    def at_the_end(self, work: Callable[[], object]) -> None:
        self._at_the_end.append(work)

    def seed_each_process(self, seed: int) -> None:
        if self.rank > 0:
            torch.manual_seed(seed_of(seed, 0, self.rank))

    def is_first_to_report(self, message: str) -> bool:
        """Whether this process should report what ended the run: the first that asks. torchrun repeats `message`."""
        if file := os.environ.get("TORCHELASTIC_ERROR_FILE"):
            content = {"message": message, "extraInfo": {"py_callstack": message, "timestamp": str(int(time.time()))}}
            with suppress(OSError):  # The disk may be full.
                Path(file).write_text(json.dumps({"message": content}), encoding="utf-8")
        self.failed = True
        try:
            self._last_word = self._store.add(TOLD, 1) == 1
        except RuntimeError:  # The store has died with the process that ran it. One on each machine says so.
            self._last_word = self.rank == 1 or os.environ.get("LOCAL_RANK", "0") == "0"
        return self._last_word

    def await_last_message(self) -> None:
        """Wait until a failure has been reported: torchrun kills all processes as soon as one exits with an error."""
        if self.failed and self._outlived and dist.is_initialized():
            # The others may be waiting for this process: once it is gone, they ask whether to report that. In a thread,
            # because it may wait in turn.
            threading.Thread(target=dist.destroy_process_group, daemon=True).start()
        with suppress(RuntimeError):
            if self._last_word:
                self._store.set("translate/end", "")
            else:
                self._store.wait(["translate/end"], SHUTDOWN)
            end = time.monotonic() + LAST_QUESTION
            while self.failed and self._outlived and self._store.add(TOLD, 0) < self.count and time.monotonic() < end:
                time.sleep(0.01)
        if not self.failed:  # After a failure this could wait for the others forever.
            self.close_connections()

    def close_connections(self) -> None:
        """Close the connections to the others, if they are open."""
        if dist.is_initialized():
            dist.destroy_process_group()
            for work in self._at_the_end:
                work()
            gc.collect()  # FSDP's modules also hold the group, in reference cycles.


def has_ended(detail: str = "") -> str:
    """What to say if another process has ended without which this one cannot continue."""
    return (
        f"another process of this run has ended, and this one cannot continue without it{detail}; "
        "see its error message, or torchrun's report. Without either, it was killed, for example because "
        "memory ran out. Continue with the same command and --resume-or-start (not --overwrite)"
    )
