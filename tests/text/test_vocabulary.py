"""Words and their ids."""

from collections import Counter
from dataclasses import FrozenInstanceError

import pytest

from translate.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary, build_vocabulary

COUNTS = Counter({"the": 5, "cat": 3, "ant": 3, "Zoo": 3, "dog": 1})


def test_specials_come_first() -> None:
    assert (UNK, PAD, BOS, EOS) == (0, 1, 2, 3)
    assert Vocabulary(("a",)).tokens == ("<unk>", "<pad>", "<bos>", "<eos>", "a")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, ("the", "Zoo", "ant", "cat", "dog")),
        ({"min_freq": 2}, ("the", "Zoo", "ant", "cat")),
        ({"min_freq": 4}, ("the",)),
        ({"max_size": 2}, ("the", "Zoo")),
        ({"min_freq": 3, "max_size": 3}, ("the", "Zoo", "ant")),
        ({"min_freq": 6}, ()),
    ],
)
def test_most_frequent_first_then_alphabetical(limits: dict[str, int], words: tuple[str, ...]) -> None:
    assert build_vocabulary(COUNTS, **limits).words == words


def test_ids_and_strings() -> None:
    vocabulary = build_vocabulary(COUNTS)
    assert len(vocabulary) == 9
    assert vocabulary.ids(["the", "bird", "dog"]) == [4, UNK, 8]
    assert vocabulary.strings([4, UNK, 8, EOS]) == ["the", "<unk>", "dog", "<eos>"]
    assert "dog" in vocabulary
    assert "bird" not in vocabulary


@pytest.mark.parametrize("special", SPECIALS)
def test_a_word_that_reads_like_a_special_is_unknown(special: str) -> None:
    vocabulary = build_vocabulary(Counter({special: 9, "a": 1}))
    assert vocabulary.words == ("a",)
    assert vocabulary.ids([special]) == [UNK]
    assert special not in vocabulary


def test_it_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Vocabulary(("a",)).words = ()
