"""The text of a run: what tells it from any other, and how many processes help to prepare it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from translate.config.text import TextConfig
from translate.data.cache import CorpusCache
from translate.data.corpus import TextInMemory, TextPart
from translate.runs import preparing
from translate.text.build import build_codecs


def test_text_that_differs_in_anything_has_another_identity(tmp_path: Path) -> None:
    text = TextInMemory("train", ["a"], ["b"], "1", "2", "", parts=(TextPart("a", 1, 1),))
    config = TextConfig.model_validate({"tokenizer": {"kind": "char"}})
    codecs, others = (build_codecs(config, ("de", "en"), [line], [line]) for line in ("a", "b"))
    encoded = CorpusCache(tmp_path).dataset(codecs, text)
    same = preparing.PreparedText(text, text, codecs, encoded, encoded)
    changed = (replace(text, source_sha256="3"), replace(text, target_sha256="3"))
    found = [
        same,
        *(replace(same, train=train) for train in (*changed, replace(text, parts=(TextPart("a", 1, 2),)))),
        *(replace(same, valid=valid) for valid in changed),
        *(
            replace(same, codecs=pair)
            for pair in (codecs._replace(source=others.source), codecs._replace(target=others.target))
        ),
    ]
    assert len({str(each.identity()) for each in found}) == 8


@pytest.mark.parametrize(
    ("device", "cores", "sharing", "helpers"),
    [
        ("cpu", 16, 1, 0),
        ("cuda", 16, 1, 8),
        ("cuda", 5, 1, 4),
        ("cuda", 16, 4, 3),
        ("cuda", 1, 1, 0),
        ("cuda", 2, 4, 0),
    ],
)
def test_helpers_leave_a_core_to_each_training_process(
    device: str, cores: int, sharing: int, helpers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "cores", lambda: cores)
    assert preparing.helpers_for(torch.device(device), sharing) == helpers
