"""Divide a corpus: see `python scripts/split.py --help`."""

import sys
from pathlib import Path

# Python puts this folder first on its path, where translate.py would hide the package of that name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from translate.commands.split import main

if __name__ == "__main__":
    sys.exit(main())
