"""A trained model in one file: weights, settings, vocabularies and a record of its training.

Nothing else is needed to translate: not the corpus, not the config file, not torchtext.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from translate.config.loading import config_from_dict, config_to_dict
from translate.config.schema import Config
from translate.errors import CheckpointError, ConfigError
from translate.model.build import Model, build_model
from translate.system.storage import read_tensors, write_tensors
from translate.text.codec import Codec, Codecs

FORMAT = "translate model 1"


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What a model file holds. `about` is for people: data variant, commit, step, validation scores."""

    config: Config = field(repr=False)
    source: Codec = field(repr=False)
    target: Codec = field(repr=False)
    weights: dict[str, Tensor] = field(repr=False)
    about: dict[str, Any]

    @property
    def codecs(self) -> Codecs:
        return Codecs(self.source, self.target)

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of the languages that it translates from and to."""
        return self.source.language, self.target.language

    @property
    def longest_source(self) -> int:
        """How many tokens the sources had at most from which the model has learned, as far as that is known."""
        return int(self.about.get("longest_source", self.config.data.filter.max_tokens))

    def save(self, path: str | Path) -> None:
        """Write the file. CheckpointError if that fails, or if there are no weights."""
        if not self.weights:  # as in Translator.saved
            raise CheckpointError(f"cannot write {path}: the model has no weights here; take it from SavedModel.load")
        values = {
            "format": FORMAT,
            "about": self.about,
            "config": config_to_dict(self.config),
            "source": self.source.to_dict(),
            "target": self.target.to_dict(),
        }
        write_tensors(Path(path), self.weights, values)

    @classmethod
    def load(cls, path: str | Path) -> "SavedModel":
        """Read a model file. CheckpointError if it is missing, damaged, or not a model."""
        tensors, values = read_tensors(Path(path))
        if values.get("format") != FORMAT:
            found = values.get("format", "unknown")
            raise CheckpointError(
                f"{path} is not a model: its format is '{found}', not '{FORMAT}'; give the model.safetensors of a run"
            )
        try:
            config = config_from_dict(values["config"])
            source, target = Codec.from_dict(values["source"]), Codec.from_dict(values["target"])
            about = values["about"]
        except ConfigError as error:
            raise CheckpointError(f"{path} was made by another version of this project: {error}") from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{path} was made by another version of this project: its settings or vocabularies cannot be read "
                f"({type(error).__name__}: {error}); use the version that made it"
            ) from error
        # Testing the sum is twenty times as fast, but the sum of finite numbers may be infinite, too.
        if diverged := [name for name, t in tensors.items() if not (t.sum().isfinite() or t.isfinite().all())]:
            raise CheckpointError(
                f"{path} has weights that are infinite or NaN ({diverged[0]}): its training has diverged; train it "
                "again with a lower training.optimizer.lr"
            )
        return cls(config, source, target, tensors, about)

    def model(self) -> Model:
        """The model itself, in evaluation mode, on the CPU. CheckpointError if the weights do not fit the settings."""
        with SkipInit():
            model = fresh_model(self.config, self.source, self.target)
        load_weights(model, self.weights)
        return model.eval()


class SkipInit(TorchFunctionMode):
    """Skips random initialization, for weights that will be overwritten.

    Drawing them takes several times as long as reading a model, and would change the caller's random state.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.uniform_, Tensor.normal_, nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs or {})


def fresh_model(config: Config, source: Codec, target: Codec) -> Model:
    """A model with fresh weights for these settings and vocabularies."""
    sizes = {"source_size": len(source.vocabulary), "target_size": len(target.vocabulary)}
    # Whatever the default device and dtype of the process are.
    with torch.device("cpu"):
        return build_model(config.model, **sizes).float()


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """All parameters by name; a tied one only once, under its first name."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into the model's own tensors, so that ties stay tied. CheckpointError if they do not fit."""
    own = dict(model.named_parameters())
    wrong = sorted(own.keys() ^ weights.keys())
    wrong += [name for name in own if name in weights and own[name].shape != weights[name].shape]
    if wrong:
        raise CheckpointError(f"the weights do not fit the model's settings: {', '.join(wrong[:5])}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])
