"""Scores of translations against references: BLEU and chrF through sacrebleu, on detokenized text.

It knows nothing about models or files, and is the only module that imports sacrebleu.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from translate.errors import DataError
from translate.evaluation.score_warnings import blanks_warning, distinct_warning
from translate.text.casing import lower
from translate.text.languages import has_spaces, is_chinese

RESAMPLES = 1000  # of sacrebleu's bootstrap, as in its own command line; the seed is in the signature


@dataclass(frozen=True)
class Score:
    """A score from 0 to 100, how sacrebleu computed it, and half the width of its 95% bootstrap interval."""

    value: float
    signature: str
    interval: float | None = None


@dataclass(frozen=True)
class EvaluationReport:
    """How good a set of translations is. Lengths are counted in tokens of cased BLEU."""

    bleu: Score
    bleu_lowercase: Score
    chrf: Score
    length_ratio: float  # translations over references
    brevity_penalty: float
    sentences: int
    empty: int  # translations without any text
    distinct: int  # different translations
    distinct_references: int
    unreferenced: int  # sentences whose references are all empty
    tokenized_bleu: float | None  # as the tutorials compute it; see tokenized_bleu()

    @property
    def warning(self) -> str | None:
        """What is suspicious about the translations, if anything."""
        found = [
            distinct_warning(self.distinct, self.sentences, self.distinct_references),
            blanks_warning(self.unreferenced, self.sentences),
        ]
        return "; ".join(filter(None, found)) or None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, including the warning."""
        return {**asdict(self), "warning": self.warning}

    def format(self) -> str:
        """A few aligned lines for the terminal."""
        scores = {"BLEU": self.bleu, "BLEU, lower-cased": self.bleu_lowercase, "chrF": self.chrf}
        lines = []
        for name, score in scores.items():
            interval = "" if score.interval is None else f"± {score.interval:.2f}"
            lines.append(f"{name:<18}{score.value:6.2f} {interval:<7} {score.signature}")
        if self.tokenized_bleu is not None:
            lines.append(f"{'tokenized BLEU':<18}{self.tokenized_bleu:6.2f}         (torchtext), not comparable")
        lines.append(f"{'length ratio':<18}{self.length_ratio:6.3f}         brevity penalty {self.brevity_penalty:.3f}")
        lines.append(f"{'sentences':<18}{self.sentences:6d}         {self.empty} empty, {self.distinct} distinct")
        if self.warning is not None:
            lines.append(f"warning: {self.warning}")
        return "\n".join(lines)


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "en",
    *,
    others: Sequence[Sequence[str]] = (),
    tokens: tuple[Sequence[Sequence[str]], Sequence[Sequence[str]]] | None = None,
) -> EvaluationReport:
    """Score detokenized translations into `language` against raw references; `others` are further references.

    A blank reference does not count for a sentence that has another.

    With `tokens` (of translations and first references), also compute the tokenized BLEU.

    Raises DataError if there is nothing to score or if the counts differ.
    """
    for translated in (references, *others):
        _check_counts(hypotheses, translated)
    tokenizer = bleu_tokenizer(language)
    # `force` spares its hint at tokenized text, which names an option that is not ours: see processed_warnings().
    bleu = BLEU(tokenize=tokenizer, force=True)
    bleu_lowercase = BLEU(tokenize=tokenizer, lowercase=True, force=True)
    chrf = CHRF()
    all_references = [references, *others]
    filled = without_blanks(all_references)
    cased = bleu.corpus_score(hypotheses, filled, n_bootstrap=RESAMPLES)
    # By the rules of the language (a Turkish I has no dot when lower-cased); sacrebleu, which has one rule for all
    # languages, then finds nothing left to change.
    lowered, *lowered_references = (
        [lower(line, language) for line in lines] for lines in (hypotheses, *all_references)
    )
    lowercase = bleu_lowercase.corpus_score(lowered, without_blanks(lowered_references), n_bootstrap=RESAMPLES)
    characters = chrf.corpus_score(hypotheses, filled)
    return EvaluationReport(
        bleu=_score_with_interval(bleu, cased),
        bleu_lowercase=_score_with_interval(bleu_lowercase, lowercase),
        chrf=Score(characters.score, str(chrf.get_signature())),
        length_ratio=cased.ratio,
        brevity_penalty=cased.bp,
        sentences=len(hypotheses),
        empty=sum(not hypothesis.strip() for hypothesis in hypotheses),
        distinct=len(set(hypotheses)),
        distinct_references=len(set(references)),
        unreferenced=sum(not any(map(str.strip, of_one)) for of_one in zip(*all_references, strict=True)),
        tokenized_bleu=None if tokens is None else tokenized_bleu(*tokens),
    )


def without_blanks(references: Sequence[Sequence[str]]) -> list[Any]:
    """The same with None, which sacrebleu leaves out, for a blank reference of a sentence that has another.

    To sacrebleu, a blank one would be a reference of length 0: no translation could be too short.
    """
    kept = []
    for of_one in zip(*references, strict=True):
        full = [reference if reference.strip() else None for reference in of_one]
        kept.append(full if any(full) else of_one)
    return list(zip(*kept, strict=True))


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> float:
    """BLEU alone (0 to 100), without the interval: for validation while training."""
    _check_counts(hypotheses, references)
    return _value(BLEU(tokenize=bleu_tokenizer(language), force=True).corpus_score(hypotheses, [references]))


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """chrF alone (0 to 100): for validation while training."""
    _check_counts(hypotheses, references)
    return float(CHRF().corpus_score(hypotheses, [references]).score)


def bleu_tokenizer(language: str) -> str:
    """sacrebleu's tokenizer for a language: its usual 13a, which needs spaces between words, or one for characters."""
    return "13a" if has_spaces(language) else "zh" if is_chinese(language) else "char"


def tokenized_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """BLEU over tokens (0 to 100) as `torchtext.data.metrics.bleu_score` computes it in the tutorials.

    4-grams, uniform weights, no smoothing. It depends on the tokenizer: not comparable with other published figures.
    A token that is or holds white space counts as one token here; torchtext cuts it up and miscounts it.
    """
    _check_counts(hypotheses, references)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    return _value(metric.corpus_score([_spaced(h) for h in hypotheses], [[_spaced(r) for r in references]]))


def _spaced(tokens: Sequence[str]) -> str:
    return " ".join(re.sub(r"\s", "␣", token) for token in tokens)


def _value(score: BLEUScore) -> float:
    """BLEU from 0 to 100; rounding makes sacrebleu's best 100.00000000000004."""
    return min(float(score.score), 100.0)


def _score_with_interval(metric: BLEU, score: BLEUScore) -> Score:
    signature = str(metric.get_signature())
    # sacrebleu reveals its interval only in formatted scores, and not if every resample scores 0.
    formatted = json.loads(score.format(width=6, signature=signature, is_json=True))
    return Score(_value(score), signature, formatted.get("confidence_var", 0.0))


def _check_counts(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} references: "
            "give one reference line for each source line"
        )
    if not hypotheses:
        raise DataError("there are no translations to score: the source and the reference are empty")
