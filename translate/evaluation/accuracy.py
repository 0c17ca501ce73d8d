"""How many labels are right: overall, compared with the majority baseline, and label by label.

It knows nothing about models or files.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

MAX_SHOWN = 10  # labels in a one-line summary


@dataclass(frozen=True)
class LabelCount:
    """Of all texts whose right label this is, how many were given it."""

    right: int
    total: int


@dataclass(frozen=True)
class LabelReport:
    """How good a set of labels is; `labels` has those of the reference, the most frequent first."""

    labels: dict[str, LabelCount]
    distinct: int  # different labels given; a blank text is given none

    @property
    def right(self) -> int:
        return sum(count.right for count in self.labels.values())

    @property
    def texts(self) -> int:
        return sum(count.total for count in self.labels.values())

    @property
    def accuracy(self) -> float:
        """The share of right labels."""
        return self.right / self.texts

    @property
    def most_frequent(self) -> str:
        return next(iter(self.labels))

    @property
    def majority_baseline(self) -> float:
        """The accuracy of always giving the most frequent label."""
        return self.labels[self.most_frequent].total / self.texts

    @property
    def warning(self) -> str | None:
        """What is suspicious about the labels, if anything."""
        if self.distinct != 1 or len(self.labels) == 1:
            return None
        return "all texts (but blank ones) are given the same label: the model seems to ignore its input"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, including the warning."""
        return {
            "accuracy": self.accuracy,
            "right": self.right,
            "texts": self.texts,
            "most_frequent": self.most_frequent,
            "majority_baseline": self.majority_baseline,
            "warning": self.warning,
            **asdict(self),
        }

    def summary(self) -> str:
        """One line, with the most frequent labels."""
        counts = [f"{label} {count.right}/{count.total}" for label, count in self.labels.items()]
        shown = ", ".join(counts[:MAX_SHOWN]) + (", …" if len(counts) > MAX_SHOWN else "")
        baseline = f"majority baseline {self.majority_baseline:.1%}"
        return f"accuracy {self.accuracy:.1%} of {self.texts} texts ({baseline}), correct by label: {shown}"

    def format(self) -> str:
        """A few aligned lines for the terminal, values in percent."""
        rows = [
            ("accuracy", self.accuracy, f"{self.right} of {self.texts} texts"),
            ("majority baseline", self.majority_baseline, f"always {self.most_frequent}, the most frequent label"),
            *((label, c.right / c.total, f"{c.right} of {c.total}") for label, c in self.labels.items()),
        ]
        width = max(len(name) + 2 for name, _, _ in rows)
        lines = [f"{name:<{width}}{100 * value:6.2f}         {what}" for name, value, what in rows]
        if self.warning is not None:
            lines.append(f"warning: {self.warning}")
        return "\n".join(lines)


def count_labels(found: Sequence[str], references: Sequence[str]) -> LabelReport:
    """Compare the labels of texts, at least one, with the right ones."""
    assert len(found) == len(references) > 0
    total = Counter(references)
    right = Counter(reference for label, reference in zip(found, references, strict=True) if label == reference)
    ordered = sorted(total, key=lambda label: (-total[label], label))
    return LabelReport({label: LabelCount(right[label], total[label]) for label in ordered}, len(set(found) - {""}))
