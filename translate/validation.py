"""Validation during training: the loss on the references, and the quality of the model's own translations or labels.

Dimension letters in names: N real target positions of a batch, V target vocabulary.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from translate.accuracy import count_labels
from translate.config.decoding import DecodingConfig
from translate.config.training import BatchConfig
from translate.data.batching import Batch
from translate.data.corpus import ParallelText
from translate.data.dataset import Dataset
from translate.decoding.fitting import FittingBatches, with_batch_tokens
from translate.decoding.rescore import teacher_forced
from translate.decoding.search import search, tokens_read
from translate.evaluation import corpus_bleu, corpus_chrf
from translate.model.build import Model
from translate.score_warnings import bleu_tokenizer, distinct_warning, form_warning
from translate.text.codec import Codec
from translate.training.loss import smoothed_loss_
from translate.training.progress import Validation, perplexity

MOST_TOKENS = 4096  # tokens of a batch of references


class Validator:
    """Measures the model on one validation text, by greedy search whatever the settings say: beam search is slower.

    The loss is computed on batches no larger than those of training, `batch`: whoever lowers these to save memory
    lowers both.
    """

    def __init__(
        self,
        *,
        text: ParallelText,
        dataset: Dataset,
        target: Codec,
        decoding: DecodingConfig,
        samples: int,
        batch: BatchConfig,
    ) -> None:
        self.text = text
        self.dataset = dataset
        self.target = target
        self.decoding = decoding.model_copy(update={"search": "greedy"})
        # References are used as written, but lower-cased if the model's text is.
        self.references = [target.tokenizer.normalize(line) for line in text.target]
        kind = ["lower-cased"]
        if has_capitals(self.references) or not has_capitals(text.target):
            self.references, kind = text.target, []
        if (tokenizer := bleu_tokenizer(target.language)) != "13a":
            kind.append(f"tok:{tokenizer}")
        self.bleu_name = f"BLEU ({', '.join(kind)})" if kind else "BLEU"
        self.sources = list(dataset.source)
        # Spread over the text, and the same ones at each validation, so that progress can be seen.
        self.shown = np.linspace(0, len(dataset), min(samples, len(dataset)), endpoint=False).astype(int).tolist()
        self.max_tokens, self.max_sentences = min(MOST_TOKENS, batch.max_tokens), batch.max_sentences
        self.widths = np.maximum(dataset.source.lengths, dataset.target.lengths)
        self._references_that_fit, self._searches_that_fit = FittingBatches(), FittingBatches()

    @torch.inference_mode()
    def __call__(self, model: Model, check: Callable[[], None]) -> Validation:
        """Measure `model`, which is in evaluation mode. `check` is called before each batch, and may raise.

        Raises:
            DataError: memory runs out with a single sentence.
        """
        nll, accuracy = self._references_that_fit(
            lambda tokens: self._nll_and_accuracy(model, tokens, check),
            self.max_tokens,
            self.widths.tolist(),
            model.longest,
        )
        found = self._searches_that_fit(
            lambda tokens: search(model, self.sources, with_batch_tokens(self.decoding, tokens), check=check),
            self.decoding.batch_tokens,
            map(len, self.sources),
            tokens_read(model, self.decoding),
        )
        truncated = sum(not hypotheses[0].finished for hypotheses in found)
        return self._judge(nll, accuracy, [self.target.decode(hypotheses[0].tokens) for hypotheses in found], truncated)

    def _judge(self, nll: float, accuracy: float, translations: list[str], truncated: int) -> Validation:
        bleu = corpus_bleu(translations, self.references, self.target.language)
        chrf = corpus_chrf(translations, self.references)
        return Validation(
            nll=nll,
            accuracy=accuracy,
            scores={"bleu": bleu, "chrf": chrf},
            truncated=truncated,
            summary=f"{self.bleu_name} {bleu:.2f}, chrF {chrf:.2f}, "
            f"perplexity {perplexity(nll):.2f}, accuracy {accuracy:.1%}"
            + (f", {truncated} of {len(translations)} truncated at the length limit" if truncated else ""),
            warning=distinct_warning(len(set(translations)), len(translations), len(set(self.references)))
            or form_warning(translations, self.text.target),
            samples=[
                {"source": self.text.source[i], "translation": translations[i], "reference": self.text.target[i]}
                for i in self.shown
            ],
        )

    def _nll_and_accuracy(self, model: Model, max_tokens: int, check: Callable[[], None]) -> tuple[float, float]:
        """Negative log-likelihood per token, and the share of tokens that the model ranks first."""

        def measure(batch: Batch, logits_NV: Tensor) -> tuple[float, float, int]:
            correct = (logits_NV.argmax(1) == batch.labels_N).sum().item()
            return smoothed_loss_(logits_NV, batch.labels_N, smoothing=0.0)[1].item(), correct, len(batch.labels_N)

        pairs, rows = np.arange(len(self.dataset)), self.max_sentences
        found = teacher_forced(
            model, self.dataset, pairs, measure, max_tokens=max_tokens, max_sentences=rows, check=check
        )
        nll, correct, tokens = np.sum([sums for _, sums in found], axis=0).tolist()
        return nll / tokens, correct / tokens


def has_capitals(lines: Iterable[str]) -> bool:
    """Whether any line has a capital letter."""
    return any(line != line.lower() for line in lines)


class LabelValidator(Validator):
    """Measures the labels given to one validation text."""

    def _judge(self, nll: float, accuracy: float, labels: list[str], truncated: int) -> Validation:
        report = count_labels(labels, self.references)
        return Validation(
            nll=nll,
            accuracy=report.accuracy,
            scores={},
            truncated=truncated,
            summary=f"perplexity {perplexity(nll):.2f}, {report.summary()}",
            warning=report.warning,
            samples=[
                {"text": self.text.source[i], "label": labels[i], "reference": self.text.target[i]} for i in self.shown
            ],
        )
