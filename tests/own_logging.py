"""For tests that call a main: it sets up logging for its process."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_logging() -> Iterator[None]:
    """Leaves logging as it was, for the tests that follow."""
    root, own = logging.getLogger(), logging.getLogger("translate")
    handlers, level = root.handlers[:], own.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        own.setLevel(level)
