"""The memory that this process can still get: from its device, the machine, and any container that it runs in."""

import math
from pathlib import Path

import torch

from translate.system.cgroups import PROC, control_groups

# For each version of cgroups: the files with a group's limit and usage, and what precedes the fields of memory.stat for
# cached files, which count as usage but can be evicted.
VERSIONS = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    2: ("memory.max", "memory.current", ""),
}


def free_memory(device: torch.device) -> float:
    """Bytes left on this device, without swapping anything out; infinity if nothing reports them."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + kept)
    of_the_machine = 1024.0 * _numbers(PROC / "meminfo").get("MemAvailable:", math.inf)
    of_groups = (_left_in(group, *VERSIONS[version]) for version, group in control_groups("memory"))
    return min([of_the_machine, *of_groups])


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
