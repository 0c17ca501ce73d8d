"""How processes find each other, and what is said of an environment in which they cannot."""

import re
import socket
import sys
from datetime import timedelta
from unittest.mock import Mock

import pytest
import torch.distributed as dist

from translate.distributed.rendezvous import Rendezvous, connected, follow_environment
from translate.errors import ConfigError


def test_half_an_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(ConfigError) as caught:
        follow_environment()
    assert str(caught.value) == (
        "the environment sets WORLD_SIZE, as for several processes, but not RANK and MASTER_PORT; "
        "start the processes with torchrun, or unset WORLD_SIZE"
    )


@pytest.mark.parametrize(("rank", "count"), [(2, 2), (-1, 2), (0, -2), (0, 0)])
def test_a_rank_that_cannot_be(rank: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(ConfigError, match=f"^the environment sets RANK={rank} and WORLD_SIZE={count}: RANK must"):
        follow_environment()


def test_a_port_in_use_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, str(value))
        with pytest.raises(ConfigError, match=r"cannot connect: .*; check the network.* process: without WORLD_SIZE "):
            follow_environment()


NO_NUMBER = "which is not a number; start the processes with torchrun, or unset"
PROCESSES_HERE = "the former must be at least 1 and at most the latter; start the processes with torchrun"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WORLD_SIZE", "", f"WORLD_SIZE='', {NO_NUMBER} WORLD_SIZE"),
        ("RANK", "x", f"RANK='x', {NO_NUMBER} RANK"),
        ("MASTER_PORT", "y", f"MASTER_PORT='y', {NO_NUMBER} MASTER_PORT"),
        ("LOCAL_WORLD_SIZE", "0", f"LOCAL_WORLD_SIZE=0 and WORLD_SIZE=2: {PROCESSES_HERE}"),
        ("LOCAL_WORLD_SIZE", "3", f"LOCAL_WORLD_SIZE=3 and WORLD_SIZE=2: {PROCESSES_HERE}"),
        ("MASTER_PORT", "99999", "MASTER_PORT=99999: it must be at least 1 and below 65536"),
        ("MASTER_PORT", "65536", "MASTER_PORT=65536: it must be at least 1 and below 65536"),
        ("MASTER_PORT", "0", "MASTER_PORT=0: it must be at least 1 and below 65536"),
        ("MASTER_ADDR", "", "WORLD_SIZE, as for several processes, but not MASTER_ADDR; start the processes with "),
        ("MASTER_ADDR", "x" * 70, f"MASTER_ADDR='{'x' * 70}', which this machine cannot find ("),
    ],
)
def test_an_environment_that_cannot_be(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", name: value}
    for key, text in environment.items():
        monkeypatch.setenv(key, text)
    with pytest.raises(ConfigError, match=f"^the environment sets {re.escape(message)}"):
        follow_environment()


def test_an_address_that_no_server_of_names_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node7", "MASTER_PORT": "1"}
    for key, text in environment.items():
        monkeypatch.setenv(key, text)
    with pytest.raises(ConfigError, match=r"MASTER_ADDR='node7', which this machine cannot find \(.*Name or service"):
        follow_environment()


@pytest.mark.parametrize("kind", [dist.DistNetworkError, RuntimeError, ValueError, OSError])
def test_processes_that_cannot_connect_get_one_message(kind: type[Exception]) -> None:
    with pytest.raises(ConfigError, match=r"^the processes of this run cannot connect: no route; check the"):
        connected(Mock(side_effect=kind("no route\nException raised from")), "waiting")


def test_a_short_wait_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    assert connected(lambda: 7, "waiting") == 7
    assert caplog.messages == []


def test_each_process_of_this_machine_is_told_where_the_others_are() -> None:
    rendezvous = Rendezvous(3)
    environment = rendezvous.environment(2)
    assert environment.pop("GLOO_SOCKET_IFNAME", "lo") in ("lo", "lo0")
    assert environment == {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(rendezvous.store.port),
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
        "RANK": "2",
        "LOCAL_RANK": "2",
    }


def test_processes_may_take_minutes_to_come() -> None:
    assert Rendezvous(2).store.timeout >= timedelta(minutes=2)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, a machine has no second address of its own to try")
def test_no_other_machine_can_reach_the_processes_of_this_one() -> None:
    rendezvous = Rendezvous(2)
    socket.create_connection(("127.0.0.1", rendezvous.store.port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", rendezvous.store.port))
    assert rendezvous.environment(1)["GLOO_SOCKET_IFNAME"] == "lo"


def test_a_machine_without_an_address_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("translate.distributed.rendezvous.LOOPBACK", "192.0.2.1")  # no machine has this one
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ConfigError, match=r"^the processes of this run cannot connect: .*: processes=1$"):
        Rendezvous(2)


def test_a_machine_that_cannot_reach_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, timeout: timedelta, **__: object) -> None:
        assert timeout < timedelta(minutes=1)
        raise RuntimeError("no route")

    monkeypatch.setattr("translate.distributed.rendezvous.TCPStore", no_network)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ConfigError, match=r"^the processes of this run cannot connect: no route; .*: processes=1$"):
        Rendezvous(2)
