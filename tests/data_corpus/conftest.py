"""Lets the tests import the generator, which lives beside the corpus and outside the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "data"))
