"""What makes the output for a line unreliable: more tokens than a model reads or was trained on, or ones unknown to it.

Most warnings name the first such line by its number, and count the others. Lines are encoded, without bos and eos;
`first_line` is the number of the first.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from translate.data.dataset import Ids
from translate.model_file import SavedModel
from translate.text.codec import Codec

log = logging.getLogger("translate")


@dataclass(frozen=True)
class Limits:
    """How many tokens a line may have, by a model and the settings of a search."""

    trained: int  # the longest source in training
    read: int  # a source, of which no more are read
    scored: int  # a given translation, because no search finds more
    positions: int  # any line, including eos, whatever the settings

    @property
    def can_be_raised(self) -> bool:
        """Whether other settings would allow more tokens to be read."""
        return self.read < self.positions - 1


def warn_of_sources(saved: SavedModel, sources: Sequence[Ids], limits: Limits, first_line: int) -> None:
    """Warn of sources that are truncated, and of those that are longer than or unlike any in training."""
    trained = f"the model was trained on at most {limits.trained}"
    if not saved.target.holds_labels:
        trained += ": translate its sentences one by one"
    lengths = [(number, len(source)) for number, source in enumerate(sources, start=first_line)]
    truncated = [line for line in lengths if line[1] > limits.read]
    long = [line for line in lengths if limits.read >= line[1] > limits.trained]
    if truncated:
        # To read more would not help where the model has learned from less.
        more = "raise max_source (--max-source) to read more" if limits.can_be_raised else ""
        remedy = more if limits.read < limits.trained else trained
        log.warning(
            "line %d has %d tokens and is truncated to the first %d%s%s",
            *truncated[0],
            limits.read,
            remedy and f"; {remedy}",
            _more_like_it(truncated),
        )
    if long:
        log.warning("line %d has %d tokens, but %s%s", *long[0], trained, _more_like_it(long))
    _warn_of_unknown(saved.source, sources, first_line, "the output is unreliable")


def warn_of_targets(saved: SavedModel, targets: Sequence[Ids], limits: Limits, first_line: int) -> None:
    """Warn of given translations that are too long for a search to find them, or mostly unknown to the model."""
    lengths = [(number, len(target)) for number, target in enumerate(targets, start=first_line)]
    long = [(number, length) for number, length in lengths if length > limits.scored]
    if long:
        can_be_scored = limits.can_be_raised and long[0][1] < limits.positions
        log.warning(
            "line %d: the translation has %d tokens, and no search gives more than %d, so its probability counts "
            "as 0%s%s",
            *long[0],
            limits.scored,
            "; raise max_source (--max-source) to score it" if can_be_scored else "",
            _more_like_it(long),
        )
    _warn_of_unknown(saved.target, targets, first_line, "the probability of this translation means little")


def _warn_of_unknown(codec: Codec, encoded: Sequence[Ids], first_line: int, consequence: str) -> None:
    """Warn of lines mostly unknown to the model, as in another language."""
    counts = [(number, *codec.count_known(ids)) for number, ids in enumerate(encoded, first_line)]
    guessed = [(number, known, tokens) for number, known, tokens in counts if 2 * known < tokens]
    if guessed:
        log.warning(
            "line %d: only %d of its %d tokens are in the model's vocabulary (%s); %s%s",
            *guessed[0],
            codec.language,
            consequence,
            _more_like_it(guessed),
        )


def _more_like_it(lines: Sequence[object]) -> str:
    """How many lines there are besides the first."""
    return f" (more such lines: {len(lines) - 1})" if len(lines) > 1 else ""
