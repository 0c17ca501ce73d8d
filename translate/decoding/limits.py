"""How many tokens are read of a source and written of a translation, as settings and model say."""

import numpy as np
from numpy.typing import NDArray

from translate.config.decoding import MAX_RATIO, DecodingConfig
from translate.decoding.ensemble import Ensemble
from translate.model.build import Model

MIN_RATIO = 2.0  # tokens of the longest translation for each source token, if nothing else is known


def max_source_length(model: Model | Ensemble, config: DecodingConfig) -> int:
    """How many tokens of a source (without eos) are read at most: what the settings and the model's positions allow."""
    return min(config.max_source, model.max_length - 1)


def max_target_lengths(
    model: Model | Ensemble, config: DecodingConfig, source_lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How many tokens, including eos, the translation of each source may have, given their lengths without eos."""
    # Rounded first, because 2.2 * 25 is slightly more than 55.
    allowed = np.ceil(np.round((config.max_ratio or MIN_RATIO) * source_lengths, 6)) + config.max_extra + 1
    # As a float64, NO_LIMIT (see positions.py) would be rounded up to more than int64 holds.
    return np.minimum(allowed, min(model.max_length, 2**53)).astype(np.int64)


def max_scored_length(model: Model | Ensemble, config: DecodingConfig) -> int:
    """How many tokens (without eos) a target may have: no search with `config` gives more, whatever the source.

    One exception: a translation that the model's positions cut off has one more. They have no place for its eos.
    """
    # A translation that is cut off has no eos, but one more token in its place.
    max_length = max_target_lengths(model, config, np.array([max_source_length(model, config)])).item()
    return min(max_length, model.max_length - 1)


def estimate_max_ratio(sources: NDArray[np.integer], targets: NDArray[np.integer], max_extra: int) -> float:
    """The `max_ratio` that leaves translations enough room, from the lengths of training targets and their sources.

    A Chinese character takes several letters in English, so the usual limit would cut off nearly all translations.
    One pair in a hundred may be an outlier.
    """
    needed = np.quantile((targets - max_extra) / np.maximum(sources, 1), 0.99)
    return min(max(MIN_RATIO, round(1.5 * float(needed), 1)), MAX_RATIO)
