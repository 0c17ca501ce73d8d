"""Every setting of a run, by its section: name, type, range, default and meaning.

This and the files of the sections are the only places where a setting is explained; docs/configuration.md is generated
from them. They know nothing about YAML (see loading.py) or about the classes that a name stands for (see the build
functions beside those classes).
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from translate.config.data import LabelledDataConfig, ParallelDataConfig
from translate.config.decoding import DecodingConfig
from translate.config.model import ClassifierConfig, TransformerConfig
from translate.config.section import AnyPath, Conflict, Section
from translate.config.text import TextConfig, WordTokenizerConfig
from translate.config.training import TrainingConfig


class Config(Section):
    """One run, from text to model."""

    output: AnyPath | None = Field(
        None,
        description="Folder of the run: model, training states, logs. Default: checkpoints/NAME OF THE CONFIG FILE.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        1, description="Seed of everything random in training: weights, order, dropout."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute. auto: CUDA if it is available."
    )
    processes: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None,
        description="Number of processes that train together, unless torchrun starts them. Default: one.",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None,
        description="CPU threads of each process. Default: PyTorch's choice, or as many as a container's limit of CPU "
        "time allows, divided between the processes.",
    )
    data: Annotated[ParallelDataConfig | LabelledDataConfig, Field(discriminator="kind")] = Field(
        ParallelDataConfig(), description="Which text to read."
    )
    text: TextConfig = Field(TextConfig(), description="How text becomes token ids.")
    model: Annotated[TransformerConfig | ClassifierConfig, Field(discriminator="kind")] = Field(
        TransformerConfig(), description="The model."
    )
    training: TrainingConfig = Field(TrainingConfig(), description="How it is trained.")
    decoding: DecodingConfig = Field(DecodingConfig(), description="How it translates.")

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, values: Any) -> Any:
        """Fill in the default kind of data and model where none is given, as in files from before there were others."""
        usual = {"data": "parallel", "model": "transformer"}
        if not isinstance(values, dict):
            return values
        named = {key: {"kind": kind} | values[key] for key, kind in usual.items() if isinstance(values.get(key), dict)}
        return values | named

    def conflicts(self) -> Iterator[Conflict]:
        if self.data.kind == "labelled":
            yield from self._conflicts_with_labels()
        elif self.model.kind == "classifier":
            yield Conflict(
                "model.kind: classifier learns from labelled text; set data.kind: labelled", ("model.kind", "data.kind")
            )
        known = self.training.start_from is not None
        if isinstance(self.data, ParallelDataConfig) and not (
            known or any(corpus.vocabulary for corpus in self.data.corpora)
        ):
            yield Conflict(
                "data.train has no corpus to learn vocabularies from; set vocabulary: true for at least one",
                ("data.train",),
            )
        if isinstance(self.model, TransformerConfig) and self.model.tie == "all" and not self.text.joint_vocabulary:
            yield Conflict(
                "model.tie: all shares one embedding between both languages; set text.joint_vocabulary: true, or "
                "model.tie: target",
                ("model.tie", "text.joint_vocabulary"),
            )

    def _conflicts_with_labels(self) -> Iterator[Conflict]:
        """What does not apply to labelled text."""
        if self.model.kind != "classifier":
            yield Conflict(
                "data.kind: labelled is text for a classifier; set model.kind: classifier", ("data.kind", "model.kind")
            )
        if self.training.best in ("bleu", "chrf"):
            yield Conflict(
                f"training.best: {self.training.best} is a score of translations; for labels use accuracy or loss",
                ("training.best", "data.kind"),
            )
        if self.training.start_from is not None:
            yield Conflict(
                "training.start_from is for translation: other text may have other labels; leave it out",
                ("training.start_from", "data.kind"),
            )
        if self.text.joint_vocabulary:
            yield Conflict(
                "text.joint_vocabulary is for two languages, and labelled text has one; set it to false",
                ("text.joint_vocabulary", "data.kind"),
            )
        if self.text.target_min_freq:
            yield Conflict(
                "text.target_min_freq is for target text, and labelled text has none; set it to 0",
                ("text.target_min_freq", "data.kind"),
            )
        if isinstance(self.text.tokenizer, WordTokenizerConfig) and self.text.tokenizer.target_model:
            yield Conflict(
                "text.tokenizer.target_model tokenizes translations, and labels are not tokenized; leave it out",
                ("text.tokenizer.target_model", "data.kind"),
            )
