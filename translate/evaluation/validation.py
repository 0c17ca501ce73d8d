"""Validation during training: the loss on the references, and the quality of the model's own translations or labels.

Dimension letters in names: N real target positions of a batch, V target vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from torch import Tensor

from translate.config.decoding import DecodingConfig
from translate.config.training import BatchConfig
from translate.data.batching import Batch
from translate.data.corpus import TextInMemory
from translate.data.dataset import Dataset
from translate.decoding.batch_size import AdaptiveBatchSize
from translate.decoding.search import search
from translate.decoding.teacher_forcing import teacher_forced
from translate.evaluation.accuracy import count_labels
from translate.evaluation.bleu import bleu_tokenizer, corpus_bleu, corpus_chrf
from translate.evaluation.score_warnings import DIVERGED, distinct_warning, form_warning
from translate.model.build import Model
from translate.optimization.loss import perplexity, smoothed_loss_
from translate.text.codec import Codec
from translate.training.model_selection import Validation

MAX_TOKENS = 4096  # tokens of a batch of references


class Validator(ABC):
    """Measures the model on one validation text, by greedy search whatever the settings say: beam search is slower.

    The loss is computed on batches no larger than those of training, `batch`: whoever lowers these to save memory
    lowers both. `check` is called before each batch, and may raise.
    """

    def __init__(
        self,
        *,
        text: TextInMemory,
        dataset: Dataset,
        target: Codec,
        decoding: DecodingConfig,
        samples: int,
        batch: BatchConfig,
        check: Callable[[], None],
    ) -> None:
        self.text = text
        self.dataset = dataset
        self.target = target
        self.decoding = decoding.model_copy(update={"search": "greedy"})
        self.sources = list(dataset.source)
        # Spread over the text, and the same ones at each validation, so that progress can be seen.
        self.shown = np.linspace(0, len(dataset), min(samples, len(dataset)), endpoint=False).astype(int).tolist()
        self.max_tokens, self.max_sentences = min(MAX_TOKENS, batch.max_tokens), batch.max_sentences
        self.check = check
        self.widths = np.maximum(dataset.source.lengths, dataset.target.lengths)
        self._scoring_batch_size, self._search_batch_size = AdaptiveBatchSize(), AdaptiveBatchSize()

    def __call__(self, model: Model) -> Validation:
        """Measure `model`, which is in evaluation mode.

        Raises:
            DataError: memory runs out with a single sentence.
        """
        nll, accuracy = self._scoring_batch_size.run(
            lambda tokens: self._nll_and_accuracy(model, tokens),
            self.max_tokens,
            self.widths.tolist(),
            model.max_length,
        )
        found = self._search_batch_size.run_with_settings(
            lambda settings: search(model, self.sources, settings, check=self.check),
            self.decoding,
            model,
            map(len, self.sources),
        )
        truncated = sum(not hypotheses[0].finished for hypotheses in found)
        outputs = [self.target.decode(hypotheses[0].tokens) for hypotheses in found]
        validation = self._judge(nll, accuracy, outputs, truncated)
        return validation if math.isfinite(nll) else replace(validation, warning=DIVERGED)

    @abstractmethod
    def _judge(self, nll: float, accuracy: float, outputs: list[str], truncated: int) -> Validation:
        """How good the model is, given its loss and accuracy on the references, and its own output for each line."""

    def _nll_and_accuracy(self, model: Model, max_tokens: int) -> tuple[float, float]:
        """Negative log-likelihood per token, and the share of tokens that the model ranks first."""

        def measure(batch: Batch, logits_NV: Tensor) -> tuple[float, float, int]:
            correct = (logits_NV.argmax(1) == batch.labels_N).sum().item()
            _, (_, nll) = smoothed_loss_(logits_NV, batch.labels_N, smoothing=0.0)
            return nll.item(), correct, len(batch.labels_N)

        found = teacher_forced(
            model,
            self.dataset,
            np.arange(len(self.dataset)),
            measure,
            max_tokens=max_tokens,
            max_sentences=self.max_sentences,
            check=self.check,
        )
        nll, correct, tokens = np.sum([sums for _, sums in found], axis=0).tolist()
        return nll / tokens, correct / tokens


class TranslationValidator(Validator):
    """Measures the translations of one validation text."""

    @cached_property
    def lower_cases(self) -> bool:
        """Whether the model's text is lower-cased, and the references are not."""
        normalized = map(self.target.tokenizer.normalize, self.text.target)
        return has_capitals(self.text.target) and not has_capitals(normalized)

    @cached_property
    def references(self) -> list[str]:
        """The references as written, but lower-cased if the model's text is."""
        if not self.lower_cases:
            return self.text.target
        return [self.target.tokenizer.normalize(line) for line in self.text.target]

    @cached_property
    def bleu_name(self) -> str:
        """BLEU, with what distinguishes it from the usual one."""
        kind = ["lower-cased"] if self.lower_cases else []
        tokenizer = bleu_tokenizer(self.target.language)
        if tokenizer != "13a":
            kind.append(f"tok:{tokenizer}")
        return f"BLEU ({', '.join(kind)})" if kind else "BLEU"

    def _judge(self, nll: float, accuracy: float, outputs: list[str], truncated: int) -> Validation:
        bleu = corpus_bleu(outputs, self.references, self.target.language)
        chrf = corpus_chrf(outputs, self.references)
        return Validation(
            nll=nll,
            accuracy=accuracy,
            scores={"bleu": bleu, "chrf": chrf},
            truncated=truncated,
            summary=f"{self.bleu_name} {bleu:.2f}, chrF {chrf:.2f}, "
            f"perplexity {perplexity(nll):.2f}, accuracy {accuracy:.1%}"
            + (f", {truncated} of {len(outputs)} truncated at the length limit" if truncated else ""),
            warning=distinct_warning(len(set(outputs)), len(outputs), len(set(self.references)))
            or form_warning(outputs, self.text.target),
            samples=[
                {"source": self.text.source[i], "translation": outputs[i], "reference": self.text.target[i]}
                for i in self.shown
            ],
        )


def has_capitals(lines: Iterable[str]) -> bool:
    """Whether any line has a capital letter."""
    return any(line != line.lower() for line in lines)


class LabelValidator(Validator):
    """Measures the labels given to one validation text."""

    def _judge(self, nll: float, accuracy: float, outputs: list[str], truncated: int) -> Validation:
        report = count_labels(outputs, self.text.target)
        return Validation(
            nll=nll,
            accuracy=report.accuracy,
            scores={},
            truncated=truncated,
            summary=f"perplexity {perplexity(nll):.2f}, {report.summary()}",
            warning=report.warning,
            samples=[
                {"text": self.text.source[i], "label": outputs[i], "reference": self.text.target[i]} for i in self.shown
            ],
        )
