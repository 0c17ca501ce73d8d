"""What each of the processes does that spawn.py starts: it trains once the first process has told it how to connect."""

import gc
import json
import os
import threading
import time
from contextlib import suppress

from translate.commands.run import OBJECTS_BEFORE_COLLECTION
from translate.system.interrupt import SHUTDOWN


def main() -> int:
    """Import PyTorch, which takes seconds, at the same time as the first process; then train as it says.

    Environment variables come as JSON through standard input. The exit code is that of the training, or 1 if the first
    process has ended before that.
    """
    gc.set_threshold(OBJECTS_BEFORE_COLLECTION)
    with suppress(ImportError):  # The first process reports that it is missing, and ends.
        import torch
    told = os.read(0, 4096)
    if not told:
        return 1
    os.environ.update(json.loads(told))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    threading.Thread(target=_end_with_the_first, daemon=True).start()

    from translate.commands import train

    return train.main()


def _end_with_the_first() -> None:
    """End this process soon after the first one. Without this, while it is still connecting, it would not notice."""
    os.read(0, 1)  # The first process writes nothing more, so this returns when it ends.
    time.sleep(SHUTDOWN.total_seconds())
    os._exit(1)
