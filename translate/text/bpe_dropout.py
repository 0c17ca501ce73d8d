"""The same text cut in many ways: byte-pair encoding that leaves out merges at random.

Provilkov, Emelianenko, Voita: "BPE-Dropout: Simple and Effective Subword Regularization", ACL 2020. The library that
learns the merges can leave them out, too, but takes no seed; here random numbers come from the caller.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise
from random import Random

from translate.text.codec import Codec
from translate.text.pieces import BYTES, PieceTokenizer

CACHED = 2**16  # parts of lines, and states on the way to their pieces: the frequent ones, some tens of MB

Word = tuple[int, ...]
Merge = tuple[int, int]  # the place of the left of two pieces, and the piece that they become


class BpeDropout:
    """Encodes lines with a codec of kind bpe, leaving out each possible merge with probability `share`.

    At every step, a fresh draw decides which possible merges are left out, and the remaining one that was learned first
    is made. A word is done when none remains.
    """

    def __init__(self, codec: Codec, share: float) -> None:
        assert isinstance(codec.tokenizer, PieceTokenizer)
        self._prepare = codec.prepare
        self._tokenizer = codec.tokenizer
        self._vocabulary = codec.vocabulary
        self._share = share
        self._falls_back = next(iter(BYTES)) in codec.vocabulary
        merges = [codec.vocabulary.ids([left, right, left + right]) for left, right in codec.tokenizer.merges]
        self._merges = {(left, right): (rank, joined) for rank, (left, right, joined) in enumerate(merges)}
        self._possible = lru_cache(CACHED)(self._find_possible)
        self._way = lru_cache(CACHED)(self._find_way)

    def encode(self, line: str, random: Random) -> list[int]:
        """The ids of one line, without BOS and EOS. Without dropout they would be those of the codec."""
        parts = self._tokenizer.parts(self._prepare(line))
        return list(chain.from_iterable(self._cut(part, random) for part in parts))

    def _cut(self, part: str, random: Random) -> Word:
        word: Word = ()
        for word, possible in self._way(part):
            if random.random() < self._share:
                return self._go_on(word, possible[1:], random)
        return word

    def _go_on(self, word: Word, possible: Sequence[Merge], random: Random) -> Word:
        """The pieces that a word ends up as; `possible` are those of its merges that are still to be drawn."""
        for merge in possible:
            if random.random() >= self._share:
                merged = _merged(word, merge)
                return self._go_on(merged, self._possible(merged), random)
        return word

    def _find_way(self, part: str) -> list[tuple[Word, list[Merge]]]:
        """From characters to pieces if nothing is left out, as for most words: each step and its possible merges."""
        word = self._characters(part)
        way = [(word, self._possible(word))]
        while way[-1][1]:
            word = _merged(word, way[-1][1][0])
            way.append((word, self._possible(word)))
        return way

    def _find_possible(self, word: Word) -> list[Merge]:
        """The possible merges in the order in which they were learned, then from the left."""
        found = [(*self._merges[pair], place) for place, pair in enumerate(pairwise(word)) if pair in self._merges]
        return [(place, joined) for _, joined, place in sorted(found)]

    def _characters(self, part: str) -> Word:
        pieces: list[str] = []
        for character in part:
            if self._falls_back and character not in self._vocabulary:
                pieces += (f"<0x{byte:02X}>" for byte in character.encode())
            else:
                pieces.append(character)
        return tuple(self._vocabulary.ids(pieces))


def _merged(word: Word, merge: Merge) -> Word:
    place, joined = merge
    return (*word[:place], joined, *word[place + 2 :])
