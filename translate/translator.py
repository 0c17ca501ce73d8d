"""Text in, text out, over one saved model."""

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from translate.config.decoding import OWN_SETTINGS, DecodingConfig
from translate.config.loading import config_to_dict
from translate.config.problems import check
from translate.data.dataset import Ids
from translate.decoding.batch_size import AdaptiveBatchSize
from translate.decoding.ensemble import Ensemble
from translate.decoding.hypothesis import Hypothesis
from translate.decoding.limits import max_scored_length, max_source_length
from translate.decoding.search import search
from translate.decoding.teacher_forcing import log_probabilities
from translate.errors import CheckpointError, ConfigError, DataError
from translate.line_warnings import Limits, LineWarnings
from translate.model_file import SavedModel
from translate.system.allocation import explained_lack_of_memory
from translate.system.device import prepare_cpu, resolve_device

LINE_BREAK = re.compile(r"\r\n|[\r\n]")  # not U+2028 and the like, which are part of a sentence (see data/lines.py)
MAX_N_BEST = 1000  # translations of one sentence, samples or hypotheses of a beam, that may be asked for


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    `log_probability` (a natural logarithm) and `length` (in tokens) include the end of the sentence; `score` is what
    the search ranked by. `finished` is False if the length limit cut the translation off.
    """

    text: str
    log_probability: float
    score: float
    length: int
    finished: bool


class Translator:
    """A saved model that translates, or several with the same vocabularies that translate together.

    Settings are those of the first. (After os.fork, PyTorch's threads hang in the child: there, first call
    torch.set_num_threads(1).)

    Raises:
        ValueError: the models tokenize or number text differently.

    >>> Translator.load(Path("model.safetensors")).translate(["Ein Mann fährt Fahrrad."])
    ["A man is riding a bicycle."]
    """

    def __init__(self, saved: SavedModel, *others: SavedModel) -> None:
        if any((each.source, each.target) != (saved.source, saved.target) for each in others):
            raise ValueError("models with different tokenizers or vocabularies cannot form an ensemble")
        self.model = Ensemble([each.model() for each in (saved, *others)]) if others else saved.model()
        # Without their weights, which the model has.
        self.saved, *self.others = (replace(each, weights={}) for each in (saved, *others))
        self.config = saved.config
        self._batch_size = AdaptiveBatchSize()

    @classmethod
    def load(cls, path: str | Path | Sequence[str | Path], device: str | torch.device = "auto") -> "Translator":
        """Read a model file, or several as an ensemble.

        Raises:
            ValueError: no file is given.
            CheckpointError: a file is missing or damaged, or the models have different languages or vocabularies.
            ConfigError: the device is not available.
            TrainingError: the device has no room for the weights.
        """
        paths = [path] if isinstance(path, str | Path) else list(path)
        if not paths:
            raise ValueError("no model file is given")
        prepare_cpu()
        where = resolve_device(str(device))
        with explained_lack_of_memory(lambda: "for the model's weights; free some memory, or use another device"):
            first, *others = (SavedModel.load(Path(each)) for each in paths)
            for each, other in zip(paths[1:], others, strict=True):
                if other.target.holds_labels != first.target.holds_labels:
                    raise CheckpointError(f"{each} and {paths[0]} are of two kinds: one translates, the other labels")
                if other.languages != first.languages:
                    raise CheckpointError(
                        f"{each} is for {' to '.join(other.languages)}, and {paths[0]} for "
                        f"{' to '.join(first.languages)}: an ensemble is for the same languages"
                    )
                if (other.source, other.target) != (first.source, first.target):
                    raise CheckpointError(
                        f"{each} and {paths[0]} have different tokenizers or vocabularies, and cannot form an "
                        "ensemble; train them with the same `text` section on the same text"
                    )
            translator = cls(first, *others)
            translator.model.to(where)
        return translator

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def predicts_labels(self) -> bool:
        """Whether the model labels text instead of translating it."""
        return self.saved.target.holds_labels

    def translate(self, lines: Iterable[str], **settings: str | int | float | None) -> list[str]:
        """The best translation of each line; an empty one for an empty line.

        `settings` are those of the section `decoding`, such as `search`, `beam_size` or `max_ratio`; any left out are
        the model's own.

        Raises:
            TypeError: `lines` is a single text, or one of them is not text.
            ConfigError: a setting is unknown, out of range, or does not apply to the search; or the tokenizer's library
                is missing.
            DataError: memory runs out with a single sentence, or a line cannot be tokenized.
        """
        return [best[0].text for best in self.n_best(lines, 1, self.settings(**settings))]

    def n_best(
        self,
        lines: Iterable[str],
        n: int,
        settings: DecodingConfig | None = None,
        *,
        first_line: int = 1,
        warnings: LineWarnings | None = None,
        **asked: str | int | float | None,
    ) -> list[list[Translation]]:
        """At most `n` translations of each line, best first; settings as in `translate`, or those of `settings()`.

        `first_line` is the number of the first of `lines`, for warnings and for sampling. `warnings` are those of a
        text of which `lines` are a portion; without them, this portion is warned of by itself.

        Raises:
            TypeError: `lines` is a single text, one of them is not text, `n` or `first_line` is not a whole number, or
                settings are given twice.
            ValueError: `n` or `first_line` is less than 1.
            ConfigError: greedy search, or a beam narrower than `n`, cannot give that many. Sampling can, up to 1000.
                And as in `translate`.
            DataError: as in `translate`.
        """
        lines = texts(lines)
        settings = self._settings(settings, asked)
        sources = self.saved.source.encode(lines)
        return self.n_best_of_ids(sources, n, settings, first_line=first_line, warnings=warnings)

    def n_best_of_ids(
        self,
        sources: Sequence[Ids],
        n: int,
        settings: DecodingConfig,
        *,
        first_line: int = 1,
        warnings: LineWarnings | None = None,
    ) -> list[list[Translation]]:
        """The same for lines that are encoded already (without bos and eos); needs no tokenizer."""
        n, first_line = operator.index(n), operator.index(first_line)
        if n < 1 or first_line < 1:
            raise ValueError(f"n and first_line must be at least 1, not {n} and {first_line}")
        if n > MAX_N_BEST:
            raise ConfigError(f"n-best is limited to {MAX_N_BEST} translations of each sentence, not {n}")
        if self.predicts_labels and n > 1 and settings.search != "sample":
            # A label is one token, so that a beam of n finds the n best.
            settings = settings.model_copy(update={"search": "beam", "beam_size": n})
        if settings.search == "greedy" and n > 1:
            raise ConfigError(
                f"greedy search finds one translation of each sentence, not {n}; "
                "use beam search (--search beam) or sampling"
            )
        if settings.search == "beam" and n > settings.beam_size:
            raise ConfigError(
                f"a beam of {settings.beam_size} cannot give {n} translations; use a beam size (--beam-size) of {n}"
            )
        (warnings or LineWarnings()).of_sources(self.saved, sources, self._limits(settings), first_line)
        found = self._batch_size.run_with_settings(
            lambda settings: search(self.model, sources, settings, n_best=n, first_number=first_line - 1),
            settings,
            self.model,
            map(len, sources),
        )
        return [[self._translation(hypothesis) for hypothesis in hypotheses] for hypotheses in found]

    def log_probabilities(
        self,
        lines: Iterable[str],
        translations: Iterable[str],
        settings: DecodingConfig | None = None,
        *,
        first_line: int = 1,
        warnings: LineWarnings | None = None,
        **asked: str | int | float | None,
    ) -> list[float]:
        """The natural logarithm of the probability of each line's translation, including its end.

        Settings, `first_line` and `warnings` are as in `n_best`; of the settings, only those count that limit how much
        of a line is read, and how long a translation may be. The probability is that of the tokens that the tokenizer
        makes of the text, although other tokens may spell the same text; 0 for more tokens than any search with these
        settings would give. A word that is not in the vocabulary counts as the token for unknown words.

        Raises:
            TypeError: one of them is a single text, or contains something that is not text.
            ConfigError: the model gives labels; `n_best` has the log-probabilities of these. And as in `translate`.
            DataError: there is not one translation for each line; and as in `translate`.
        """
        lines, translations = texts(lines), texts(translations)
        if self.predicts_labels:
            raise ConfigError(
                "this model predicts labels, not translations; use n_best (--n-best) for their log-probabilities"
            )
        if len(lines) != len(translations):
            raise DataError(f"{len(lines)} lines and {len(translations)} translations: give one for each line")
        settings = self._settings(settings, asked)
        sources = self.saved.source.encode(lines)
        targets = self.saved.target.encode(translations)
        limits, warnings = self._limits(settings), warnings or LineWarnings()
        warnings.of_sources(self.saved, sources, limits, first_line)
        warnings.of_targets(self.saved, targets, limits, first_line)
        return self.log_probabilities_of_ids(sources, targets, settings)

    def log_probabilities_of_ids(
        self, sources: Sequence[Ids], targets: Sequence[Ids], settings: DecodingConfig
    ) -> list[float]:
        """The same for lines and translations that are encoded already (without bos and eos)."""
        found = self._batch_size.run_with_settings(
            lambda settings: log_probabilities(self.model, sources, targets, settings),
            settings,
            self.model,
            (max(map(len, pair)) for pair in zip(sources, targets, strict=True)),
        )
        return found.tolist()

    def settings(self, **asked: str | int | float | None) -> DecodingConfig:
        """The model's own section `decoding`, with the settings in `asked` that are not None replaced.

        Raises:
            ConfigError: a setting is unknown, out of range, or does not apply to the search.
        """
        given = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in asked.items()
            if value is not None
        }
        values = config_to_dict(self.config)
        config, problems = check({**values, "decoding": {**values["decoding"], **given}}, lambda _: "search settings")
        if config is None:
            raise ConfigError("\n".join(problems))
        chosen = config.decoding.search
        for kind, own in OWN_SETTINGS.items():
            if kind != chosen and (idle := sorted(given.keys() & own)):
                raise ConfigError(
                    f"{chosen} search has no {' and no '.join(idle)}; "
                    f"leave it out, or use {kind} search (--search {kind})"
                )
        return config.decoding

    def _settings(
        self, settings: DecodingConfig | None, asked: Mapping[str, str | int | float | None]
    ) -> DecodingConfig:
        """Those given as a whole, or one by one. TypeError if they are given in both ways, or in another."""
        if settings is None:
            return self.settings(**asked)
        if not isinstance(settings, DecodingConfig):
            raise TypeError(
                f"settings are given as {settings!r}; give them by name (beam_size=8), or those of settings()"
            )
        if asked:
            raise TypeError(f"settings are given twice; give {', '.join(asked)} to settings()")
        return settings

    def unknown_words(self, line: str) -> list[str]:
        """The words of a line that are not in the vocabulary, and therefore all look the same to the model.

        Raises:
            ConfigError: the tokenizer's library is missing.
            DataError: the line cannot be tokenized.
        """
        return self.saved.source.unknown(line)

    def _limits(self, settings: DecodingConfig) -> Limits:
        return Limits(
            trained=min(saved.longest_source for saved in (self.saved, *self.others)),
            read=max_source_length(self.model, settings),
            scored=max_scored_length(self.model, settings),
            positions=self.model.max_length,
        )

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        return Translation(
            text=self._on_one_line(self.saved.target.decode(hypothesis.tokens)),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            length=hypothesis.length,
            finished=hypothesis.finished,
        )

    def _on_one_line(self, text: str) -> str:
        """A translation with line breaks, which byte tokens can spell, as spaces, and none at its end; or a label."""
        if self.predicts_labels:
            return text
        return LINE_BREAK.sub(lambda found: " " if found.end() < len(text) else "", text)


def texts(lines: Iterable[str]) -> list[str]:
    """All of `lines`, which may be an iterator.

    TypeError if a line is not text, or if a single text, a mapping or a set is given: they are iterables, too.
    """
    if isinstance(lines, str | bytes):
        raise TypeError(f"{lines[:40]!r} is a single text; give a list: [text]")
    if isinstance(lines, Mapping):
        raise TypeError("a mapping is no list of lines, and its keys are not text to translate; give a list: [text]")
    if isinstance(lines, set | frozenset):
        raise TypeError("a set has no order in which translations could be returned; give a list: [text]")
    lines = list(lines)
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise TypeError(f"line {number} is not text, but {line!r}")
    return lines
