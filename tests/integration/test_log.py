"""The log of the training itself: the figures of an update, beside plain PyTorch's."""

import itertools
import json
import math
import re

import pytest
import torch
from tiny_runs import TinyProject, rows, sigterm, stop, update
from torch.nn.functional import cross_entropy

from translate.data.batching import make_batch
from translate.data.cache import CorpusCache
from translate.data.splits import open_split
from translate.model_file import SavedModel
from translate.pipeline import train


def test_the_first_update_has_its_loss_with_label_smoothing_and_without(
    tiny: TinyProject, capsys: pytest.CaptureFixture[str]
) -> None:
    # One batch of all pairs, and a step too small to change the weights, which are saved after it.
    training = ("max_steps=1", "label_smoothing=0.3", "batch.max_tokens=10000", "optimizer.lr=1e-12")
    run = train(tiny.config("model.dropout=0", *(f"training.{setting}" for setting in training)))
    saved = SavedModel.load(run.model)
    text = open_split(tiny.corpus, "train", "de", "en").in_memory()
    pairs = CorpusCache(tiny.corpus / "cache").dataset(saved.codecs, text)
    batch = make_batch(pairs, range(len(pairs)))
    with torch.no_grad():
        logits_NV = saved.model()(batch.source_BS, batch.source_mask_BS, batch.target_BT, batch.target_mask_BT)
    loss = cross_entropy(logits_NV, batch.labels_N, label_smoothing=0.3).item()
    nll = cross_entropy(logits_NV, batch.labels_N).item()
    assert abs(loss - nll) > 1e-3
    logged = rows(run)[0]
    assert (logged["loss"], logged["nll"]) == pytest.approx((loss, nll), abs=1e-4)
    assert logged["perplexity"] == pytest.approx(math.exp(nll), rel=1e-3)
    (figures,) = re.findall("^update 1 of 1: loss (.*), perplexity (.*), lr ", capsys.readouterr().err, re.MULTILINE)
    assert list(map(float, figures)) == pytest.approx([loss, math.exp(nll)], abs=0.02)


def shown(err: str) -> list[str]:
    """The updates whose figures were shown."""
    return [line.partition(":")[0] for line in err.split("\n") if line.startswith("update ") and "loss" in line]


def test_lines_of_figures_name_their_update(tiny: TinyProject, capsys: pytest.CaptureFixture[str]) -> None:
    train(tiny.config())
    expected = [f"update {step} of 21" for step in (4, 7, 8, 12, 14, 16, 20, 21)]
    assert shown(capsys.readouterr().err) == expected
    stop(sigterm, update(9), tiny, overwrite=True)
    capsys.readouterr()
    train(tiny.config(), resume=True)
    assert shown(capsys.readouterr().err) == expected[3:]


def test_rows_say_where_they_are_and_how_fast_it_went(tiny: TinyProject) -> None:
    run = train(tiny.config())
    lines = [json.loads(line) for line in run.metrics.read_text(encoding="utf-8").splitlines()]
    figures = [row for row in lines if row["kind"] == "train"]
    assert [row["epoch"] for row in figures] == pytest.approx([row["step"] / 7 for row in figures])
    for before, row in itertools.pairwise(figures):
        seconds = row["timing"]["seconds"] - before["timing"]["seconds"]
        tokens = row["target_tokens"] - before["target_tokens"]
        speed = row["timing"]["target_tokens_per_second"]
        assert tokens / (seconds + 0.002) <= speed <= tokens / max(seconds - 0.002, 1e-9)
