"""Control groups (cgroups) of Linux, which limit the memory and the CPU time of containers."""

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC, CONTROL_GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def control_groups(controller: str) -> Iterator[tuple[int, Path]]:
    """The cgroups of this process that `controller`, `memory` or `cpu`, may limit: their version, 1 or 2, and folder.

    First its own, and then those above it, which limit it, too.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers and controller not in controllers.split(","):
            continue
        top = CONTROL_GROUPS / controller if controllers else CONTROL_GROUPS
        own = top / path.lstrip("/")
        for group in [own, *own.parents]:
            if group.is_relative_to(top):
                yield 1 if controllers else 2, group


def cpu_quota() -> float:
    """How many cores this process may keep busy on average, as a container's limit says; infinity without a limit."""
    least = math.inf
    for version, group in control_groups("cpu"):
        files = [group / "cpu.max"] if version == 2 else [group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us"]
        with suppress(OSError, ValueError):  # "max" where there is no limit
            quota, period = map(float, " ".join(file.read_text(encoding="ascii") for file in files).split())
            if quota > 0:  # In version 1, -1 where there is no limit.
                least = min(least, quota / period)
    return least
