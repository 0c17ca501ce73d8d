"""Several processes that train one model together: how they find each other, and the communication between them.

Each works on its part of every update (see processes.py). This module knows nothing of models.
"""

import gc
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
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
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from translate.errors import ConfigError, DataError, TrainingError, first_line
from translate.system.allocation import explained_lack_of_memory
from translate.training.interrupt import SHUTDOWN, Interrupted, under_torchrun
from translate.training.processes import Processes, number_from, seed_of

# How long a process waits for the others, which may be encoding a corpus or validating. A dead process is noticed at
# once, because its connections close.
TIMEOUT = timedelta(days=1)
CONNECTING = timedelta(seconds=30)  # timeout of the first process for connecting to the store that it runs itself
MEETING = timedelta(minutes=5)  # timeout for others that have found this store to join the group; PyTorch's default
LONG = 5.0  # seconds of waiting for the others before the log says so
LAST_QUESTION = 2.0  # seconds for the others to ask whether a failure has been reported, before their store ends
HERE = "127.0.0.1"
PRESENT = "translate/present"  # key in the store: how many processes have connected to it
TOLD = "translate/told"  # key in the store: how many processes have asked whether they should report a failure

T = TypeVar("T")
log = logging.getLogger("translate")


class Group(Processes):
    """One of several processes, which find each other through a `store` of torch.distributed.

    Raises:
        TrainingError: on leaving its `with` statement, in place of PyTorch's error when another process has ended.
            From then on, SIGTERM is ignored under torchrun, which kills processes that do not end.
    """

    def __init__(self, store: Any, rank: int, count: int, *, outlived: bool = False) -> None:
        """`outlived`: whether the store ends with this process, while others may still ask it."""
        self._store, self.rank, self.count, self._outlived = store, rank, count, outlived
        self.local_count = number_in_environment("LOCAL_WORLD_SIZE", count)
        self._last_word, self.failed = rank == 0, False
        self._at_the_end: list[Callable[[], object]] = []
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        _met(
            lambda: dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=TIMEOUT),
            "waiting for the other processes of this run",
        )
        if rank > 0:
            log.setLevel(logging.ERROR)

    @classmethod
    def of_environment(cls) -> "Group":
        """The process that torchrun, or another launcher, describes in environment variables.

        Raises:
            ConfigError: one of these variables is missing or out of range, or is not a number where it should be, or
                the processes cannot meet there.
        """
        missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
        if missing:
            raise ConfigError(
                f"the environment sets WORLD_SIZE, as for several processes, but not {' and '.join(missing)}; "
                "start the processes with torchrun, or unset WORLD_SIZE"
            )
        rank, count, port = map(number_in_environment, ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        if not 0 <= rank < count:
            raise ConfigError(
                f"the environment sets RANK={rank} and WORLD_SIZE={count}: RANK must be at least 0 and below "
                "WORLD_SIZE; start the processes with torchrun"
            )
        if not 1 <= number_in_environment("LOCAL_WORLD_SIZE", count) <= count:
            raise ConfigError(
                f"the environment sets LOCAL_WORLD_SIZE={os.environ['LOCAL_WORLD_SIZE']} and WORLD_SIZE={count}: the "
                "former must be at least 1 and at most the latter; start the processes with torchrun"
            )
        host = os.environ["MASTER_ADDR"]
        if not 0 < port < 2**16:
            raise ConfigError(f"the environment sets MASTER_PORT={port}: it must be at least 1 and below {2**16}")
        try:
            socket.getaddrinfo(host, port)  # PyTorch would look for it for half an hour.
        except (OSError, UnicodeError) as error:
            raise ConfigError(
                f"the environment sets MASTER_ADDR={host!r}, which this machine cannot find ({error}); it must be the "
                "name or address of the machine with RANK=0"
            ) from None

        def connect() -> Any:
            store, *_ = next(rendezvous("env://"))
            store.add(PRESENT, 1)
            return store

        store = _met(connect, f"waiting for the other processes of this run, {count} in all, at {host}:{port}")
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
        except RuntimeError:  # The store has died with the process that ran it.
            self._last_word = True
        return self._last_word

    def await_last_message(self) -> None:
        """Wait until a failure has been reported: torchrun kills all processes as soon as one exits with an error."""
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


class MeetingPlace:
    """The store through which the processes of this machine find each other, run by the first of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._store = _met(
            lambda: TCPStore(HERE, 0, is_master=True, wait_for_workers=False, timeout=CONNECTING),
            "waiting for a connection of this machine to itself",
        )
        self._store.set_timeout(MEETING)

    def directions(self, rank: int) -> dict[str, str]:
        """The environment variables with which the process of this rank connects to the store."""
        counts = {"WORLD_SIZE": self.count, "LOCAL_WORLD_SIZE": self.count}
        numbers = counts | {"RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": self._store.port}
        return {"MASTER_ADDR": HERE} | {name: str(number) for name, number in numbers.items()}

    def present(self) -> int:
        """How many of the other processes have connected to the store."""
        return int(self._store.add(PRESENT, 0))

    def group(self) -> Group:
        """The group, with this process as rank 0; waits until the others have joined."""
        return Group(self._store, 0, self.count)


def has_ended(detail: str = "") -> str:
    """What to say if another process has ended without which this one cannot continue."""
    return (
        f"another process of this run has ended, and this one cannot continue without it{detail}; "
        "see its error message, or torchrun's report. Without either, it was killed, for example because "
        "memory ran out. Continue with the same command and --resume-or-start"
    )


def _met(meet: Callable[[], T], waiting: str) -> T:
    """What `meet` returns once it has connected to other processes; the log says that it is `waiting` if that is long.

    It runs in a thread, because signals do not interrupt PyTorch's functions that connect.

    Raises:
        ConfigError: they cannot be reached.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(meet())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        if not wait([outcome], LONG).done:
            log.info("%s", waiting)
        return outcome.result()
    except (dist.DistError, RuntimeError, ValueError) as error:
        alone = "without WORLD_SIZE in the environment" if "WORLD_SIZE" in os.environ else "processes=1"
        raise ConfigError(
            f"the processes of this run cannot connect: {first_line(error)}; check the network settings in "
            f"the environment (MASTER_ADDR, MASTER_PORT, GLOO_SOCKET_IFNAME), or train in one process: {alone}"
        ) from error


def number_in_environment(name: str, default: int | None = None) -> int:
    """The whole number in an environment variable, or `default`. ConfigError if it is not a number."""
    if default is not None and name not in os.environ:
        return default
    try:
        return int(os.environ[name])
    except ValueError:
        raise ConfigError(
            f"the environment sets {name}={os.environ[name]!r}, which is not a number; "
            f"start the processes with torchrun, or unset {name}"
        ) from None
