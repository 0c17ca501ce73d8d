"""Learns the codecs of both languages from training text, as the settings say.

The vocabulary comes from the whole text: which pairs are left out of training is decided later, and not here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from translate.config.schema import TextConfig, WordTokenizerConfig
from translate.errors import ConfigError
from translate.text.codec import Codec
from translate.text.spacing import SpacingCounts
from translate.text.tokenizers import WordTokenizer
from translate.text.vocabulary import Vocabulary, build_vocabulary


def build_codecs(
    config: TextConfig, languages: tuple[str, str], source: Sequence[str], target: Sequence[str]
) -> tuple[Codec, Codec]:
    """The codecs of the source and the target language, from parallel lines of training text.

    Raises:
        ConfigError: spaCy or its model is missing, it does not know the language, or no word would be kept.
    """
    words = config.tokenizer
    source_tokenizer, source_counts = _learn(WordTokenizer(languages[0], words.source_model, words.lowercase), source)
    target_tokenizer, target_counts = _learn(WordTokenizer(languages[1], words.target_model, words.lowercase), target)
    if config.joint_vocabulary:
        source_vocabulary = target_vocabulary = _vocabulary(words, source_counts + target_counts)
    else:
        source_vocabulary, target_vocabulary = _vocabulary(words, source_counts), _vocabulary(words, target_counts)
    return Codec(source_tokenizer, source_vocabulary), Codec(target_tokenizer, target_vocabulary)


def _learn(tokenizer: WordTokenizer, lines: Sequence[str]) -> tuple[WordTokenizer, Counter[str]]:
    """The tokenizer with the spacing of these lines, and how often each word stands in them."""
    spacing = SpacingCounts()
    counts: Counter[str] = Counter()
    for tokens, space_after in tokenizer.cut(lines):
        spacing.add(tokens, space_after)
        counts.update(tokens)
    return replace(tokenizer, spacing=spacing.learn()), counts


def _vocabulary(config: WordTokenizerConfig, counts: Counter[str]) -> Vocabulary:
    vocabulary = build_vocabulary(counts, min_freq=config.min_freq, max_size=config.max_size)
    if not vocabulary.words:
        most = max(counts.values(), default=0)
        raise ConfigError(
            f"text.tokenizer.min_freq: {config.min_freq} keeps no word of the training text, "
            f"whose most frequent one occurs {most} times; lower it"
        )
    return vocabulary
