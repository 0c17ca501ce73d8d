"""Pieces of text learned from training text: characters, bytes, or subwords.

Byte-pair encoding: Sennrich, Haddow, Birch: "Neural Machine Translation of Rare Words with Subword Units", ACL 2016.
WordPiece: Schuster, Nakajima: "Japanese and Korean Voice Search", ICASSP 2012; as in Devlin et al.: "BERT", NAACL 2019.
Unigram: Kudo: "Subword Regularization", ACL 2018.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

from translate.errors import ConfigError, DataError
from translate.system.interrupt import in_thread
from translate.text.casing import learn_truecaser
from translate.text.pieces import BYTES, CONTINUES, UNKNOWN, UNKNOWN_ID, PieceTokenizer, hugging_face, on_all_cores

LINE_END = "\n"  # occurs in no line of text
log = logging.getLogger("translate")

# Pre-tokens: a line is split into these first, and no piece spans two of them. They are a word with its combining marks
# and joiners, a digit, symbols, each with the space before it, and any other white-space character by itself. Digits
# are apart so that a model learns to copy numbers that it has never seen. So is "#", so that no piece of text begins
# with CONTINUES. The limit of 64 characters bounds the work on a word without end, and is below the length above which
# WordPiece makes a word unknown (100).
PRE_TOKENS = (
    r" ?\p{L}[\p{L}\p{M}\x{200C}\x{200D}]{0,63}"
    r"| ?\p{N}"
    r"| ?#"
    r"| ?[^\s\p{L}\p{N}#]{1,64}"
    r"|\s"
)


@dataclass(frozen=True)
class Rereadable:
    """Lines that can be read more than once without being kept in memory: each iteration makes them anew."""

    make: Callable[[], Iterator[str]]

    def __iter__(self) -> Iterator[str]:
        return self.make()


def learn_pieces(
    text: Sequence[tuple[str, Iterable[str]]],
    *,
    kind: str,
    lowercase: bool = False,
    truecase: bool = False,
    character_coverage: float = 1.0,
    **settings: Any,
) -> list[PieceTokenizer]:
    """A tokenizer for each side of a text, all with the same pieces, learned from the lines of all sides.

    Each side is a language code and its lines, which are read more than once, and not kept in memory. Only the most
    frequent characters, which together make up the share `character_coverage` of the text, get pieces, as in
    SentencePiece. `settings` are the arguments of the function for this kind in LEARNERS.

    Raises:
        ConfigError: the settings keep no character of the text, or leave no room for them, or the library is missing.
        DataError: there is no text.
    """
    untrained = [
        PieceTokenizer(language, kind, lowercase, "", learn_truecaser(lines, language) if truecase else None)
        for language, lines in text
    ]

    def as_the_library_gets_them() -> Iterator[str]:
        for tokenizer, (_, lines) in zip(untrained, text, strict=True):
            yield from filter(None, map(tokenizer.prepare, lines))

    prepared = Rereadable(as_the_library_gets_them)
    if not any(prepared):
        raise DataError("every line of the training text is blank: there is nothing to train the tokenizer on")
    texts = prepared if character_coverage == 1.0 else _without_rare_characters(prepared, character_coverage)
    state = LEARNERS[kind](texts, **settings).to_str()
    return [replace(tokenizer, state=state) for tokenizer in untrained]


def with_frequent_pieces(tokenizer: PieceTokenizer, counts: Counter[str], min_count: int) -> PieceTokenizer:
    """The tokenizer with only those of its pieces that are frequent, and what it needs to split text into them.

    The vocabulary threshold of subword-nmt (https://github.com/rsennrich/subword-nmt) is the same idea. With a
    `min_count` of 1, the text that was counted is split as before.

    Args:
        counts: how often each piece occurs in a text. Every character of the text stays, and so do single bytes.
    """
    written = counts.keys() - BYTES.keys()
    frequent = {piece for piece in written if counts[piece] >= min_count}
    parts = {character for piece in written for character in piece.removeprefix(CONTINUES)}
    if tokenizer.kind == "bpe":  # Merges lead from characters to a piece by way of some of its substrings.
        parts |= {piece[i:j] for piece in frequent for i, j in combinations(range(len(piece) + 1), 2)}
    stay = {UNKNOWN, *BYTES, *frequent, *parts, *(CONTINUES + part for part in parts)}

    state = json.loads(tokenizer.state)
    model = state["model"]
    if tokenizer.kind == "unigram":
        model["vocab"] = [(piece, score) for piece, score in model["vocab"] if piece in stay]
    else:
        pieces = sorted(model["vocab"].keys() & stay, key=model["vocab"].__getitem__)
        model["vocab"] = {piece: index for index, piece in enumerate(pieces)}
        if "merges" in model:
            model["merges"] = [merge for merge in model["merges"] if "".join(merge) in stay]
    return replace(tokenizer, state=json.dumps(state, ensure_ascii=False))


def _by_frequency(counts: Counter[str]) -> list[str]:
    """The most frequent first, ties by code point."""
    return sorted(counts, key=lambda character: (-counts[character], character))


def _without_rare_characters(texts: Iterable[str], coverage: float) -> Iterable[str]:
    """The texts, split at rare characters: those beyond the most frequent ones that make up the share `coverage`."""
    counts = Counter(chain.from_iterable(texts))
    missing = coverage * counts.total()
    rare = ""
    for character in _by_frequency(counts):
        if missing <= 0:
            rare += character
        missing -= counts[character]
    if not rare:
        return texts
    separators = re.compile(f"[{re.escape(rare)}]+")
    return Rereadable(lambda: filter(None, chain.from_iterable(map(separators.split, texts))))


# --- one function for each kind: training text in, the library's tokenizer out ----------------------------------------


def _learn_characters(texts: Iterable[str], *, min_freq: int) -> Any:
    """Characters seen at least `min_freq` times, most frequent first, ties by code point."""
    counts = Counter(chain.from_iterable(texts))
    kept = [character for character in _by_frequency(counts) if counts[character] >= min_freq]
    if not kept:
        raise ConfigError(
            f"text.tokenizer.min_freq: {min_freq} keeps no character of the training text, "
            f"whose most frequent one occurs {max(counts.values())} times; lower it"
        )
    return hugging_face().Tokenizer(_bpe(kept, merges=[]))


def _learn_bytes(_: Iterable[str]) -> Any:
    """The 256 bytes of UTF-8, whatever the text."""
    return hugging_face().Tokenizer(_bpe([], merges=[], byte_fallback=True))


def _learn_bpe(texts: Iterable[str], *, vocab_size: int, min_freq: int, byte_fallback: bool) -> Any:
    """All characters, and pieces made by merging the most frequent pairs of neighbours, up to `vocab_size` pieces."""
    library = hugging_face()
    _check_room(vocab_size, len(_characters(texts)))
    learned = _trained(
        _with_pre_tokenizer(library.models.BPE()),
        library.trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=min_freq, show_progress=False),
        texts,
    )
    pieces, merges = learned["vocab"], [tuple(merge) for merge in learned["merges"]]
    return _with_pre_tokenizer(_bpe(pieces, merges, byte_fallback=byte_fallback))


def _learn_wordpiece(texts: Iterable[str], *, vocab_size: int, min_freq: int) -> Any:
    """Up to `vocab_size` pieces, merged as in BPE, but distinct where they begin a word and where they continue one."""
    library = hugging_face()
    characters = _characters(texts)
    continued = [CONTINUES + character for character in characters]
    _check_room(vocab_size, len(characters) + len(continued))
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocab_size + 1,
        min_frequency=min_freq,
        show_progress=False,
        initial_alphabet=characters,
        # Listed here so that their ids are fixed: otherwise only those seen would get one, in a hash table's random
        # order, and the ids decide between merges that are equally frequent.
        special_tokens=[UNKNOWN, *continued],
        continuing_subword_prefix=CONTINUES,
    )
    pieces = _trained(_with_pre_tokenizer(library.models.WordPiece(unk_token=UNKNOWN)), trainer, texts)["vocab"]
    return _with_pre_tokenizer(library.models.WordPiece(pieces, unk_token=UNKNOWN, continuing_subword_prefix=CONTINUES))


def _learn_unigram(texts: Iterable[str], *, vocab_size: int, byte_fallback: bool) -> Any:
    """Pieces with log-probabilities, pruned to those the text needs most; a line is split in the most probable way."""
    library = hugging_face()
    pre_tokenizer = _pre_tokenizer()
    counts = Counter(token for text in texts for token, _ in pre_tokenizer.pre_tokenize_str(text))
    characters = _characters(counts)  # those of the texts, of which the pre-tokenizer drops nothing
    _check_room(vocab_size, len(characters))
    # The trainer proposes a substring as a piece only if different characters follow it, and so would miss most whole
    # words. So each pre-token that occurs more than once is given to it once more, followed by LINE_END.
    ends = sorted(token + LINE_END for token, count in counts.items() if count > 1)
    pre_tokens = chain(counts.elements(), ends)
    trainer = library.trainers.UnigramTrainer(
        vocab_size=vocab_size + 2, show_progress=False, unk_token=UNKNOWN, special_tokens=[UNKNOWN]
    )
    with on_all_cores():  # A third less time on two cores. BPE would take longer.
        learned = _trained(library.Tokenizer(library.models.Unigram()), trainer, pre_tokens)["vocab"]
    # The trainer sums in the random order of a hash table. So that every run learns the same, round scores to four
    # digits, which removes the noise (some 1e-11), and give the least score to the characters that it had pruned: it
    # gave them scores in steps of 1e-4 above the least, in that random order.
    scores = {piece: round(score, 4) for piece, score in learned if piece not in (UNKNOWN, LINE_END)}
    least = min(scores.values())
    for character in scores.keys() & set(characters):
        if scores[character] <= least + 1e-4 * len(characters):
            scores[character] = least
    ranked = sorted(scores, key=lambda piece: (-scores[piece], piece))
    # If vocab_size is hardly larger than the number of characters, the trainer keeps more pieces than it was asked for.
    longer = [piece for piece in ranked if len(piece) > 1][: vocab_size - len(characters)]
    kept = {*characters, *longer}
    byte_pieces = BYTES if byte_fallback else ()
    pieces = [(UNKNOWN, 0.0), *((piece, least) for piece in byte_pieces)]
    pieces += [(piece, scores[piece]) for piece in ranked if piece in kept]
    return _with_pre_tokenizer(library.models.Unigram(pieces, unk_id=UNKNOWN_ID, byte_fallback=byte_fallback))


LEARNERS: dict[str, Callable[..., Any]] = {
    "char": _learn_characters,
    "byte": _learn_bytes,
    "bpe": _learn_bpe,
    "wordpiece": _learn_wordpiece,
    "unigram": _learn_unigram,
}


def _bpe(pieces: Iterable[str], merges: list[tuple[str, str]], *, byte_fallback: bool = False) -> Any:
    byte_pieces = BYTES if byte_fallback else ()
    ids = {piece: index for index, piece in enumerate([UNKNOWN, *byte_pieces, *pieces])}
    return hugging_face().models.BPE(ids, merges, unk_token=UNKNOWN, byte_fallback=byte_fallback)


def _with_pre_tokenizer(model: Any) -> Any:
    """A tokenizer whose pieces stay inside the PRE_TOKENS of a line."""
    tokenizer = hugging_face().Tokenizer(model)
    tokenizer.pre_tokenizer = _pre_tokenizer()
    return tokenizer


def _pre_tokenizer() -> Any:
    library = hugging_face()
    return library.pre_tokenizers.Split(library.Regex(PRE_TOKENS), behavior="isolated")


def _trained(tokenizer: Any, trainer: Any, texts: Iterable[str]) -> dict[str, Any]:
    """The trained model alone, without the library's list of added tokens, so that no text is read as one of them."""
    in_thread(lambda: tokenizer.train_from_iterator(texts, trainer)).result()
    return json.loads(tokenizer.to_str())["model"]


def _characters(texts: Iterable[str]) -> list[str]:
    return sorted(set(chain.from_iterable(texts)))


def _check_room(vocab_size: int, characters: int) -> None:
    """Refuse a vocabulary without room for the single characters, and warn of one that they fill by more than half."""
    if vocab_size < characters:
        raise ConfigError(
            f"text.tokenizer.vocab_size: {vocab_size} is less than the {characters} pieces that the single characters "
            "of the training text need; raise it to that or more, or lower text.tokenizer.character_coverage"
        )
    if characters > 0.5 * vocab_size:
        log.warning(
            "single characters take %d of the %d pieces of text.tokenizer.vocab_size: raise it, or lower "
            "text.tokenizer.character_coverage",
            characters,
            vocab_size,
        )
