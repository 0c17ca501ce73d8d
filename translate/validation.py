"""Validation during training: the loss on the references, and the quality of the model's own translations or labels."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import torch

from translate.accuracy import count_labels
from translate.config.schema import BatchConfig, DecodingConfig
from translate.data.batching import BatchPlan, make_batch
from translate.data.corpus import ParallelText
from translate.data.dataset import Dataset
from translate.decoding.fitting import FittingBatches
from translate.decoding.search import search, tokens_read
from translate.evaluation import corpus_bleu, corpus_chrf, distinct_warning, form_warning
from translate.model.build import Model
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
        self.bleu = "BLEU (lower-cased)"
        if has_capitals(self.references) or not has_capitals(text.target):
            self.references, self.bleu = text.target, "BLEU"
        self.sources = list(dataset.source)
        # Spread over the text, and the same ones at each validation, so that progress can be seen.
        self.samples = np.linspace(0, len(dataset), min(samples, len(dataset)), endpoint=False).astype(int).tolist()
        self.limits = BatchConfig(max_tokens=min(MOST_TOKENS, batch.max_tokens), max_sentences=batch.max_sentences)
        lengths = dataset.source.lengths, dataset.target.lengths
        self.plan = BatchPlan(np.arange(len(dataset)), *lengths, self.limits, seed=0)
        self.widths = np.maximum(*lengths)
        self._references_that_fit, self._searches_that_fit = FittingBatches(), FittingBatches()

    @torch.inference_mode()
    def __call__(self, model: Model, check: Callable[[], None]) -> Validation:
        """Measure `model`, which is in evaluation mode. `check` is called before each batch, and may raise.

        Raises:
            DataError: memory runs out with a single sentence.
        """
        nll, accuracy = self._references_that_fit(
            lambda fitting: self._nll_and_accuracy(model, fitting.batch_tokens, check),
            self.decoding.model_copy(update={"batch_tokens": self.limits.max_tokens}),
            self.widths.tolist(),
            model.longest,
        )
        found = self._searches_that_fit(
            lambda fitting: search(model, self.sources, fitting, check=check),
            self.decoding,
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
            summary=f"{self.bleu} {bleu:.2f}, chrF {chrf:.2f}, "
            f"perplexity {perplexity(nll):.2f}, accuracy {accuracy:.1%}"
            + (f", {truncated} of {len(translations)} cut off at the length limit" if truncated else ""),
            warning=distinct_warning(len(set(translations)), len(translations))
            or form_warning(translations, self.text.target),
            samples=[
                {"source": self.text.source[i], "translation": translations[i], "reference": self.text.target[i]}
                for i in self.samples
            ],
        )

    def _nll_and_accuracy(self, model: Model, max_tokens: int, check: Callable[[], None]) -> tuple[float, float]:
        """Negative log-likelihood per token, and the share of tokens that the model ranks first."""
        device = next(model.parameters()).device
        nll = correct = tokens = 0.0
        plan = replace(self.plan, config=self.limits.model_copy(update={"max_tokens": max_tokens}))
        for update in plan.epoch(0):
            check()
            for indices in update:
                batch = make_batch(self.dataset, indices).to(device)
                logits_NV = model(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
                nll += smoothed_loss_(logits_NV, batch.labels_N, smoothing=0.0)[1].item()
                correct += (logits_NV.argmax(1) == batch.labels_N).sum().item()
                tokens += len(batch.labels_N)
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
                {"text": self.text.source[i], "label": labels[i], "reference": self.text.target[i]}
                for i in self.samples
            ],
        )
