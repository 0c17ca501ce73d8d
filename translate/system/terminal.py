"""Messages: made printable, because anybody's text could give a terminal orders; and those about work that goes on."""

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

TELL_EVERY = 30.0  # seconds

log = logging.getLogger("translate")

# With these, text can move the cursor, hide what stands above it, or set the title of the window.
CONTROLS = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text with its control characters, except for tabs and line feeds, spelled out as in Python."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


class PrintableFormatter(logging.Formatter):
    """Formats messages of the log, and makes them printable."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def telling_the_time(doing: str) -> Iterator[None]:
    """While the body runs, log every TELL_EVERY seconds for how long: for work that does not say how far it is."""
    started, finished = time.monotonic(), threading.Event()

    def tell() -> None:
        while not finished.wait(TELL_EVERY):
            log.info("%s: %.0f s so far", doing, time.monotonic() - started)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        finished.set()
        teller.join()
