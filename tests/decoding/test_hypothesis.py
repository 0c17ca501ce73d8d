"""What a hypothesis counts, and the formula it is ranked by."""

import pytest
import torch

from translate.decoding.beam import length_penalized
from translate.decoding.hypothesis import Hypothesis


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, -6.0), (1.0, -1.5), (0.5, -3.0)])
def test_length_penalty_divides_by_a_power_of_the_length(alpha: float, expected: float) -> None:
    assert length_penalized(torch.tensor(-6.0), torch.tensor(4), alpha).item() == pytest.approx(expected)


def test_length_counts_the_end_of_a_finished_hypothesis_only() -> None:
    assert Hypothesis((7, 8), -1.0, -1.0, finished=True).length == 3
    assert Hypothesis((7, 8), -1.0, -1.0, finished=False).length == 2
