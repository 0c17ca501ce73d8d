"""The settings of `text`: how text becomes token ids."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from translate.config.section import Conflict, Fraction, Section, Size

Lowercase = Annotated[bool, Field(description="Lower-case the text before anything else.")]


class WholeWordsConfig(Section):
    """What both kinds of words have in common: a vocabulary of the most frequent ones."""

    kind: str
    lowercase: Lowercase = False
    min_freq: Size = Field(1, description="Keep words that occur at least this often in the training text.")
    max_size: Size | None = Field(None, description="Keep at most this many words, not counting specials.")


class WordTokenizerConfig(WholeWordsConfig):
    """Words, split by spaCy."""

    kind: Literal["word"] = Field("word", description="Words of spaCy's tokenizer.")
    source_model: str | None = Field(
        None,
        description="spaCy model whose tokenizer splits the source: the name of its package, or the whole path of its "
        "folder. Default: `spacy.blank(language)`, which needs no download.",
    )
    target_model: str | None = Field(None, description="The same for the target.")


class WhitespaceTokenizerConfig(WholeWordsConfig):
    """What stands between white space: text that is already tokenized, or symbols such as phonemes and glosses."""

    kind: Literal["whitespace"] = Field("whitespace", description="What white space separates in the text.")


class CharTokenizerConfig(Section):
    """Single characters (Unicode code points)."""

    kind: Literal["char"] = Field("char", description="Single characters.")
    lowercase: Lowercase = False
    min_freq: Size = Field(1, description="Keep characters that occur at least this often.")


class ByteTokenizerConfig(Section):
    """The bytes of UTF-8: 256 tokens, the same for every language. Nothing is ever unknown."""

    kind: Literal["byte"] = Field("byte", description="Bytes of UTF-8.")


class SubwordConfig(Section):
    """What all kinds of subwords have in common."""

    kind: str
    lowercase: Lowercase = False
    truecase: bool = Field(
        False,
        description="Give the first word of a line the case it has elsewhere in the training text. Translations then "
        "begin with a capital letter. Text stays as it is if more than a tenth of its lines begin with a small letter.",
    )
    character_coverage: float = Field(
        1.0,
        gt=0.0,
        le=1.0,
        description="Learn only from the most frequent characters, which together make up this share of the training "
        "text. The others get no piece. For text from the web, with characters of many scripts, try 0.9999.",
    )
    vocab_size: Size = Field(
        6000, description="Maximum number of pieces to learn; specials and single bytes do not count."
    )

    def conflicts(self) -> Iterator[Conflict]:
        if self.lowercase and self.truecase:
            yield Conflict(
                "lowercase leaves truecase nothing to do; set only one of the two", ("lowercase", "truecase")
            )


ByteFallback = Annotated[
    bool,
    Field(description="Split characters that the training text lacks into bytes, so that nothing is ever unknown."),
]
MergeFrequency = Annotated[Size, Field(description="Merge only pairs that occur at least this often.")]


class BpeTokenizerConfig(SubwordConfig):
    """Byte-pair encoding of characters (Sennrich et al., 2016): subwords, merged from frequent pairs."""

    kind: Literal["bpe"] = Field("bpe", description="Byte-pair encoding.")
    min_freq: MergeFrequency = 2
    byte_fallback: ByteFallback = False
    dropout: Fraction = Field(
        0.0,
        description="BPE-dropout (Provilkov et al., 2020): leave out each merge with this probability during training, "
        "so that every epoch segments the text differently; try 0.1.",
    )


class WordPieceTokenizerConfig(SubwordConfig):
    """WordPiece as in BERT (Devlin et al., 2019): learned by merging like BPE; splits off the longest piece first."""

    kind: Literal["wordpiece"] = Field("wordpiece", description="WordPiece.")
    min_freq: MergeFrequency = 2


class UnigramTokenizerConfig(SubwordConfig):
    """Unigram language model (Kudo, 2018): pieces have probabilities, and text is split in the most probable way."""

    kind: Literal["unigram"] = Field("unigram", description="Unigram language model.")
    byte_fallback: ByteFallback = False


class TextConfig(Section):
    """How text becomes token ids, and back."""

    tokenizer: Annotated[
        WordTokenizerConfig
        | WhitespaceTokenizerConfig
        | CharTokenizerConfig
        | ByteTokenizerConfig
        | BpeTokenizerConfig
        | WordPieceTokenizerConfig
        | UnigramTokenizerConfig,
        Field(discriminator="kind"),
    ] = Field(WordTokenizerConfig(), description="How text is split into tokens.")
    joint_vocabulary: bool = Field(False, description="One vocabulary for both languages instead of one for each.")
    target_min_freq: int = Field(
        0,
        ge=0,
        le=10_000_000,
        description="The target has only those tokens that occur at least this often in the target side of the "
        "training text (subword-nmt's vocabulary threshold). Single characters need to occur but once, bytes not at "
        "all, and BPE keeps what its merges need. Of a joint vocabulary, 1 leaves out what only the source has, which "
        "saves time. Default: all.",
    )
