"""Tokens and their ids: the most frequent words of a text, after four special tokens that no text can produce."""

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

SPECIALS = ("<unk>", "<pad>", "<bos>", "<eos>")
UNK, PAD, BOS, EOS = range(len(SPECIALS))


@dataclass(frozen=True)
class Vocabulary:
    """Ids 0 to 3 are the specials; `words`, given without them, follow in their order."""

    words: tuple[str, ...]

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The token of each id."""
        return SPECIALS + self.words

    @cached_property
    def _ids(self) -> dict[str, int]:
        # The specials are left out, so that "<eos>" in a text is an unknown word and does not end the sentence.
        return {word: index for index, word in enumerate(self.words, start=len(SPECIALS))}

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def ids(self, words: Iterable[str]) -> list[int]:
        """The id of each word; UNK for those not in the vocabulary."""
        return [self._ids.get(word, UNK) for word in words]

    def strings(self, ids: Iterable[int]) -> list[str]:
        """The token of each id, specials included."""
        return [self.tokens[index] for index in ids]


def build_vocabulary(counts: Counter[str], *, min_freq: int = 1, max_size: int | None = None) -> Vocabulary:
    """The words seen at least `min_freq` times, at most `max_size`: most frequent first, ties by code point."""
    with warnings.catch_warnings():
        # torchtext 0.6 is old: Python and PyTorch warn about its source code when it is imported.
        warnings.simplefilter("ignore")
        from torchtext.vocab import Vocab
    tokens = Vocab(counts, min_freq=min_freq, max_size=max_size, specials=list(SPECIALS), specials_first=True).itos
    return Vocabulary(tuple(tokens[len(SPECIALS) :]))
