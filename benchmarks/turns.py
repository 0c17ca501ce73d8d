"""Programs that are compared, each in a process of its own: they take turns, so that the machine is the same for all.

Each process answers a line of standard input with the figures of one more pass: `Contender` asks, `serve` answers. A
process that only serves may live in an environment without this project.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

Pass = dict[str, Any]  # the figures of one


@dataclass
class Contender:
    """One program and its process."""

    title: str
    arithmetic: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    install: str = ""
    passes: list[Pass] = field(default_factory=list)

    def start(self, folder: Path, threads: int) -> None:
        self.messages = folder / f"{self.title}, {self.arithmetic}.txt"
        with self.messages.open("w", encoding="utf-8") as messages:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                encoding="utf-8",
                env={**os.environ, "OMP_NUM_THREADS": str(threads), **self.environment},
            )

    def go(self) -> str:
        """Make one more pass; returns why there was none, or an empty string."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            said = self.messages.read_text(encoding="utf-8").strip().splitlines() or ["it said nothing"]
            return f"it stopped: {said[-1]}"
        found: dict[str, Any] = json.loads(answer)
        if "missing" in found:
            return f"{found['missing']}; to install it: {self.install}"
        self.passes.append(found)
        return ""

    def stop(self) -> None:
        self.process.communicate()  # It ends when there is nothing more to read.


def take_turns(contenders: list[Contender], needed: list[Contender], passes: int, threads: int, folder: Path) -> None:
    """Let all of them make so many passes.

    One that cannot is left out, and removed from the list; without those `needed`, the program ends.
    """
    for contender in contenders:
        contender.start(folder, threads)
    try:
        for number in range(passes):
            print(f"pass {number + 1} of {passes}", file=sys.stderr)
            for contender in list(contenders):
                if trouble := contender.go():
                    if contender in needed:
                        sys.exit(f"nothing can be compared without {contender.title}: {trouble}")
                    print(f"{contender.title} is left out: {trouble}")
                    contenders.remove(contender)
                    contender.stop()
    finally:
        for contender in contenders:
            contender.stop()


def serve(passes: Iterator[Pass], device: str) -> None:
    """Answer each line of standard input with the figures of one more pass, or with what is not installed."""
    for _ in sys.stdin:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # where toolkits may log what they like
                found: dict[str, Any] = next(passes)
                found.setdefault("peak", peak_memory(device))
        except ImportError as error:
            found = {"missing": str(error)}
        print(json.dumps(found), flush=True)


def peak_memory(device: str) -> float:
    """The most bytes that this process has held at once: of a GPU, or as Linux counts them; NaN elsewhere.

    getrusage would include what the process that started this one held.
    """
    if device == "cuda":
        return float(torch.cuda.max_memory_reserved())
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), math.nan)


if __name__ == "__main__":
    sys.exit("benchmarks/turns.py is no program: peers.py and translation.py import it")
