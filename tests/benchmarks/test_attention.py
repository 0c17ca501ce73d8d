"""What benchmarks/attention.py draws."""

import sys
from pathlib import Path

import pytest
import torch
from attention import attention, main
from saved_models import save_model

from translate.config.model import TransformerConfig
from translate.model.build import build_transformer
from translate.text.codec import Codec
from translate.text.vocabulary import EOS, Vocabulary
from translate.text.whitespace import WhitespaceTokenizer


def test_each_row_is_what_one_token_of_the_translation_gathers() -> None:
    torch.manual_seed(1)
    config = TransformerConfig(d_model=8, ffn=16, heads=2, encoder_layers=1, decoder_layers=3, dropout=0.0)
    model = build_transformer(config, source_size=9, target_size=9).eval()
    weights = attention(model, "cross", [4, 5, 6], (7, 8, EOS))
    assert [each.shape for each in weights] == [(2, 3, 4)] * 3  # heads; two tokens and their end; three and theirs
    torch.testing.assert_close(torch.stack(weights).sum(-1), torch.ones(3, 2, 3))
    shorter = attention(model, "cross", [4, 5, 6], (7, EOS))
    torch.testing.assert_close(weights[0][:, :2], shorter[0])  # what is written later changes nothing
    assert not torch.allclose(weights[0][:, 0], weights[0][:, 1])

    [encoder] = attention(model, "encoder", [4, 5, 6], (7, EOS))
    assert encoder.shape == (2, 4, 4)
    torch.testing.assert_close(encoder.sum(-1), torch.ones(2, 4))
    decoder = attention(model, "decoder", [4, 5, 6], (7, 8, EOS))
    assert [each.shape for each in decoder] == [(2, 3, 3)] * 3
    for each in decoder:
        torch.testing.assert_close(each, each.tril())  # nothing that is written later


@pytest.mark.parametrize("part", ["cross", "encoder", "decoder"])
def test_a_token_between_dollar_signs_is_no_formula(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saved_models.GERMAN", Codec(WhitespaceTokenizer("de"), Vocabulary((r"$\US$",))))
    model, picture = save_model(tmp_path / "model.safetensors"), tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", ["attention.py", str(model), r"$\US$", "--output", str(picture), "--part", part])
    main()
    assert picture.stat().st_size > 0
