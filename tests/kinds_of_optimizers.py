"""The optimizers of each kind in the schema, and settings for them."""

from typing import Any

from pydantic import TypeAdapter
from torch import optim

from translate.config.training import OptimizerConfig, TrainingConfig
from translate.optimization.muon import Muon
from translate.system.uncompiled import Adam, AdamW

KINDS: dict[str, tuple[type[optim.Optimizer], ...]] = {
    "adam": (Adam,),
    "adamw": (AdamW,),
    "muon": (Muon, AdamW),
}


def settings_of(kind: str, **settings: Any) -> OptimizerConfig:
    config: OptimizerConfig = TypeAdapter(
        TrainingConfig.model_fields["optimizer"].rebuild_annotation()
    ).validate_python({"kind": kind, **settings})
    return config
