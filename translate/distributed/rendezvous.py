"""How the processes of a run find each other: through a store of torch.distributed, which the first of them runs.

torchrun, or another launcher, says in environment variables where it is; processes that `processes: N` starts get the
same variables from the first.
"""

import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import wait
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import rendezvous

from translate.errors import ConfigError, first_line
from translate.system.interrupt import in_thread

CONNECTING = timedelta(seconds=30)  # timeout of the first process for connecting to the store that it runs itself
JOINING = timedelta(minutes=5)  # timeout for others that have found this store to join the group; PyTorch's default
SILENT = 5.0  # seconds of waiting for the others before the log says so
LOOPBACK = "127.0.0.1"
PRESENT = "translate/present"  # key in the store: how many processes have connected to it

T = TypeVar("T")
log = logging.getLogger("translate")


def follow_environment() -> tuple[Any, int, int]:
    """Go where environment variables send this process: the store, this process's rank, and how many there are.

    Raises:
        ConfigError: one of these variables is missing or out of range, or is not a number where it should be, or the
            processes cannot connect there.
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

    store = connected(connect, f"waiting for the other processes of this run, {count} in all, at {host}:{port}")
    return store, rank, count


class Rendezvous:
    """The store through which the processes of this machine find each other, run by the first of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.store = connected(store_of_this_machine, "waiting for a connection of this machine to itself")
        self.store.set_timeout(JOINING)

    def environment(self, rank: int) -> dict[str, str]:
        """The environment variables with which the process of this rank connects to the store."""
        counts = {"WORLD_SIZE": self.count, "LOCAL_WORLD_SIZE": self.count}
        numbers = counts | {"RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": self.store.port}
        return {"MASTER_ADDR": LOOPBACK, **gloo_on_loopback()} | {name: str(number) for name, number in numbers.items()}

    def present(self) -> int:
        """How many of the other processes have connected to the store."""
        return int(self.store.add(PRESENT, 0))


def store_of_this_machine() -> Any:
    """A store that other machines cannot reach: it asks nobody for a password. (PyTorch's own would listen to all.)"""
    listening = socket.create_server((LOOPBACK, 0))
    port = listening.getsockname()[1]
    return TCPStore(
        LOOPBACK,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=CONNECTING,
        master_listen_fd=listening.detach(),  # The store closes it.
        use_libuv=False,  # Those that use libuv take no such socket in older versions of PyTorch.
    )


def gloo_on_loopback() -> dict[str, str]:
    """The environment variable that keeps gloo from listening to other machines, where the interface is known.

    Otherwise it listens at the address of this machine's name, and processes unpickle what they are sent there.
    """
    names = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"}
    return {"GLOO_SOCKET_IFNAME": names.pop()} if names else {}


def connected(connect: Callable[[], T], waiting: str) -> T:
    """What `connect` returns, once it reaches other processes; the log says that it is `waiting` if that takes long.

    It runs in a thread, because signals do not interrupt PyTorch's functions that connect.

    Raises:
        ConfigError: they cannot be reached.
    """
    outcome = in_thread(connect)
    try:
        if not wait([outcome], SILENT).done:
            log.info("%s", waiting)
        return outcome.result()
    except (dist.DistError, RuntimeError, ValueError, OSError) as error:
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
