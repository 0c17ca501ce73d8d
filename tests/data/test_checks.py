"""What is said of encoded text that does not look as it should."""

from dataclasses import replace

import numpy as np
import pytest

from translate.data.checks import log_unknown_share, warn_of_long_lines, warn_of_truncated_sources
from translate.data.corpus import TextPair
from translate.data.dataset import Dataset, EncodedText
from translate.text.vocabulary import UNK

TEXT = TextPair("train", [], [], "", "", "made up")


def test_lines_that_training_drops_make_validation_slow(caplog: pytest.LogCaptureFixture) -> None:
    lengths = [3, 200, 201, 4, 900]
    source, target = (EncodedText(np.zeros(9999, np.uint16), np.cumsum([0, *side])) for side in (lengths, [999] * 5))
    valid, text = Dataset(source, target), replace(TEXT, name="val")
    warn_of_long_lines(valid, text, 900)
    assert caplog.messages == []
    warn_of_long_lines(valid, text, 200)
    assert caplog.messages == [
        "val: pairs longer than any trained on (data.filter.max_tokens is 200): 2, the first in line 3, of 201 tokens; "
        "each validation may take much longer because of them"
    ]


def test_sources_that_validations_truncate_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    lines = EncodedText.of([[5] * 10, [5] * 11])
    warn_of_truncated_sources(Dataset(lines, lines), TEXT, 11)
    assert caplog.messages == []
    warn_of_truncated_sources(Dataset(lines, lines), TEXT, 10)
    assert caplog.messages == [
        "train: pairs of which validations read only the first decoding.max_source (10) tokens: 1, the first in line "
        "2, of 11 tokens"
    ]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (0, 201, "val: 10.1% of the target tokens are out of vocabulary"),
        (200, 0, "val: 10.0% of the source tokens are out of vocabulary"),
        (1, 0, "val: less than 0.1% of the source tokens are out of vocabulary"),
        (2, 20, "val: 0.1% of the source tokens and 1.0% of the target tokens are out of vocabulary"),
        (0, 3, "val: 0.1% of the target tokens are out of vocabulary"),
        (0, 0, None),
    ],
)
def test_how_much_is_unknown(source: int, target: int, message: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "translate")
    sides = [EncodedText.of([[UNK] * unknown + [5] * (2000 - unknown)]) for unknown in (source, target)]
    log_unknown_share(Dataset(*sides), replace(TEXT, name="val"))
    assert caplog.messages == ([] if message is None else [message])
    assert all((record.levelname == "WARNING") == (target > 200) for record in caplog.records)
