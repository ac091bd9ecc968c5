"""What a comparison found: differences, those of subschemas shared by all the places that lead to them.

Places multiply (definitions that each refer twice to the one before have a million of them at the twentieth),
so that they are only spelt out for those differences that are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.schemas.json_schema.differences import Difference, Kind, Path


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What differs between two schemas, in order. `is_bad`: some of it is incompatible."""

    entries: tuple[Entry, ...]
    is_bad: bool

    def below(self, *path: str) -> tuple[Entry, ...]:
        """The same, seen from a schema that has this one at `path`."""
        return (Below(path, self),) if self.entries else ()

    def all(self, only_bad: frozenset[Kind] | None = None) -> Iterator[Difference]:
        """Each difference with its place; of those that are not in `only_bad`, if that is given, alone.

        Nothing is worked out that is not taken. Subschemas without what is wanted are passed by.
        """
        path: list[Path] = [()]
        waiting: list[Iterator[Entry]] = [iter(self.entries)]
        while waiting:
            entry = next(waiting[-1], None)
            match entry:
                case None:
                    waiting.pop()
                    path.pop()
                case Below() if only_bad is None or entry.found.is_bad:
                    path.append((*path[-1], *entry.path))
                    waiting.append(iter(entry.found.entries))
                case Difference() if only_bad is None or entry.kind not in only_bad:
                    yield entry.below(*path[-1])


@dataclass(frozen=True, slots=True, eq=False)
class Below:
    """What was found in subschemas, and where these are from those that were compared."""

    path: Path
    found: Findings = field(repr=False)


Entry: TypeAlias = "Difference | Below"

NOTHING = Findings((), False)


def is_bad(entries: Iterable[Entry], compatible: frozenset[Kind]) -> bool:
    """Whether any of these is incompatible."""
    return any(
        entry.found.is_bad if isinstance(entry, Below) else entry.kind not in compatible for entry in entries
    )
