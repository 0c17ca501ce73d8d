"""Makes a Jupyter notebook of the tour, beside it, so that its links and pictures work: python docs/notebook.py

A cell shows the value of each of its lines, as Python's prompt does.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("tour.md")
SHOW_ALL = """\
from IPython.core.interactiveshell import InteractiveShell

InteractiveShell.ast_node_interactivity = "all"
"""


def cells(page: str) -> Iterator[dict[str, Any]]:
    """The cells of the notebook: text, and the code of each example without prompts and output."""
    yield code(SHOW_ALL)
    for number, part in enumerate(re.split(r"^```pycon\n(.*?)^```\n", page, flags=re.MULTILINE | re.DOTALL)):
        if number % 2:
            yield code("".join(re.findall(r"^(?:>>>|\.\.\.) ?(.*\n)", part, flags=re.MULTILINE)))
        elif part.strip():
            yield {"cell_type": "markdown", "metadata": {}, "source": part.strip()}


def code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source.rstrip(), "outputs": [], "execution_count": None}


def notebook(page: str) -> dict[str, Any]:
    """The page as a notebook, in format 4.4."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {"kernelspec": kernel}, "cells": list(cells(page))}


def main() -> None:
    file = PAGE.with_suffix(".ipynb")
    file.write_text(json.dumps(notebook(PAGE.read_text(encoding="utf-8")), indent=1) + "\n", encoding="utf-8")
    print(f"wrote {file}; open it with: jupyter lab {file}")


if __name__ == "__main__":
    main()
