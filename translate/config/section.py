"""What all settings are made of: a section of settings, the types of values, and contradictions between them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Types are strict, so "12" is no number. Paths and tuples are the exceptions, because YAML has only strings and lists.
AnyPath = Annotated[Path, Field(strict=False)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]  # such as a probability; 1 would leave nothing
Size = Annotated[int, Field(ge=1, le=10_000_000)]  # of something held in memory as a whole
Width = Annotated[int, Field(ge=1, le=65_536)]  # of vectors; a table of positions begins with hundreds of them
Depth = Annotated[int, Field(ge=1, le=1000)]  # blocks, each of which takes time to build, however small
MIN_EPSILON = 1e-30  # much smaller ones are 0 in float32
Epsilon = Annotated[float, Field(ge=MIN_EPSILON, le=1.0)]


class Conflict(NamedTuple):
    """Settings that contradict each other; `keys` are their paths within the section that reports it."""

    message: str
    keys: tuple[str, ...]


class ConflictError(ValueError):
    """All contradictions within one section."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__("; ".join(conflict.message for conflict in conflicts))
        self.conflicts = conflicts


class Section(BaseModel):
    """A group of settings: frozen, strictly typed, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def conflicts(self) -> Iterator[Conflict]:
        """Contradictions between settings that are valid by themselves."""
        yield from ()

    @model_validator(mode="after")
    def _agree(self) -> "Section":
        if conflicts := list(self.conflicts()):
            raise ConflictError(conflicts)
        return self
