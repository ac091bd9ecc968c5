"""The findings of a comparison: differences, with those of a subschema shared by all places that use it.

Places multiply (if each definition refers twice to the one before, the twentieth is reached by a million
places), so they are only spelt out for the differences that are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ottla.schemas.json_schema.differences import Difference, Kind, Path


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The differences between two schemas, in order. `is_bad`: whether any of them is incompatible."""

    entries: tuple[Entry, ...]
    is_bad: bool

    def below(self, *path: str) -> tuple[Entry, ...]:
        """The same findings, seen from a schema that contains the compared one at `path`."""
        return (Below(path, self),) if self.entries else ()

    def all(self, only_bad: frozenset[Kind] | None = None) -> Iterator[Difference]:
        """Each difference with its place; with `only_bad`, only those whose kind is not in it.

        Lazy: no more is worked out than is taken. Subschemas without such a difference are skipped.
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
    """The findings in subschemas, and the path to these from the schemas that were compared."""

    path: Path
    found: Findings = field(repr=False)


Entry: TypeAlias = "Difference | Below"

NOTHING = Findings((), False)


def is_bad(entries: Iterable[Entry], compatible: frozenset[Kind]) -> bool:
    """Whether any of the entries is incompatible."""
    return any(
        entry.found.is_bad if isinstance(entry, Below) else entry.kind not in compatible for entry in entries
    )
