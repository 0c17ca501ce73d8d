"""How many processes help to prepare the text of a run."""

import pytest
import torch

from translate.runs import preparing


@pytest.mark.parametrize(
    ("device", "cores", "sharing", "helpers"),
    [
        ("cpu", 16, 1, 0),
        ("cuda", 16, 1, 8),
        ("cuda", 5, 1, 4),
        ("cuda", 16, 4, 3),
        ("cuda", 1, 1, 0),
        ("cuda", 2, 4, 0),
    ],
)
def test_helpers_leave_a_core_to_each_training_process(
    device: str, cores: int, sharing: int, helpers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "cores", lambda: cores)
    assert preparing.helpers_for(torch.device(device), sharing) == helpers
