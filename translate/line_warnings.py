"""What makes the output for a line unreliable: more tokens than a model reads or was trained on, or ones unknown to it.

A warning names the first such line by its number, and says how many there are so far. Lines are encoded, without bos
and eos; `first_line` is the number of the first.
"""

import logging
from collections import Counter
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


class LineWarnings:
    """Warnings about the lines of one text, which may come in portions.

    A warning is repeated when it concerns ten times as many lines as before.
    """

    def __init__(self) -> None:
        self._found = Counter[str]()  # lines, by the warning
        self._told = Counter[str]()  # how many of them were known when it was given last

    def of_sources(self, saved: SavedModel, sources: Sequence[Ids], limits: Limits, first_line: int) -> None:
        """Warn of sources that are truncated, and of those that are longer than or unlike any in training."""
        trained = f"the model was trained on at most {limits.trained}"
        if not saved.target.holds_labels:
            trained += ": if it has several sentences, translate them one by one"
        lengths = [(number, len(source)) for number, source in enumerate(sources, start=first_line)]
        truncated = [line for line in lengths if line[1] > limits.read]
        long = [line for line in lengths if limits.read >= line[1] > limits.trained]
        # To read more would not help where the model has learned from less.
        more = "raise max_source (--max-source) to read more" if limits.can_be_raised else ""
        remedy = more if limits.read < limits.trained else trained
        message = "line %d has %d tokens and is truncated to the first %d%s"
        self._warn(truncated, message, limits.read, remedy and f"; {remedy}")
        self._warn(long, "line %d has %d tokens, but %s", trained)
        self._warn_of_unknown(saved.source, sources, first_line, "the output is unreliable")

    def of_targets(self, saved: SavedModel, targets: Sequence[Ids], limits: Limits, first_line: int) -> None:
        """Warn of given translations that are too long for a search to find them, or mostly unknown to the model."""
        lengths = [(number, len(target)) for number, target in enumerate(targets, start=first_line)]
        long = [line for line in lengths if line[1] > limits.scored]
        can_be_scored = long and limits.can_be_raised and long[0][1] < limits.positions
        remedy = "; raise max_source (--max-source) to score it" if can_be_scored else ""
        probability = f"so its probability counts as 0{remedy}"
        message = "line %d: the translation has %d tokens, and no search gives more than %d, %s"
        self._warn(long, message, limits.scored, probability)
        consequence = "the probability of this translation means little"
        self._warn_of_unknown(saved.target, targets, first_line, consequence)

    def _warn_of_unknown(self, codec: Codec, encoded: Sequence[Ids], first_line: int, consequence: str) -> None:
        """Warn of lines mostly unknown to the model, as in another language."""
        counts = [(number, *codec.count_known(ids)) for number, ids in enumerate(encoded, first_line)]
        guessed = [(number, known, tokens) for number, known, tokens in counts if 2 * known < tokens]
        message = f"line %d: only %d of its %d tokens are in the model's vocabulary (%s); {consequence}"
        self._warn(guessed, message, codec.language)

    def _warn(self, lines: Sequence[tuple[int, ...]], message: str, *values: object) -> None:
        """Give a warning about the first of these lines, if it is due; its figures come before the other `values`."""
        self._found[message] += len(lines)
        found = self._found[message]
        if lines and found >= 10 * self._told[message]:
            self._told[message] = found
            log.warning(f"{message}%s", *lines[0], *values, f" (such lines so far: {found})" if found > 1 else "")
