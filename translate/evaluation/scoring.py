"""The score of a saved model on text with references: translate or label, compare, and record how it was done."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from translate.config.decoding import DecodingConfig
from translate.config.loading import config_to_dict
from translate.data.cache import CorpusCache
from translate.data.corpus import TextInMemory
from translate.data.dataset import Ids
from translate.errors import DataError
from translate.evaluation.accuracy import LabelReport, count_labels
from translate.evaluation.bleu import EvaluationReport, evaluate
from translate.evaluation.reports import translations_beside
from translate.evaluation.score_warnings import form_warning, text_warnings
from translate.optimization.loss import perplexity
from translate.system.files import atomic_write, writing
from translate.system.paths import commit, exists, resolved
from translate.text.codec import Codec
from translate.translator import Translation, Translator

log = logging.getLogger("translate")


@dataclass(frozen=True)
class ScoredText:
    """The translations of a text, their scores, and all that the scores depend on."""

    translations: list[Translation]
    report: EvaluationReport | LabelReport
    details: dict[str, Any]
    blank_end: int = 0  # blank lines after the text in its files (see TextPair)

    def format(self) -> str:
        """A few aligned lines for the terminal."""
        of_references = self.details["perplexity"]
        more = "" if of_references is None else f"\n{'perplexity':<18}{of_references:6.2f}         of the references"
        return f"{self.report.format()}{more}"

    def write(self, path: Path) -> None:
        """Write the report as JSON and, beside it, the translations: as many lines as source and reference file have.

        DataError if that fails.
        """
        lines = "".join(f"{translation.text}\n" for translation in self.translations) + "\n" * self.blank_end
        report = json.dumps({**self.report.to_dict(), **self.details}, indent=2, ensure_ascii=False)
        with writing(path, DataError, "name another file with --json"):
            resolved(path).parent.mkdir(parents=True, exist_ok=True)
            if not exists(path):  # If writing ends early, it may be repeated: an empty report may be overwritten.
                path.touch()
            # To the file that a link points to, so that the link stays.
            atomic_write(resolved(translations_beside(path)), lines.encode())
            content = f"{report}\n".encode(errors="backslashreplace")  # Names of files need not be UTF-8.
            atomic_write(resolved(path), content)


def score(
    translator: Translator,
    text: TextInMemory,
    settings: DecodingConfig,
    *,
    references: Mapping[str, Sequence[str]] = MappingProxyType({}),
    checkpoints: Sequence[Path] = (),
    tokenized: bool = False,
) -> ScoredText:
    """Translate `text` and score the result; `tokenized` adds BLEU as the torchtext tutorials compute it.

    `references` are further translations of the whole text by their names, `checkpoints` the model files: the report
    names both. For a model of labels, neither further references nor `tokenized` apply.

    If the cache from training holds the encoded text, that is used, and scoring needs no tokenizer, unless `tokenized`.
    """
    saved = translator.saved
    cache = saved.config.data.cache
    encoded = CorpusCache(cache).find(saved.codecs, text) if cache else None
    sources = saved.source.encode(text.source) if encoded is None else list(encoded.source)
    started = time.perf_counter()
    translations = [best[0] for best in translator.n_best_of_ids(sources, 1, settings)]
    seconds = time.perf_counter() - started

    perplexity_of_references = None
    if not translator.predicts_labels:
        targets = saved.target.encode(text.target) if encoded is None else list(encoded.target)
        perplexity_of_references = perplexity_of(translator, sources, targets, settings)
    hypotheses = [translation.text for translation in translations]
    report = compare(hypotheses, text, references, saved.target, tokenized=tokenized)
    details = {
        "text": text.name,
        "variant": text.variant,
        "further_references": list(references),
        "perplexity": perplexity_of_references,
        "truncated": sum(not translation.finished for translation in translations),
        "seconds": round(seconds, 2),
        "sentences_per_second": round(len(translations) / seconds, 1),
        "device": str(translator.device),
        "commit": commit(),
        "decoding": settings.model_dump(mode="json"),
        "checkpoints": [str(resolved(path)) for path in checkpoints],
        "seeds": [each.config.seed for each in (saved, *translator.others)],
        "model": saved.about,
        "ensemble_with": [other.about for other in translator.others],
        "config": config_to_dict(saved.config),
    }
    return ScoredText(translations, report, details, text.blank_end)


def perplexity_of(
    translator: Translator, sources: Sequence[Ids], targets: Sequence[Ids], settings: DecodingConfig
) -> float | None:
    """The perplexity of references, ends included, as in validation; None if there is none with a probability.

    Those of empty lines, and those longer than any translation may be, have no probability, and are left out.
    """
    found = np.array(translator.log_probabilities_of_ids(sources, targets, settings))
    tokens = np.array([len(target) + 1 for target in targets])
    possible = np.isfinite(found) & (np.array([len(source) for source in sources]) > 0)
    if not possible.any():
        return None
    return perplexity(-found[possible].sum() / tokens[possible].sum())


def compare(
    hypotheses: Sequence[str],
    text: TextInMemory,
    references: Mapping[str, Sequence[str]],
    target: Codec,
    *,
    tokenized: bool,
) -> EvaluationReport | LabelReport:
    """How good these translations, or labels, of `text` are; warns of what makes their scores misleading."""
    if target.holds_labels:
        return count_labels(hypotheses, text.target)
    tokens = (list(map(target.tokenize, hypotheses)), list(map(target.tokenize, text.target))) if tokenized else None
    report = evaluate(hypotheses, text.target, target.language, others=list(references.values()), tokens=tokens)
    warn_of_misleading_scores(hypotheses, text, references, target.language)
    return report


def warn_of_misleading_scores(
    hypotheses: Sequence[str], text: TextInMemory, references: Mapping[str, Sequence[str]], language: str
) -> None:
    """Warn of what makes the scores of these translations misleading; names the further `references` in question."""
    # Beside further references, the sources are not looked at again.
    texts = [("", text.source, text.target), *((f"{name}: ", [], lines) for name, lines in references.items())]
    for where, source, target in texts:
        for warning in filter(None, (form_warning(hypotheses, target), *text_warnings(source, target, language))):
            log.warning("%s%s", where, warning)
