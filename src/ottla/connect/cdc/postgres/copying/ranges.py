"""A table's ranges of keys, in which it is copied: which there are, and which are done; no I/O.

Bounds are texts of the key's columns, in the key's own order. They need not be exact, as all rows lie in one
range each: before the first bound, from one bound up to the next, from the last one on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

MAX_RANGES: Final = 256
"""Of one table: their bounds stand in the offset."""
MAX_BOUND_CHARACTERS: Final = 200
_COLUMNS: Final = "key"
_BOUNDS: Final = "bounds"
_DONE: Final = "done"

Bound = tuple[str, ...]


class BadRanges(ValueError):
    """An offset's ranges that make no sense."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of a table. columns: of its key; without bounds there is one range, the whole table."""

    columns: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    done: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.bounds) + 1

    @property
    def left(self) -> list[int]:
        """Those that are not done, in the key's order."""
        return [each for each in range(self.count) if each not in self.done]

    def with_done(self, number: int) -> Ranges:
        """As they are when one more is done."""
        return Ranges(self.columns, self.bounds, self.done | {number})

    def condition(self, number: int) -> sql.Composed | None:
        """What the rows of a range fulfil; None for the whole table."""
        if not self.bounds:
            return None
        parts = []
        if number > 0:
            parts.append(self._compared(">=", self.bounds[number - 1]))
        if number < len(self.bounds):
            parts.append(self._compared("<", self.bounds[number]))
        return sql.SQL(" AND ").join(parts)

    def _compared(self, operator: str, bound: Bound) -> sql.Composed:
        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns))
        values = sql.SQL(", ").join(map(sql.Literal, bound))
        return sql.SQL("({}) {} ({})").format(columns, sql.SQL(operator), values)

    def plain(self) -> dict[str, Any]:
        """As a JSON object."""
        if not self.bounds:
            return {}
        return {_COLUMNS: self.columns, _BOUNDS: self.bounds, _DONE: sorted(self.done)}


def ranges_of(columns: Sequence[str], bounds: Sequence[Bound]) -> Ranges:
    """The ranges between some bounds; the whole table where a bound is too long to stand in an offset."""
    if any(sum(map(len, each)) > MAX_BOUND_CHARACTERS for each in bounds):
        return Ranges()
    return Ranges(tuple(columns), tuple(bounds)) if bounds else Ranges()


def begun_text(begun: Mapping[str, Ranges]) -> str:
    """The tables of which something is copied, as they stand in an offset."""
    return json.dumps(
        {table: ranges.plain() for table, ranges in sorted(begun.items())}, separators=(",", ":")
    )


def begun_of(text: str) -> dict[str, Ranges]:
    """The tables of such a text. Raises BadRanges."""
    try:
        return {str(table): _ranges(plain) for table, plain in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, KeyError) as problem:
        raise BadRanges(f"{text[:200]!r} does not say which ranges of tables are copied") from problem


def _ranges(plain: Mapping[str, Any]) -> Ranges:
    if not plain:
        return Ranges()
    columns = tuple(map(str, plain[_COLUMNS]))
    bounds = tuple(tuple(map(str, each)) for each in plain[_BOUNDS])
    done = frozenset(plain[_DONE])
    fine = 0 < len(bounds) < MAX_RANGES and all(len(each) == len(columns) for each in bounds)
    if not columns or not fine or not all(type(each) is int and 0 <= each <= len(bounds) for each in done):
        raise BadRanges(f"{dict(plain)} are no ranges")
    return Ranges(columns, bounds, done)
