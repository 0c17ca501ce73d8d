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
    """Warnings about the lines of a text, which may come in portions.

    A warning is repeated when it concerns ten times as many lines as before.
    """

    def __init__(self, saved: SavedModel) -> None:
        self._saved = saved
        self._next_line: int | None = None  # of the current text, if it may go on
        self._found = Counter[str]()  # lines of the current text, by the warning
        self._told = Counter[str]()  # how many of them were known when it was given last

    def of_sources(self, sources: Sequence[Ids], limits: Limits, first_line: int) -> None:
        """Warn of sources that are truncated, and of those that are longer than or unlike any in training.

        They go on with the text of the last ones if their numbers do. But a single line is a text of its own: whoever
        writes lines one by one reads what is said of each.
        """
        alone = len(sources) == 1
        if alone or first_line != self._next_line:
            self._found.clear()
            self._told.clear()
        self._next_line = None if alone else first_line + len(sources)
        trained = f"the model was trained on at most {limits.trained}"
        if not self._saved.target.holds_labels:
            trained += ": translate its sentences one by one"
        lengths = [(number, len(source)) for number, source in enumerate(sources, start=first_line)]
        truncated = [line for line in lengths if line[1] > limits.read]
        long = [line for line in lengths if limits.read >= line[1] > limits.trained]
        # To read more would not help where the model has learned from less.
        more = "raise max_source (--max-source) to read more" if limits.can_be_raised else ""
        remedy = more if limits.read < limits.trained else trained
        message = "line %d has %d tokens and is truncated to the first %d%s"
        self._warn(truncated, message, limits.read, remedy and f"; {remedy}")
        self._warn(long, "line %d has %d tokens, but %s", trained)
        self._warn_of_unknown(self._saved.source, sources, first_line, "the output is unreliable")

    def of_targets(self, targets: Sequence[Ids], limits: Limits, first_line: int) -> None:
        """Warn of given translations that are too long for a search to find them, or mostly unknown to the model.

        They are those of the last sources.
        """
        lengths = [(number, len(target)) for number, target in enumerate(targets, start=first_line)]
        long = [line for line in lengths if line[1] > limits.scored]
        can_be_scored = long and limits.can_be_raised and long[0][1] < limits.positions
        remedy = "; raise max_source (--max-source) to score it" if can_be_scored else ""
        probability = f"so its probability counts as 0{remedy}"
        message = "line %d: the translation has %d tokens, and no search gives more than %d, %s"
        self._warn(long, message, limits.scored, probability)
        consequence = "the probability of this translation means little"
        self._warn_of_unknown(self._saved.target, targets, first_line, consequence)

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
