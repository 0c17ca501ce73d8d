"""The other processes of a training, if the config asks for several and torchrun has not started them.

The first acts like a training in a single process: it receives signals and prints messages, and its exit code counts.
The others end when it does, for whatever reason. torchrun is not used for this: its launcher would be the parent of all
of them, with an exit code and a report of its own, and if it is killed, the processes that it has started keep running.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from translate.commands.run import complain
from translate.errors import TrainingError
from translate.system.interrupt import SHUTDOWN

if TYPE_CHECKING:
    from translate.distributed.group import Group
    from translate.distributed.rendezvous import Rendezvous

# What each of the other processes runs.
START = "import sys; from translate.commands.spawned import main; sys.exit(main())"


@contextmanager
def spawn_group(count: int, arguments: Sequence[str]) -> Iterator["Group"]:
    """Start `count` - 1 processes that train with the same arguments, and make this one the first of them.

    PyTorch's threads are divided between them. They end, or are killed, when the context is left. If one of them dies
    before that, this process ends, too, even if it hangs in an operation that waits for the dead one.

    Raises:
        TrainingError: one of them cannot be started, or ended before connecting to this one.
        ConfigError: they cannot connect.
    """
    # These do not apply here: a network interface for talking to other machines, and what a launcher says of this
    # process alone.
    for name in ("GLOO_SOCKET_IFNAME", "LOCAL_WORLD_SIZE", "LOCAL_RANK"):
        os.environ.pop(name, None)
    # First the path: Python begins it with the working directory, which may hold files with the names of modules.
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!a}\n{START}", *arguments]
    others: list[subprocess.Popen[bytes]] = []
    group = None
    left = threading.Event()

    def is_first_to_report(message: str) -> bool:
        return group is None or group.is_first_to_report(message)

    try:
        for _ in range(1, count):
            others.append(_start(command))
        import torch

        from translate.distributed.group import Group
        from translate.distributed.rendezvous import Rendezvous, gloo_on_loopback
        from translate.system.device import default_threads

        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, default_threads() // count))
        rendezvous = Rendezvous(count)
        for rank, other in enumerate(others, 1):
            _tell(other, rendezvous.environment(rank) | {"OMP_NUM_THREADS": str(torch.get_num_threads())})
        _wait_for(others, rendezvous)
        os.environ.update(gloo_on_loopback())
        # Begins before the group is formed, which would wait for a process that dies just now.
        threading.Thread(target=_end_without, args=(others, is_first_to_report, left), daemon=True).start()
        group = Group(rendezvous.store, rank=0, count=count)
        yield group
        left.set()
        if not group.failed:
            for other in others:
                with suppress(subprocess.TimeoutExpired):
                    other.wait(SHUTDOWN.total_seconds())
    finally:
        left.set()
        for other in others:
            other.kill()
            other.communicate()
        if group is not None:
            group.close_connections()


def _start(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    # In a session of its own: a terminal sends Ctrl-C to its whole process group, but only the first process is to get
    # it, and tells the others.
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise TrainingError(
            f"the system starts no further process: {error.strerror}; lower processes, or raise its limits "
            "(ulimit -n and -u)"
        ) from error


def _tell(process: "subprocess.Popen[bytes]", environment: dict[str, str]) -> None:
    """Send a process the environment variables with which it finds the others."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # It has ended already.
        process.stdin.write(json.dumps(environment).encode())
        process.stdin.flush()


def _wait_for(others: Sequence["subprocess.Popen[bytes]"], rendezvous: "Rendezvous") -> None:
    while rendezvous.present() < len(others):
        for other in others:
            if other.poll() is not None:
                how = "see its error message" if other.returncode > 0 else "a signal killed it"
                raise TrainingError(
                    f"another process of this run ended with exit code {other.returncode} before training began; "
                    f"{how}. To train in a single process, set processes=1"
                )
        time.sleep(0.01)


def _end_without(
    others: Sequence["subprocess.Popen[bytes]"], is_first_to_report: Callable[[str], bool], left: threading.Event
) -> None:
    """End this process some time after one of the others has died, unless the context has been `left` by then.

    With gloo, the next exchange with a dead process fails, but gloo does not always notice: one all_gather in hundreds
    waited on. With NCCL, and while they connect, this process could wait forever, too.
    """
    from translate.distributed.group import has_ended

    while not left.wait(1.0):
        # Codes above 128 mean that a process stopped cleanly after a signal: this one may still be saving.
        died = any((code := other.poll()) and code <= 128 for other in others)
        if died and not left.wait(SHUTDOWN.total_seconds()):
            message = f"error: {has_ended()}"
            if is_first_to_report(message):
                complain(message)
            os._exit(2)
