"""The memory that this process can still get: from its device, the machine, and any container that it runs in."""

import math
from pathlib import Path

import torch

PROC, CONTROL_GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# For cgroups v2 and v1 of Linux, by the controllers in /proc/self/cgroup: the files with a group's limit and usage, and
# what precedes the fields of memory.stat for cached files, which count as usage but can be evicted.
VERSIONS = {
    "": ("memory.max", "memory.current", ""),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
}


def free_memory(device: torch.device) -> float:
    """Bytes left on this device, without swapping anything out; infinity if nothing reports them."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + kept)
    of_the_machine = 1024.0 * _numbers(PROC / "meminfo").get("MemAvailable:", math.inf)
    return min(of_the_machine, _of_control_groups())


def _of_control_groups() -> float:
    """The least that any cgroup of this process, or one above it, leaves free; containers limit memory this way."""
    try:
        lines = (PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return math.inf
    least = math.inf
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers in VERSIONS:
            top = CONTROL_GROUPS / controllers
            own = top / path.lstrip("/")
            for group in [own, *own.parents]:
                if group.is_relative_to(top):
                    least = min(least, _left_in(group, *VERSIONS[controllers]))
    return least


def _left_in(group: Path, limit_file: str, usage_file: str, prefix: str) -> float:
    """Bytes that a cgroup leaves free, by its files of these names and the fields of memory.stat with this prefix."""
    try:
        limit = float((group / limit_file).read_text(encoding="ascii"))  # "max" where there is none
        usage = float((group / usage_file).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return math.inf
    numbers = _numbers(group / "memory.stat")
    # Also those that were read more than once ("active"), as the text of a large corpus is.
    cached = sum(numbers.get(f"{prefix}{kind}_file", 0) for kind in ("inactive", "active"))
    return max(0.0, limit - usage + cached)


def _numbers(path: Path) -> dict[str, int]:
    """The numbers in a file with a name and a number on each line; none if it cannot be read."""
    try:
        rows = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    except OSError:
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}
