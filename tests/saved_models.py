"""Small files of models with random weights, and what they know of German and English."""

from pathlib import Path
from typing import Any

import torch

from translate.config.schema import Config
from translate.model_file import SavedModel, fresh_model, weights_of
from translate.text.codec import Codec
from translate.text.spacing import Spacing
from translate.text.vocabulary import Vocabulary
from translate.text.words import WordTokenizer

SPACING = Spacing(joins_left=frozenset(".,"))
GERMAN = Codec(WordTokenizer("de", spacing=SPACING), Vocabulary(("Hund", "Katze", ".", ",", "schläft", "bellt", "ein")))
ENGLISH = Codec(WordTokenizer("en", spacing=SPACING), Vocabulary(("dog", "cat", ".", ",", "sleeps", "barks", "a")))


def save_model(path: Path, seed: int = 0, **settings: Any) -> Path:
    """A small model file with random weights."""
    sizes = {"d_model": 16, "ffn": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2, "tie": "none"}
    decoding = {"max_ratio": 1.0, "max_extra": 3, "beam_size": 3}
    config = Config.model_validate({"model": sizes | settings, "decoding": decoding})
    torch.manual_seed(seed)
    model = fresh_model(config, GERMAN, ENGLISH)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.5)
    SavedModel(config, GERMAN, ENGLISH, weights_of(model), {}).save(path)
    return path
