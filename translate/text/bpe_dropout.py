"""BPE-dropout: byte-pair encoding that leaves out merges at random, so that one text is segmented in many ways.

Provilkov, Emelianenko, Voita: "BPE-Dropout: Simple and Effective Subword Regularization", ACL 2020. The library that
learns the merges can leave them out, too, but takes no seed; here random numbers come from the caller.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache, reduce
from itertools import chain, pairwise
from random import Random

from translate.text.codec import Codec
from translate.text.pieces import BYTES, PieceTokenizer
from translate.text.vocabulary import UNK

CACHED = 2**15  # entries of each of the two caches, by pre-token and by state of a word: some tens of MB
# Characters of a pre-token: longer ones, as in languages without spaces, hardly recur and take much memory.
MAX_CACHED_LENGTH = 16
IDEOGRAPHS = range(0x20000, 0x2A6E0)  # more letters, most of them very rare, than any vocabulary has

Word = tuple[int, ...]  # the ids of the pieces of a pre-token, at some step between characters and final pieces
Merge = tuple[int, int]  # the place of the left one of two pieces in a word, and the id of the piece that they become


class BpeDropout:
    """Segments anew what a codec of kind bpe has encoded, leaving out each possible merge with probability `p`.

    At every step, a fresh draw decides which possible merges are left out, and the remaining one that was learned first
    is applied. A word is done when none remains.
    """

    def __init__(self, codec: Codec, p: float) -> None:
        assert isinstance(codec.tokenizer, PieceTokenizer)
        self._codec = codec
        self._tokenizer = codec.tokenizer
        self._vocabulary = codec.vocabulary
        self._p = p
        # Stands for unknown characters, most of which are letters, too. No piece contains it, so it is unknown again.
        self._unknown = next(character for character in map(chr, IDEOGRAPHS) if character not in codec.vocabulary)
        self._falls_back = next(iter(BYTES)) in codec.vocabulary
        merges = [codec.vocabulary.ids([left, right, left + right]) for left, right in codec.tokenizer.merges]
        self._merges = {(left, right): (rank, joined) for rank, (left, right, joined) in enumerate(merges)}
        self._known_merges = lru_cache(CACHED)(self._find_possible)
        self._known_pre_tokens = lru_cache(CACHED)(self._without_dropout)

    def __reduce__(self) -> tuple[type["BpeDropout"], tuple[Codec, float]]:
        return BpeDropout, (self._codec, self._p)  # Caches cannot be pickled.

    def resegment(self, ids: Iterable[int], random: Random) -> list[int]:
        """Other ids for a line, given those of the codec; the same ones if no merge is left out.

        (Not always the same around an unknown character that is no letter, as its kind is not known any more: a
        combining mark after it may be cut off otherwise, or the letters around it, if there are more than 64 of them.)
        """
        pieces = [self._unknown if index == UNK else self._vocabulary.tokens[index] for index in ids]
        pre_tokens = self._tokenizer.pre_tokens(pieces)
        return list(chain.from_iterable(self._segment(pre_token, random) for pre_token in pre_tokens))

    def _segment(self, pre_token: str, random: Random) -> Word:
        """The pieces of a pre-token; of a short one by the cached merges without dropout, up to the first left out."""
        if len(pre_token) > MAX_CACHED_LENGTH:
            characters = self._characters(pre_token)
            return self._finish(characters, self._possible(characters), random)
        characters, merges, whole = self._known_pre_tokens(pre_token)
        for made in range(len(merges)):
            if random.random() < self._p:
                word = reduce(_merged, merges[:made], characters)
                return self._finish(word, self._possible(word)[1:], random)
        return whole

    def _finish(self, word: Word, possible: Sequence[Merge], random: Random) -> Word:
        """The pieces that a word ends up as; `possible` are its merges for which no draw has been made yet."""
        while (merge := self._first_kept(possible, random)) is not None:
            word = _merged(word, merge)
            possible = self._possible(word)
        return word

    def _first_kept(self, possible: Iterable[Merge], random: Random) -> Merge | None:
        return next((merge for merge in possible if random.random() >= self._p), None)

    def _without_dropout(self, pre_token: str) -> tuple[Word, list[Merge], Word]:
        """The characters of a pre-token, all of its merges, and its final pieces."""
        characters = word = self._characters(pre_token)
        merges = []
        while possible := self._possible(word):
            merges.append(possible[0])
            word = _merged(word, possible[0])
        return characters, merges, word

    def _possible(self, word: Word) -> list[Merge]:
        return self._known_merges(word) if len(word) <= MAX_CACHED_LENGTH else self._find_possible(word)

    def _find_possible(self, word: Word) -> list[Merge]:
        """The possible merges in the order in which they were learned, then from the left."""
        found = [(*self._merges[pair], place) for place, pair in enumerate(pairwise(word)) if pair in self._merges]
        return [(place, joined) for _, joined, place in sorted(found)]

    def _characters(self, pre_token: str) -> Word:
        pieces: list[str] = []
        for character in pre_token:
            if self._falls_back and character not in self._vocabulary:
                pieces += (f"<0x{byte:02X}>" for byte in character.encode())
            else:
                pieces.append(character)
        return tuple(self._vocabulary.ids(pieces))


def _merged(word: Word, merge: Merge) -> Word:
    place, joined = merge
    return (*word[:place], joined, *word[place + 2 :])
