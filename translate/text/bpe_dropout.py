"""BPE-dropout: byte-pair encoding that leaves out merges at random, so that one text is segmented in many ways.

Provilkov, Emelianenko, Voita: "BPE-Dropout: Simple and Effective Subword Regularization", ACL 2020. The library that
learns the merges can leave them out, too, but takes no seed; here random numbers come from the caller.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from random import Random

from translate.text.codec import Codec
from translate.text.pieces import BYTES, PieceTokenizer
from translate.text.vocabulary import UNK

CACHED = 2**16  # entries of each of the two caches, by part of a line and by state of a word: some tens of MB
PRIVATE = range(0xE000, 0xF900)  # code points to which Unicode gives no meaning

Word = tuple[int, ...]  # the ids of the pieces of a part of a line, at some step between characters and final pieces
Merge = tuple[int, int]  # the place of the left one of two pieces in a word, and the id of the piece that they become


class BpeDropout:
    """Cuts lines that a codec of kind bpe has encoded anew, leaving out each possible merge with probability `share`.

    At every step, a fresh draw decides which possible merges are left out, and the remaining one that was learned first
    is applied. A word is done when none remains.
    """

    def __init__(self, codec: Codec, share: float) -> None:
        assert isinstance(codec.tokenizer, PieceTokenizer)
        self._tokenizer = codec.tokenizer
        self._vocabulary = codec.vocabulary
        self._share = share
        # No piece contains it, so it becomes unknown again.
        self._unknown = next(character for character in map(chr, PRIVATE) if character not in codec.vocabulary)
        self._falls_back = next(iter(BYTES)) in codec.vocabulary
        merges = [codec.vocabulary.ids([left, right, left + right]) for left, right in codec.tokenizer.merges]
        self._merges = {(left, right): (rank, joined) for rank, (left, right, joined) in enumerate(merges)}
        self._possible = lru_cache(CACHED)(self._find_possible)
        self._usual_steps = lru_cache(CACHED)(self._find_usual_steps)

    def recut(self, ids: Iterable[int], random: Random) -> list[int]:
        """Other ids for a line, given those of the codec; the same ones if no merge is left out."""
        pieces = [self._unknown if index == UNK else self._vocabulary.tokens[index] for index in ids]
        return list(chain.from_iterable(self._cut(part, random) for part in self._tokenizer.parts(pieces)))

    def _cut(self, part: str, random: Random) -> Word:
        """The pieces of a part: by the cached steps without dropout up to the first merge that is left out."""
        word: Word = ()
        for word, possible in self._usual_steps(part):
            if random.random() < self._share:
                return self._finish(word, possible[1:], random)
        return word

    def _finish(self, word: Word, possible: Sequence[Merge], random: Random) -> Word:
        """The pieces that a word ends up as; `possible` are its merges for which no draw has been made yet."""
        for merge in possible:
            if random.random() >= self._share:
                merged = _merged(word, merge)
                return self._finish(merged, self._possible(merged), random)
        return word

    def _find_usual_steps(self, part: str) -> list[tuple[Word, list[Merge]]]:
        """From characters to pieces without dropout: the word at each step, and its possible merges."""
        word = self._characters(part)
        steps = [(word, self._possible(word))]
        while steps[-1][1]:
            word = _merged(word, steps[-1][1][0])
            steps.append((word, self._possible(word)))
        return steps

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
