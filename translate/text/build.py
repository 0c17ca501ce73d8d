"""Learns the codecs of both languages from training text, as the settings say.

Vocabularies are learned from all pairs, even those that data/selection.py later drops from training.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from translate.config.text import TextConfig, WhitespaceTokenizerConfig, WholeWordsConfig, WordTokenizerConfig
from translate.errors import ConfigError
from translate.system.pool import CHUNK, chunks, mapped
from translate.text.codec import Codec, Codecs, compose
from translate.text.labels import LabelTokenizer
from translate.text.piece_learning import Rereadable, learn_pieces, with_frequent_pieces
from translate.text.spacing import SpacingCounts
from translate.text.tokenizers import Tokenizer
from translate.text.vocabulary import Vocabulary, build_vocabulary
from translate.text.whitespace import WhitespaceTokenizer
from translate.text.words import WordTokenizer

# Spacing is learned from this many lines. More lines have more pairs of neighbours, but hardly change the rules.
SPACING_LINES = 200_000

T = TypeVar("T", bound=Tokenizer)
Words = WordTokenizer | WhitespaceTokenizer
Sides = list[tuple[str, Iterable[str]]]  # for each side, its language code, which both may share, and its lines


def build_codecs(
    config: TextConfig, languages: tuple[str, str | None], source: Iterable[str], target: Iterable[str]
) -> Codecs:
    """The codecs of the source and the target language, from parallel lines of training text.

    The lines are read more than once, and not kept in memory. A target without a language holds labels. Source text is
    normalized to NFC, so that an umlaut is the same to a model however it was typed. Target text stays as it is,
    because translations are compared with references.

    Raises:
        ConfigError: a library or a spaCy model is missing, spaCy does not know the language, or the settings keep no
            word or character, or leave no room for the characters of the text.
        DataError: there is no text to learn pieces from, or it cannot be read or tokenized.
    """
    source_language, target_language = languages
    text: Sides = [(source_language, Rereadable(lambda: map(compose, source)))]
    if target_language is not None:
        text.append((target_language, target))
    if isinstance(config.tokenizer, WholeWordsConfig):
        codecs = _word_codecs(config, config.tokenizer, text)
    else:
        codecs = _piece_codecs(config, text)
    source_codec = replace(codecs[0], composes=True)
    if target_language is None:
        return Codecs(source_codec, _label_codec(target))
    target_codec = codecs[1]
    if config.joint_vocabulary:
        source_codec = replace(source_codec, vocabulary=_in_order(source_codec.vocabulary, target_codec.vocabulary))
    return Codecs(source_codec, target_codec)


def _word_codecs(
    config: TextConfig, settings: WordTokenizerConfig | WhitespaceTokenizerConfig, text: Sides
) -> list[Codec]:
    languages = [language for language, _ in text]
    tokenizers: Sequence[Words]
    match settings:
        case WordTokenizerConfig():
            tokenizers = _spacy_tokenizers(settings, languages)
        case WhitespaceTokenizerConfig():
            tokenizers = [WhitespaceTokenizer(language, settings.lowercase) for language in languages]
    learned = [_learn(tokenizer, lines) for tokenizer, (_, lines) in zip(tokenizers, text, strict=True)]
    counts = [counts for _, counts in learned]
    if config.joint_vocabulary:
        vocabularies = [_vocabulary(settings, sum(counts, Counter()))] * len(text)
    else:
        vocabularies = [_vocabulary(settings, of_side) for of_side in counts]
    if config.target_min_freq:
        vocabularies[1] = _frequent_words(vocabularies[1], counts[1], config.target_min_freq)
    return [Codec(tokenizer, vocabulary) for (tokenizer, _), vocabulary in zip(learned, vocabularies, strict=True)]


def _spacy_tokenizers(config: WordTokenizerConfig, languages: Sequence[str]) -> list[WordTokenizer]:
    models = (config.source_model, config.target_model)
    for model in filter(None, models):
        if "/" in model and not Path(model).is_absolute():
            # spaCy would look for it in the working directory, now and whenever the finished model gets text.
            raise ConfigError(
                f"spaCy model {model!r} (text.tokenizer.source_model or target_model) is a folder: give its whole path"
            )
    tokenizers = [
        WordTokenizer(language, model, config.lowercase)
        for language, model in zip(languages, models, strict=False)  # no target side if it holds labels
    ]
    for tokenizer in tokenizers:  # All of them first: counting the words of one side may take minutes.
        tokenizer.check()
    return tokenizers


def _piece_codecs(config: TextConfig, text: Sides) -> list[Codec]:
    settings = config.tokenizer.model_dump(exclude={"dropout"})
    if config.joint_vocabulary:
        learned = learn_pieces(text, **settings)
    else:
        learned = [tokenizer for side in text for tokenizer in learn_pieces([side], **settings)]
    if config.target_min_freq:
        _, lines = text[1]
        _, counts = _learn(learned[1], lines)
        learned[1] = with_frequent_pieces(learned[1], counts, config.target_min_freq)
    return [Codec(tokenizer, Vocabulary(tokenizer.pieces)) for tokenizer in learned]


def _in_order(joint: Vocabulary, target: Vocabulary) -> Vocabulary:
    """A joint vocabulary that begins with the words that the target has of it, so that their ids are the same."""
    return Vocabulary(target.words + tuple(word for word in joint.words if word not in target))


def _label_codec(lines: Iterable[str]) -> Codec:
    tokenizer = LabelTokenizer()
    labels = set(chain.from_iterable(tokenizer.tokenize(lines)))
    return Codec(tokenizer, Vocabulary(tuple(sorted(labels))))


def _learn(tokenizer: T, lines: Iterable[str]) -> tuple[T, Counter[str]]:
    """The tokenizer with the spacing of these lines, if it learns that, and how often each token occurs in them."""
    spacing = SpacingCounts()
    counts: Counter[str] = Counter()
    tasks = ((number * CHUNK < SPACING_LINES, chunk) for number, chunk in enumerate(chunks(lines, CHUNK)))
    with closing(mapped(partial(_count, tokenizer), tasks, f"counting words of {tokenizer.language}")) as counted:
        for words, neighbours in counted:
            counts.update(words)
            spacing.update(neighbours)
    if isinstance(tokenizer, WordTokenizer):
        tokenizer = replace(tokenizer, spacing=spacing.learn())
    return tokenizer, counts


def _count(tokenizer: Tokenizer, task: tuple[bool, list[str]]) -> tuple[Counter[str], SpacingCounts]:
    """How often each token occurs in the lines of a task and, if it asks for that, how their neighbours are spaced."""
    with_spacing, lines = task
    if not (with_spacing and isinstance(tokenizer, WordTokenizer)):
        return Counter(chain.from_iterable(tokenizer.tokenize(lines))), SpacingCounts()
    spacing = SpacingCounts()
    counts: Counter[str] = Counter()
    for tokens, space_after in tokenizer.tokenize_with_spaces(lines):
        spacing.add(tokens, space_after)
        counts.update(tokens)
    return counts, spacing


def _frequent_words(vocabulary: Vocabulary, counts: Counter[str], min_freq: int) -> Vocabulary:
    """The words of a vocabulary that are counted at least so often. ConfigError if that is none."""
    words = tuple(word for word in vocabulary.words if counts[word] >= min_freq)
    if not words:
        most = max(counts[word] for word in vocabulary.words)
        remedy = "lower it" if most else "lower text.tokenizer.min_freq or raise text.tokenizer.max_size"
        raise ConfigError(
            f"text.target_min_freq: {min_freq} keeps no word of the target text, in which the most frequent word of "
            f"the vocabulary occurs {most} times; {remedy}"
        )
    return Vocabulary(words)


def _vocabulary(config: WholeWordsConfig, counts: Counter[str]) -> Vocabulary:
    vocabulary = build_vocabulary(counts, min_freq=config.min_freq, max_size=config.max_size)
    if not vocabulary.words:
        most = max(counts.values(), default=0)
        raise ConfigError(
            f"text.tokenizer.min_freq: {config.min_freq} keeps no word of the training text, "
            f"whose most frequent one occurs {most} times; lower it"
        )
    return vocabulary
