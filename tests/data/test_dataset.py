"""Encoded pairs as arrays."""

import numpy as np
import pytest

from translate.data.dataset import EncodedText


def test_encoded_text_is_indexed_by_line() -> None:
    text = EncodedText(np.array([5, 6, 7], np.uint16), np.array([0, 2, 2, 3]))
    assert [line.tolist() for line in text] == [[5, 6], [], [7]]
    assert text.lengths.tolist() == [2, 0, 1]
    for line in (-1, 3):
        with pytest.raises(IndexError, match=f"line {line} of 3"):
            text[line]
