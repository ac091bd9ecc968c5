"""A place in a file that is not as Kafka writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a place: the file, the byte from its start and the offset, where there are such."""

    path: Path
    reason: str
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = str(self.path)
        if self.position is not None:
            place += f": byte {self.position}"
        if self.offset is not None:
            place += f", offset {self.offset}"
        return f"{place}: {self.reason}"


class DamagedFile(Exception):
    """A file that cannot be read to its end: the place and the reason."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))
