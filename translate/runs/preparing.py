"""The text of a run: from the files that a config names to the batches of an epoch."""

import logging
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch

from translate.config.schema import Config
from translate.config.text import BpeTokenizerConfig
from translate.data.batching import BatchPlan
from translate.data.cache import CorpusCache
from translate.data.checks import log_unknown_share, warn_of_long_lines, warn_of_truncated_sources
from translate.data.corpora import corpora_of, encode_other_splits
from translate.data.corpus import TextInMemory, TextPair
from translate.data.dataset import Dataset
from translate.data.processed import processed_warnings
from translate.data.resegmented import ResegmentedDataset
from translate.data.selection import upsample_pairs
from translate.data.sides import warn_of_misaligned_lines
from translate.decoding.limits import MIN_RATIO, estimate_max_ratio
from translate.evaluation.score_warnings import blanks_warning, text_warnings
from translate.model.build import Model
from translate.model_file import SavedModel
from translate.runs.resuming import refuse_changes
from translate.system.pool import cores
from translate.text.codec import Codecs
from translate.training.checkpoint import SavedState
from translate.training.trainer import TrainingSet

LINES_JUDGED = 1000  # of the training text, which may be large: whether it looks raw
MAX_HELPERS = 8  # with four, an H200 still waits for them (docs/performance.md)

log = logging.getLogger("translate")


@dataclass(frozen=True)
class PreparedText:
    """What a run reads: training and validation text, the codecs, and the same text as ids."""

    train: TextPair
    valid: TextInMemory
    codecs: Codecs
    train_set: Dataset
    valid_set: Dataset

    def identity(self) -> dict[str, Any]:
        """Plain values that differ if anything in the text or its ids does."""
        return {
            **identity_of(self.train, self.valid),
            "codecs": [codec.fingerprint for codec in self.codecs],
        }


def identity_of(train: TextPair, valid: TextInMemory) -> dict[str, Any]:
    """Plain values that differ if anything in the text does."""
    return {
        "train": [train.source_sha256, train.target_sha256, *(part.weight for part in train.parts)],
        "valid": [valid.source_sha256, valid.target_sha256],
    }


def prepare_text(config: Config, start: SavedModel | None, resumed: SavedState | None = None) -> PreparedText:
    """Read and encode the text, with the codecs of the model that training starts from, if there is one.

    CheckpointError if it is not the text of the run that is resumed.
    """
    corpora = corpora_of(config.data)
    corpora.check()
    train = corpora.open_train()
    valid = corpora.read_valid(train)
    if resumed:  # Now, because learning vocabularies and encoding may take long.
        refuse_changes(resumed.identity, resumed.identity | identity_of(train, valid))
    assert config.data.cache is not None, "load_config fills it in"
    cache = CorpusCache(config.data.cache)
    languages = config.data.source, config.data.target
    codecs = start.codecs if start else cache.codecs(config.text, languages, train)
    text = PreparedText(train, valid, codecs, cache.dataset(codecs, train), cache.dataset(codecs, valid))
    if not text.train_set.labelled:
        warn_of_translations(text, config)
    warn_of_truncated_sources(text.valid_set, valid, config.decoding.max_source)
    if start or train.vocabulary:  # Vocabularies were made from other text.
        log_unknown_share(text.train_set, train)
    log_unknown_share(text.valid_set, valid)
    encode_other_splits(corpora_of(config.data, codecs.target), cache, codecs)
    return text


def warn_of_translations(text: PreparedText, config: Config) -> None:
    """Warn of parallel text that looks misaligned or processed, or that makes validations slow or misleading."""
    train, valid = text.train, text.valid
    for warning in processed_warnings(*(list(islice(side, LINES_JUDGED)) for side in (train.source, train.target))):
        log.warning("%s: %s", train.name, warning)
    warn_of_misaligned_lines(text.train_set.source.lengths, text.train_set.target.lengths, train)
    warn_of_misaligned_lines(text.valid_set.source.lengths, text.valid_set.target.lengths, valid)
    max_tokens = config.data.filter.max_tokens
    if config.decoding.max_source > max_tokens:  # Otherwise, validations read no more than that of any line.
        warn_of_long_lines(text.valid_set, valid, max_tokens)
    blank = blanks_warning(sum(not line.strip() for line in valid.target), len(valid.target))
    for warning in filter(None, (blank, *text_warnings(valid.source, valid.target, text.codecs.target.language))):
        log.warning("%s: %s", valid.name, warning)


def with_max_ratio(config: Config, plan: BatchPlan) -> Config:
    """`config` with decoding.max_ratio estimated from the training pairs, unless it is set."""
    if config.decoding.max_ratio is not None:
        return config
    lengths = plan.source_lengths[plan.indices], plan.target_lengths[plan.indices]
    ratio = estimate_max_ratio(*lengths, config.decoding.max_extra)
    if ratio > MIN_RATIO:
        log.info("decoding.max_ratio set to %g: training pairs have many target tokens per source token", ratio)
    return config.model_copy(update={"decoding": config.decoding.model_copy(update={"max_ratio": ratio})})


def plan_batches(config: Config, prepared: PreparedText) -> BatchPlan:
    """Which pairs are trained on, and how they are batched; what was dropped goes into the log."""
    dataset, text = prepared.train_set, prepared.train
    pairs, report = corpora_of(config.data).select(dataset, text)
    for line in report:
        log.info("%s: %s", text.name, line)
    pairs = upsample_pairs(pairs, text)
    plan = BatchPlan(pairs, dataset.source.lengths, dataset.target.lengths, config.training.batch, config.seed)
    shapes, max_tokens = plan.shapes(0), config.training.batch.max_tokens
    padding = 100 * shapes.padding_share()
    log.info("%s: updates per epoch: %d, padding: %.1f%%", text.name, plan.updates_per_epoch, padding)
    if longer := int((np.maximum(shapes.source, shapes.target) > max_tokens).sum()):
        few = 2 * longer < shapes.rows.sum()
        log.info(
            "%s: %s longer than training.batch.max_tokens (%d, with the end token), each in a batch of its own: %d; %s",
            text.name,
            text.unit,
            max_tokens,
            longer,
            f"data.filter.max_tokens={max_tokens - 1} drops them" if few else "raise it",
        )
    return plan


def helpers_for(device: torch.device, local_count: int) -> int:
    """How many processes segment text for each of `local_count` that train: none on CPUs, whose cores are busy."""
    return 0 if device.type == "cpu" else max(0, min(MAX_HELPERS, cores() // local_count - 1))


def training_set(config: Config, text: PreparedText, plan: BatchPlan, model: Model, helpers: int = 0) -> TrainingSet:
    """The pairs of an epoch: the same in each or, with BPE-dropout, segmented anew in each, by this many `helpers`."""
    tokenizer = config.text.tokenizer
    if not (isinstance(tokenizer, BpeTokenizerConfig) and tokenizer.dropout):
        return text.train_set
    max_tokens = min(config.data.filter.max_tokens, model.max_length - 1)
    resegmented = ResegmentedDataset(
        text.train_set, text.codecs, dropout=tokenizer.dropout, max_tokens=max_tokens, seed=config.seed, helpers=helpers
    )
    log.info(
        "%s: BPE-dropout makes lines about %.0f%% longer; batches exceed training.batch.max_tokens by as much%s",
        text.train.name,
        100 * (resegmented.lengthening(plan.indices) - 1),
        f"; {helpers} processes segment them" if helpers else "",
    )
    return resegmented
