"""Programs that are compared, each in a process of its own: they take turns, so that the machine is the same for all.

Each process answers a line of standard input with the figures of one more pass, as loops.serve does.
"""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loops import Pass


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


if __name__ == "__main__":
    sys.exit("benchmarks/turns.py is no program: peers.py and translation.py import it")
