"""Text to words and back: spaCy splits text, and spacing learned from training text joins it again.

This is the only file that uses spaCy, and it imports it only to split text: detokenizing does without it.
"""

import difflib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from translate.errors import ConfigError, DataError
from translate.text.casing import lower
from translate.text.languages import base_code
from translate.text.spacing import Spacing

# The packages that spaCy calls to split text in some languages.
HELPERS = {"ja": ("SudachiPy", "SudachiDict-core"), "ko": ("natto-py",), "th": ("pythainlp",), "vi": ("pyvi",)}
# spaCy's time grows with the square of the length of a run without spaces, such as a line of dashes: minutes for 20,000
# characters. Such runs are therefore split into parts of this many characters first.
MAX_RUN = 1000
LONG_RUN = re.compile(rf"\S{{{MAX_RUN + 1},}}")
# spaCy keeps half a kilobyte for each word that it has seen, and forgets none; large corpora have millions. After so
# many new ones, its tokenizer is made anew, which takes 30 ms.
MAX_NEW_WORDS = 100_000


@dataclass(frozen=True)
class WordTokenizer:
    """Words as spaCy splits them, and the spacing that joins them again.

    One plain space between words is not a token, but any further white space (the second of two spaces, a no-break
    space, a tab) is, as in the published vocabularies of Multi30k. White space around a line is stripped.
    """

    language: str
    model: str | None = None
    lowercase: bool = False
    spacing: Spacing = field(default_factory=Spacing)

    @property
    def packages(self) -> tuple[str, ...]:
        if self.model is not None:
            return ("spacy", self.model)
        return ("spacy", *HELPERS.get(base_code(self.language), ()))

    def check(self) -> None:
        """ConfigError if spaCy cannot be imported, does not know the language, or lacks the model or a package."""
        _spacy_tokenizer(self.language, self.model)

    def tokenize(self, lines: Iterable[str]) -> Iterator[list[str]]:
        return (tokens for tokens, _ in self.tokenize_with_spaces(lines))

    def tokenize_with_spaces(self, lines: Iterable[str]) -> Iterator[tuple[list[str], list[bool]]]:
        """The tokens of each line, and whether a space follows each of them."""
        tokenizer = _spacy_tokenizer(self.language, self.model)
        max_words = _words_at_first(self.language, self.model) + MAX_NEW_WORDS
        for line in lines:
            if _words_known(tokenizer) > max_words:
                _spacy_tokenizer.cache_clear()
                tokenizer = _spacy_tokenizer(self.language, self.model)
            try:
                tokens = [token for part in _parts(self.normalize(line)) for token in tokenizer(part)]
            except Exception as error:  # The packages in HELPERS raise exceptions of their own.
                raise DataError(
                    f"spaCy's tokenizer for {self.language!r} cannot tokenize the line that begins with {line[:40]!r}, "
                    f"of {len(line)} characters: {error}"
                ) from error
            yield [token.text for token in tokens], [bool(token.whitespace_) for token in tokens]

    def normalize(self, line: str) -> str:
        """The line as spaCy gets it: stripped, lower-cased if that is asked for, lone surrogates replaced by `?`."""
        # The library encodes what it gets, which fails with a lone surrogate, as in a str from JSON or a file's name.
        line = line.strip().encode("utf-8", errors="replace").decode("utf-8")
        return lower(line, self.language) if self.lowercase else line

    def detokenize(self, tokens: Sequence[str]) -> str:
        return self.spacing.join(tokens)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "word",
            "language": self.language,
            "model": self.model,
            "lowercase": self.lowercase,
            "spacing": self.spacing.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "WordTokenizer":
        return cls(data["language"], data["model"], data["lowercase"], Spacing.from_dict(data["spacing"]))


def _parts(line: str) -> Iterator[str]:
    """The line, divided where a run without spaces is longer than `MAX_RUN`."""
    start = 0
    for run in LONG_RUN.finditer(line):
        for stop in range(run.start() + MAX_RUN, run.end(), MAX_RUN):
            yield line[start:stop]
            start = stop
    yield line[start:]


@cache
def _words_at_first(language: str, model: str | None) -> int:
    """How many words the tokenizer knows before it sees any text."""
    return _words_known(_spacy_tokenizer(language, model))


def _words_known(tokenizer: Any) -> int:
    return len(getattr(tokenizer, "vocab", ()))  # A trained model may have a tokenizer of any kind.


@cache
def _spacy_tokenizer(language: str, model: str | None) -> Any:
    """The tokenizer of a trained spaCy model or, if `model` is None, of spaCy's blank pipeline for the language."""
    try:
        with _without_torch() if model is None else nullcontext():
            import spacy
            import spacy.lang
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"splitting text into words needs spaCy, but the module {error.name!r} is not installed: pip install "
            "spacy. Text that is already in data.cache does not need it, and that folder can come from another machine"
        ) from error
    return _blank_tokenizer(spacy, language) if model is None else _trained_tokenizer(spacy, model)


def _trained_tokenizer(spacy: Any, model: str) -> Any:
    setting = f"spaCy model {model!r} (text.tokenizer.source_model or target_model)"
    try:
        return spacy.load(model).tokenizer
    except OSError as error:
        missing = (
            "is no folder with a model: name another one"
            if "/" in model
            else f"is not installed: python -m spacy download {model}"
        )
        raise ConfigError(f"{setting} {missing}, or leave that setting out to do without a model") from error
    except Exception as error:  # Another package may have this name, and fail in any way.
        raise ConfigError(
            f"{setting} cannot be loaded ({type(error).__name__}); name another one, or leave that setting out"
        ) from error


def _blank_tokenizer(spacy: Any, language: str) -> Any:
    known = [module.name for module in pkgutil.iter_modules(spacy.lang.__path__) if module.ispkg]
    base = base_code(language)  # spaCy knows of no regions.
    if base not in known:
        code = spacy.util.find_matching_language(base)
        near = [code] if code in known else difflib.get_close_matches(base, known, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has: {', '.join(sorted(known))} (xx is for any)."
        raise ConfigError(
            f"spaCy has no tokenizer for the language {language!r}; {hint} Subwords need none: text.tokenizer.kind=bpe"
        )
    try:
        return spacy.blank(base).tokenizer
    except Exception as error:  # Packages in HELPERS raise errors of their own if a library is missing.
        raise ConfigError(
            f"spaCy's tokenizer for {language!r} needs another package: {str(error).rstrip('.')}. "
            "Other kinds need none: text.tokenizer.kind=char or bpe"
        ) from error


@contextmanager
def _without_torch() -> Iterator[None]:
    """Let imports inside do without PyTorch, unless it is there already: with it, spaCy takes a second and 180 MB more.

    This matters in the processes of pool.py. Trained models may need PyTorch, but tokenizers do not.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment] # imports of it fail, as if it were not installed
    try:
        yield
    finally:
        del sys.modules["torch"]
