"""The settings of `training`."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from translate.config.section import AnyPath, Conflict, Epsilon, Fraction, Section

Betas = Annotated[tuple[Fraction, Fraction], Field(strict=False)]


class BatchConfig(Section):
    """How sentence pairs are batched. A batch holds pairs of similar length and fits both limits.

    A pair that exceeds max_tokens by itself is a batch of its own.
    """

    max_tokens: PositiveInt = Field(
        4096,
        description="Batch size: maximum number of tokens on the longer side of a batch, including padding (number of "
        "rows times longest sentence).",
    )
    max_sentences: PositiveInt | None = Field(None, description="Maximum number of sentence pairs in a batch.")
    accumulate: PositiveInt = Field(
        1,
        description="Gradient accumulation: number of batches whose gradients are summed for each update. Several "
        "processes get equally many of these batches; each one left over is split among all processes.",
    )


class MomentsConfig(Section):
    """What Adam and AdamW have in common."""

    kind: str
    lr: PositiveFloat
    betas: Betas = Field(
        (0.9, 0.98), description="Decay of the running means of the gradient and the squared gradient."
    )
    eps: Epsilon = Field(1e-9, description="Added to the denominator.")


class AdamConfig(MomentsConfig):
    """Adam (Kingma and Ba, 2015)."""

    kind: Literal["adam"] = Field("adam", description="Adam.")
    lr: PositiveFloat = Field(5e-4, description="Peak learning rate.")


class AdamWConfig(MomentsConfig):
    """AdamW (Loshchilov and Hutter, 2019): Adam with decoupled weight decay."""

    kind: Literal["adamw"] = Field("adamw", description="AdamW.")
    lr: PositiveFloat = Field(1e-3, description="Peak learning rate.")
    weight_decay: NonNegativeFloat = Field(
        0.01,
        description="Decoupled weight decay on the matrices between layers. Embeddings, output layer, norms and biases "
        "have none.",
    )


class MuonConfig(Section):
    """Muon (Jordan et al., 2024) for the matrices between layers; AdamW for embeddings, output layer and the rest."""

    kind: Literal["muon"] = Field("muon", description="Muon for the matrices between layers, AdamW for the rest.")
    lr: PositiveFloat = Field(
        3e-3, description="Peak learning rate of both optimizers: Muon's updates are scaled to AdamW's size."
    )
    momentum: Fraction = Field(0.95, description="Decay of Muon's running mean of gradients.")
    betas: Betas = Field((0.9, 0.98), description="AdamW's decay of the running means.")
    eps: Epsilon = Field(1e-9, description="Added to AdamW's denominator.")
    weight_decay: NonNegativeFloat = Field(0.01, description="Decoupled weight decay on Muon's matrices.")


OptimizerConfig = AdamConfig | AdamWConfig | MuonConfig


class ConstantScheduleConfig(Section):
    """The peak rate throughout, after an optional warm-up."""

    kind: Literal["constant"] = Field("constant", description="Constant at the peak.")
    warmup_steps: NonNegativeInt = Field(0, description="Number of updates of linear warm-up.")


class InverseSqrtScheduleConfig(Section):
    """Linear warm-up, then decay with the inverse square root of the update (Vaswani et al., 2017)."""

    kind: Literal["inverse_sqrt"] = Field("inverse_sqrt", description="Inverse square root decay.")
    warmup_steps: PositiveInt = Field(400, description="Number of updates of linear warm-up.")


class FixedLengthScheduleConfig(Section):
    """What the schedules that depend on the number of updates have in common: a resumed run may not change it."""

    kind: str
    warmup_steps: NonNegativeInt = Field(400, description="Number of updates of linear warm-up.")
    final_share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.0, description="Final rate, as a share of the peak rate."
    )


class CosineScheduleConfig(FixedLengthScheduleConfig):
    """Linear warm-up, then half a cosine down to a share of the peak rate at the last update."""

    kind: Literal["cosine"] = Field("cosine", description="Cosine decay.")


class LinearScheduleConfig(FixedLengthScheduleConfig):
    """Linear warm-up, then a straight line down to a share of the peak rate at the last update."""

    kind: Literal["linear"] = Field("linear", description="Linear decay.")


ScheduleConfig = ConstantScheduleConfig | InverseSqrtScheduleConfig | CosineScheduleConfig | LinearScheduleConfig


class TrainingConfig(Section):
    """How the model is trained."""

    start_from: AnyPath | None = Field(
        None,
        description="Model file to start training from, with its weights and vocabularies; for training further on "
        "other text. Its languages and its sections `model` and `text` must be the same, except for dropout, "
        "embedding_init and, unless positions are learned, max_positions. It is validated before the first update, and "
        "may remain the best model. Default: new weights and vocabularies.",
    )
    max_epochs: PositiveInt | None = Field(
        10,
        description="Stop after this many passes over the training text. Default: 10, or null (no limit) where only "
        "max_steps is given.",
    )
    max_steps: PositiveInt | None = Field(None, description="Stop after this many updates.")
    batch: BatchConfig = Field(BatchConfig(), description="How sentence pairs are batched.")
    optimizer: Annotated[OptimizerConfig, Field(discriminator="kind")] = Field(
        AdamWConfig(), description="The optimizer."
    )
    schedule: Annotated[ScheduleConfig, Field(discriminator="kind")] = Field(
        InverseSqrtScheduleConfig(), description="How the learning rate changes from update to update."
    )
    label_smoothing: Fraction = Field(
        0.1, description="Label smoothing: share of the target probability that is spread over all tokens."
    )
    r_drop: Annotated[float, Field(ge=0.0, le=1000.0)] = Field(
        0.0,
        description="Weight of R-Drop (Liang et al., 2021): each batch passes through the model twice, with different "
        "dropout, and a further loss makes the two outputs similar. An update takes 1.6 to 2 times as long. 0 switches "
        "it off.",
    )
    clip_norm: PositiveFloat | None = Field(
        1.0, description="Gradient clipping: maximum 2-norm of the gradient; longer gradients are scaled down."
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="With more than one process. ddp: each has a copy of the model. fsdp: weights, gradients and "
        "optimizer state are sharded, which takes less memory and more time.",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Arithmetic of the forward and backward pass. auto: on a GPU, bfloat16 if it has that in hardware; "
        "on a CPU, bfloat16 if that is clearly faster for batches and models of this size. This is measured at each "
        "start, so set the same precision for all runs that you want to compare.",
    )
    activation_checkpointing: bool = Field(
        False,
        description="Keep only the inputs of each block, and recompute the rest for the gradient (Chen et al., 2016): "
        "far less memory, and updates that take up to a third longer. It switches off workers and CUDA graphs (see "
        "`plain`); weights become the same as without it, with one worker.",
    )
    plain: list[Literal["attention", "dropout", "rows", "projection", "loss", "memory", "workers", "graphs"]] = Field(
        [],
        description="Optimizations to switch off, if you suspect one of an error. On CPUs: attention (in lines of up "
        "to some 256 tokens, its steps one by one in place of PyTorch's operator), dropout (with 16 random bits per "
        "element), rows (padding matrices in bfloat16 to few distinct numbers of rows), projection (aligning rows of "
        "scores in float32 to cache lines), workers (two threads in one process, each with half of an update; they "
        "need the fast attention and dropout). On a GPU with one process: graphs (recording updates, and replaying "
        "them as CUDA graphs). On both: loss (computing its gradient in the forward pass, unless updates are "
        "recorded), memory (keeping freed memory for later tensors).",
    )
    validate_every: PositiveInt | None = Field(
        None, description="Updates between validations. Default: once per epoch."
    )
    checkpoint_every: PositiveInt | None = Field(
        None,
        description="Updates between saved training states, in addition to the one at every validation. A state is "
        "saved later if the disk is still writing the previous one.",
    )
    keep_last: PositiveInt = Field(2, description="Number of training states to keep.")
    average_last: Annotated[int, Field(ge=2)] | None = Field(
        None,
        description="Checkpoint averaging: at the end, average the weights of this many last validations, validate the "
        "average as well, and keep it if it is the best model.",
    )
    best: Literal["bleu", "chrf", "accuracy", "loss"] | None = Field(
        None,
        description="The validation metric that selects the best model. accuracy: the share of correct tokens or "
        "labels. loss: minus the log-probability, without smoothing. If a metric is the same twice (bleu and chrf to "
        "two decimal places), the loss decides. Default: bleu for translations, accuracy for labels.",
    )
    patience: PositiveInt | None = Field(
        None,
        description="Early stopping: stop after this many validations in a row without a better model, as `best` says. "
        "With the same metric, one with a lower loss is better.",
    )
    log_every: PositiveInt = Field(
        50,
        description="Updates between rows of the metrics log, and between console lines if that is not a terminal.",
    )
    samples: Annotated[int, Field(ge=0, le=10_000)] = Field(
        3, description="Number of translations shown at each validation."
    )

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, values: Any) -> Any:
        """Leave out the default limit where another one is given, which it could cut short."""
        if isinstance(values, dict) and values.get("max_steps") is not None:
            return {"max_epochs": None} | values
        return values

    def conflicts(self) -> Iterator[Conflict]:
        if self.max_epochs is None and self.max_steps is None:
            yield Conflict(
                "max_epochs and max_steps are both null; give at least one of them", ("max_epochs", "max_steps")
            )
