"""The settings of `data`: which text a run trains on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from translate.config.section import AnyPath, Conflict, Section

Split = Annotated[str, Field(min_length=1)]


class FilePair(Section):
    """Two files that correspond line by line; plain, .gz or .zst."""

    source: AnyPath = Field(
        description="File with one source sentence per line. Wildcards, as in `crawl/*.de.gz`, take all matching files."
    )
    target: AnyPath = Field(
        description="File with the translations, line by line; with the same wildcards, as in `crawl/*.en.gz`."
    )


class Corpus(Section):
    """A training corpus: a split, or two files as for `valid`."""

    split: Split | None = Field(None, description="Name of a split in `root`. Or give source and target.")
    source: AnyPath | None = Field(None, description="File with one source sentence per line; wildcards allowed.")
    target: AnyPath | None = Field(
        None, description="File with the translations, line by line; with the same wildcards."
    )
    weight: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1,
        description="How many times each pair occurs in an epoch. Use it to give a small corpus its share beside a "
        "large one. Vocabularies count each pair once. A batch may hold a pair several times, because it has sentences "
        "of one length.",
    )
    vocabulary: bool = Field(
        True,
        description="Whether vocabularies are learned from this corpus. Set `false` for machine translations: the "
        "vocabularies then stay those of a model trained without them, so both models can form an ensemble.",
    )

    def conflicts(self) -> Iterator[Conflict]:
        files = [file for file in (self.source, self.target) if file is not None]
        if len(files) != (2 if self.split is None else 0):
            yield Conflict(
                "a corpus is either a split or two files; give split, or source and target",
                ("split", "source", "target"),
            )

    @classmethod
    def of(cls, text: "str | FilePair | Corpus") -> "Corpus":
        """The corpus that a short form stands for: the name of a split, or two files of validation text."""
        match text:
            case str():
                return cls(split=text)
            case FilePair():
                return cls(source=text.source, target=text.target)
        return text


class ParallelFilterConfig(Section):
    """Which training pairs are dropped, besides those with an empty side. Their numbers and the reasons are printed.

    Validation and test stay whole.
    """

    max_tokens: PositiveInt = Field(200, description="Drop pairs that have more tokens than this on either side.")
    max_ratio: Annotated[float, Field(ge=1.0)] | None = Field(
        None, description="Drop pairs in which one side has more than this many times as many tokens as the other."
    )
    untranslated: bool = Field(
        True,
        description="Drop pairs in which a side has no letter or digit at all, such as the lines `@@` in Multi30k.",
    )
    identical: bool = Field(
        False, description="Drop pairs that have the same text on both sides, which teach a model to copy."
    )
    repeated: bool = Field(
        False,
        description="Keep each pair only once: in the corpus with the greatest weight, where it occurs first.",
    )


class FoldersConfig(Section):
    """What both kinds of text have in common: the folder that it is in, and that of its encoded form."""

    kind: str
    root: AnyPath = Field(
        Path("data"),
        description="Folder with the text files: `SPLIT.LANGUAGE` for parallel text, `SPLIT.tsv` for labelled text; "
        "plain, .gz or .zst.",
    )
    cache: AnyPath | None = Field(
        None,
        description="Folder for encoded corpora, reused while text and settings are unchanged. "
        "Default: checkpoints/.cache.",
    )


class ParallelDataConfig(FoldersConfig):
    """Parallel text: sentences and their translations."""

    kind: Literal["parallel"] = Field("parallel", description="Sentences and their translations.")
    source: str = Field("de", min_length=1, description="Source language: its code, which is also the file ending.")
    target: str = Field("en", min_length=1, description="Target language: its code, which is also the file ending.")
    train: Split | Corpus | Annotated[list[Split | Corpus], Field(min_length=1)] = Field(
        "train",
        description="Training text: the name of a split in `root`; or a corpus, such as two files; or a list of these.",
    )
    valid: Split | FilePair = Field(
        "val", description="Validation text: the name of a split in `root`, or two files, by name."
    )
    download: bool = Field(
        False,
        description="Download Multi30k, German and English, into `root` if that folder is missing or empty, or holds "
        "only a part of an interrupted download.",
    )
    filter: ParallelFilterConfig = Field(ParallelFilterConfig(), description="Which training pairs are dropped.")

    @property
    def corpora(self) -> list[Corpus]:
        """The training text: one corpus or several."""
        return [Corpus.of(text) for text in (self.train if isinstance(self.train, list) else [self.train])]

    @property
    def texts(self) -> list[Corpus]:
        """The training and the validation text."""
        return [*self.corpora, Corpus.of(self.valid)]

    @property
    def splits(self) -> list[str]:
        """Those splits of `root` that are training or validation text."""
        return [text.split for text in self.texts if text.split is not None]

    def conflicts(self) -> Iterator[Conflict]:
        for key, language in (("source", self.source), ("target", self.target)):
            if "/" in language:
                yield Conflict(
                    f"{key} is the code of a language, not a file such as {language!r}; files are named in train: "
                    "{source: FILE, target: FILE}",
                    (key,),
                )
        if self.source == self.target and self.splits:
            yield Conflict(
                f"source and target are both {self.source!r}, but must tell the files of a split apart; name two "
                "languages, or, for text in one language, two files each in train and valid",
                ("source", "target"),
            )


class LabelledFilterConfig(Section):
    """Which labelled training texts are dropped, besides empty ones. Validation and test stay whole."""

    max_tokens: PositiveInt = Field(200, description="Drop texts with more tokens than this.")


class LabelledDataConfig(FoldersConfig):
    """Labelled text: one `label<TAB>text` per line."""

    kind: Literal["labelled"] = Field("labelled", description="Texts, each with a label.")
    source: str = Field("de", min_length=1, description="Language of the texts: its code, for the tokenizer.")
    train: Split = Field("train", description="Training text: the name of a split in `root`.")
    valid: Split = Field("val", description="Validation text: the name of a split in `root`.")
    filter: LabelledFilterConfig = Field(LabelledFilterConfig(), description="Which training texts are dropped.")

    @property
    def target(self) -> None:
        """Labels have no language."""
