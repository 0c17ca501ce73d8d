"""Processes that cannot begin; that they train one model is tested in integration/test_several_processes.py."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tiny_project import Call, Project

from translate.commands import spawn
from translate.commands.train import main
from translate.distributed.group import has_ended
from translate.errors import TrainingError
from translate.system import device

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("program", "code", "how"),
    [
        ("raise SystemExit(7)", 7, "see its error message"),
        ("import os; os.kill(os.getpid(), 9)", -9, "a signal killed it"),
    ],
)
def test_a_spawned_process_that_never_comes(program: str, code: int, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "START", program)
    with pytest.raises(TrainingError) as caught, spawn.spawn_group(2, []):
        raise AssertionError("it did not come")
    assert str(caught.value) == (
        f"another process of this run ended with exit code {code} before training began; {how}. "
        "To train in a single process, set processes=1"
    )
    assert "WORLD_SIZE" not in os.environ


def test_a_spawned_process_that_the_system_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(TrainingError) as caught, spawn.spawn_group(2, []):
        raise AssertionError("it did not start")
    assert str(caught.value) == (
        f"the system starts no further process: {os.strerror(errno.EAGAIN)}; lower processes, or raise its limits "
        "(ulimit -n and -u)"
    )


def test_what_the_environment_says_of_other_machines_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a network interface that this machine does not have, its processes would not find each other."""
    names = ("GLOO_SOCKET_IFNAME", "LOCAL_WORLD_SIZE", "LOCAL_RANK")
    for name in names:
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(spawn, "START", "raise SystemExit(7)")
    with pytest.raises(TrainingError), spawn.spawn_group(2, []):
        raise AssertionError("it did not come")
    assert not os.environ.keys() & set(names)


@pytest.mark.parametrize(("threads", "cores", "each"), [(5, 5, 2), (1, 1, 1), (16, 4, 2)])
def test_threads_are_divided(threads: int, cores: int, each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(device, "cores", lambda: cores)
    asked: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    monkeypatch.setattr(spawn, "START", "raise SystemExit(7)")
    with pytest.raises(TrainingError), spawn.spawn_group(2, []):
        raise AssertionError("it did not come")
    assert asked == [each]


UNNOTICED = '''
import os, sys, time
from datetime import timedelta
from translate.commands import spawn

spawn.START = """
import json, os, time
os.environ.update(json.loads(os.read(0, 4096)))
from translate.distributed.group import Group
Group.of_environment()
time.sleep(1)  # until the others are connected, too
os._exit({codes}[int(os.environ["RANK"]) - 1])
"""
spawn.SHUTDOWN = timedelta(seconds=0.5)
with spawn.spawn_group(3, []):
    time.sleep({seconds})
    os._exit(0)
'''


def waiting(codes: list[int], seconds: float) -> subprocess.CompletedProcess[str]:
    """A process that does something else while the two others end with these exit codes."""
    program = UNNOTICED.format(codes=codes, seconds=seconds)
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)


INSIDE = '''
import os, sys
from translate.commands import spawn

spawn.START = """
import json, os
os.environ.update(json.loads(os.read(0, 4096)))
from translate.distributed.group import Group
Group.of_environment().await_last_message()
"""
with spawn.spawn_group(2, []) as group:
    print(os.environ.get("GLOO_SOCKET_IFNAME"))
    group.await_last_message()
'''


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="knows what Linux calls the interface of a machine to itself")
def test_the_first_process_does_not_listen_to_other_machines() -> None:
    command = [sys.executable, "-c", INSIDE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stdout) == (0, "lo\n"), done.stderr


@pytest.mark.slow
def test_the_first_process_ends_if_another_dies_unnoticed() -> None:
    done = waiting([0, 7], seconds=50)
    assert (done.returncode, done.stderr) == (2, f"error: {has_ended()}\n")


@pytest.mark.slow
def test_the_first_process_ends_if_another_dies_while_they_connect() -> None:
    dies = """\\
from torch.distributed import rendezvous
from translate.distributed.rendezvous import PRESENT
store, *_ = next(rendezvous("env://"))
store.add(PRESENT, 1)
time.sleep(0.2)  # until the first process has seen that
os._exit(7)
"""
    program = UNNOTICED.format(codes=[], seconds=0).replace("spawn_group(3", "spawn_group(2")
    program = program.replace("from translate.distributed.group import Group\n", dies)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60)
    assert (done.returncode, done.stderr) == (2, f"error: {has_ended()}\n")


@pytest.mark.slow
def test_it_may_take_longer_than_others_that_end_in_order() -> None:
    assert waiting([0, 143], seconds=4).returncode == 0


@pytest.mark.slow
def test_a_mistake_leaves_nothing_behind(call: Call, untrained: Project) -> None:
    (untrained.corpus / "val.it").unlink()
    for _ in range(2):
        said = call(main, "--config", untrained.config, "processes=2")
        assert said.code == 2
        assert said.err.count("error: ") == 1
        assert "val.it" in said.err
        assert not dist.is_initialized()
    assert "WORLD_SIZE" not in os.environ


@pytest.mark.slow
def test_files_in_the_working_directory_that_have_the_names_of_modules(
    call: Call, untrained: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert call(main, "--config", untrained.config, "processes=2", "training.max_steps=1").code == 0
