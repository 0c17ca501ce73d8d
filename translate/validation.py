"""Validation while training: how surprised the model is by the references, and how good its own translations are."""

from collections.abc import Callable

import numpy as np
import torch

from translate.config.schema import BatchConfig, DecodingConfig
from translate.data.batching import BatchPlan, make_batch
from translate.data.corpus import ParallelText
from translate.data.dataset import Dataset
from translate.decoding.search import search
from translate.evaluation import corpus_bleu, corpus_chrf, distinct_warning
from translate.model.transformer import Transformer
from translate.text.codec import Codec
from translate.training.loss import smoothed_loss
from translate.training.progress import Validation


class Validator:
    """Measures a model on one validation text. It searches greedily, whatever the settings say: beams are slower."""

    def __init__(
        self, *, text: ParallelText, dataset: Dataset, target: Codec, decoding: DecodingConfig, samples: int
    ) -> None:
        self.text = text
        self.dataset = dataset
        self.target = target
        self.decoding = decoding.model_copy(update={"search": "greedy"})
        # References are scored as written; a lower-casing model is compared in its own case.
        self.references = [target.tokenizer.normalize(line) for line in text.target]
        self.sources = [dataset.source[i] for i in range(len(dataset))]
        # Spread over the text, and the same ones at each validation, so that progress can be seen.
        self.samples = np.linspace(0, len(dataset), samples, endpoint=False).astype(int).tolist()
        everything = np.arange(len(dataset))
        self.plan = BatchPlan(
            everything, dataset.source.lengths, dataset.target.lengths, BatchConfig(max_tokens=4096), seed=0
        )

    @torch.inference_mode()
    def __call__(self, model: Transformer, check: Callable[[], None]) -> Validation:
        """Measure `model`, which is in evaluation mode. `check` is called before each batch, and may raise."""
        nll, accuracy = self._surprise(model, check)
        found = search(model, self.sources, self.decoding, check=check)
        translations = [self.target.decode(hypotheses[0].tokens) for hypotheses in found]
        return Validation(
            nll=nll,
            accuracy=accuracy,
            bleu=corpus_bleu(translations, self.references),
            chrf=corpus_chrf(translations, self.references),
            warning=distinct_warning(len(set(translations)), len(translations)),
            samples=[(self.text.source[i], translations[i], self.text.target[i]) for i in self.samples],
        )

    def _surprise(self, model: Transformer, check: Callable[[], None]) -> tuple[float, float]:
        """Negative log-likelihood a token, and the share of tokens that the model would have put first."""
        device = next(model.parameters()).device
        nll = correct = tokens = 0.0
        for update in self.plan.epoch(0):
            check()
            for indices in update:
                batch = make_batch(self.dataset, indices).to(device)
                logits_NV = model(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
                nll += smoothed_loss(logits_NV, batch.labels_N, smoothing=0.0)[1].item()
                correct += (logits_NV.argmax(1) == batch.labels_N).sum().item()
                tokens += len(batch.labels_N)
        return nll / tokens, correct / tokens
