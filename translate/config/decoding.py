"""The settings of `decoding`: how a trained model translates."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from translate.config.section import Section

# Settings that only one kind of search has.
OWN_SETTINGS = {
    "beam": {"beam_size", "length_penalty"},
    "sample": {"temperature", "top_k", "seed"},
}
VALIDATION_SETTINGS = {"max_ratio", "max_extra", "max_source"}  # change what validation during training finds
MAX_RATIO = 1000.0  # of a translation's length to its source's: a model that never writes an end would go on for hours


class DecodingConfig(Section):
    """How a trained model searches for a translation. Validation during training always searches greedily."""

    search: Literal["greedy", "beam", "sample"] = Field(
        "beam",
        description="greedy: the best token at each step. beam: beam search. sample: tokens drawn at random, with the "
        "probabilities that the model gives them.",
    )
    beam_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        5, description="Number of hypotheses kept for each sentence."
    )
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        1.0,
        description="Exponent a in score = log-probability / length^a (after Wu et al., 2016). 0 ranks by "
        "log-probability alone.",
    )
    temperature: Annotated[float, Field(ge=0.01, le=100.0)] = Field(
        1.0,
        description="Sampling: log-probabilities are divided by this before a token is drawn. Below 1, probable tokens "
        "are drawn more often than the model says.",
    )
    top_k: PositiveInt | None = Field(
        None, description="Sampling: draw from this many most probable tokens only. Default: the whole vocabulary."
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        1,
        description="Sampling: the random seed. With the same seed, line N of a text always gets the same translation, "
        "except that in batches of another size rounding may rarely draw another token.",
    )
    max_ratio: Annotated[float, Field(gt=0.0, le=MAX_RATIO)] | None = Field(
        None,
        description="Maximum number of target tokens for each source token; max_extra come on top. Default: 1.5 times "
        "the ratio that 99 in 100 training pairs need, and at least 2.",
    )
    max_extra: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        10,
        description="Number of target tokens allowed on top of max_ratio; the end token is not counted. A translation "
        "that is cut off has a further token in its place.",
    )
    max_source: PositiveInt = Field(
        1000,
        description="Source lines are truncated to this many tokens, or to max_positions - 1 by a model with learned "
        "positions; a warning says so.",
    )
    batch_tokens: PositiveInt | None = Field(
        None,
        description="Batch size in source tokens, including padding; smaller if memory runs out. On a CPU, two workers "
        "share it: each searches batches of half the size. With more than 5 hypotheses or samples of each sentence, "
        "batches are smaller in proportion. Default: 4,096, and 16,384 on a GPU.",
    )
