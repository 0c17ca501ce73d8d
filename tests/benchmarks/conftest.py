"""Lets the tests import the benchmarks, which are scripts outside the package, and call them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_logging import own_logging

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    with own_logging():
        yield
