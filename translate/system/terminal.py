"""Messages that a terminal only shows: names and lines of text, which may be anybody's, cannot give it orders."""

import logging
import re

# With these, text can move the cursor, hide what stands above it, or set the title of the window.
CONTROLS = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """The text with its control characters, except for tabs and line feeds, spelled out as in Python."""
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


class PrintableFormatter(logging.Formatter):
    """Formats messages of the log, and makes them printable."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
