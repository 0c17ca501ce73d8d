"""The log of the training itself: the figures of an update, beside plain PyTorch's."""

import pytest
import torch
from tiny_runs import TinyProject, rows
from torch.nn.functional import cross_entropy

from translate.data.batching import make_batch
from translate.data.corpus import read_split
from translate.data.dataset import CorpusCache
from translate.model_file import SavedModel
from translate.pipeline import train


def test_the_first_update_has_its_loss_with_label_smoothing_and_without(tiny: TinyProject) -> None:
    # One batch of all pairs, and a step too small to change the weights, which are saved after it.
    training = ("max_steps=1", "label_smoothing=0.3", "batch.max_tokens=10000", "optimizer.lr=1e-12")
    run = train(tiny.config("model.dropout=0", *(f"training.{setting}" for setting in training)))
    saved = SavedModel.load(run.model)
    text = read_split(tiny.corpus, "train", "de", "en")
    pairs = CorpusCache(tiny.corpus / "cache").dataset((saved.source, saved.target), text)
    batch = make_batch(pairs, range(len(pairs)))
    with torch.no_grad():
        logits_NV = saved.model()(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
    loss = cross_entropy(logits_NV, batch.labels_N, label_smoothing=0.3).item()
    nll = cross_entropy(logits_NV, batch.labels_N).item()
    assert abs(loss - nll) > 1e-3
    logged = rows(run)[0]
    assert (logged["loss"], logged["nll"]) == pytest.approx((loss, nll), abs=1e-4)
