"""A push query's rows as they stand: the last row of each key, in the order in which the keys came.

Without keys there is nothing to replace, and rows are shown one below the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.sql.terminal.row_stream import Row

MAX_KEYS: Final = 10_000


class LiveRows:
    """The rows of at most `most` keys; of more, those that changed last.

    keys: the places of the key columns in a row. A row without any value behind its key is a deleted one.
    """

    def __init__(self, keys: Sequence[int], most: int = MAX_KEYS) -> None:
        self._keys = tuple(keys)
        self._most = most
        self._rows: dict[tuple[Any, ...], tuple[int, Row]] = {}
        self.changes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Iterable[Row]) -> None:
        """Take further rows."""
        for row in rows:
            self.changes += 1
            key = tuple(_hashable(row[number]) if number < len(row) else None for number in self._keys)
            if self._is_deleted(row):
                self._rows.pop(key, None)
                continue
            self._rows[key] = (self.changes, row)
            if len(self._rows) > self._most:
                del self._rows[min(self._rows, key=lambda each: self._rows[each][0])]

    def shown(self, height: int) -> list[tuple[Row, int]]:
        """At most that many rows, with the number of their last change: of more, those that changed last."""
        rows = list(self._rows.values())
        if len(rows) > height:
            least = sorted(number for number, _ in rows)[-height] if height > 0 else self.changes + 1
            rows = [each for each in rows if each[0] >= least]
        return [(row, number) for number, row in rows]

    def rows(self) -> list[Row]:
        """All rows."""
        return [row for _, row in self._rows.values()]

    def _is_deleted(self, row: Row) -> bool:
        values = [each for number, each in enumerate(row) if number not in self._keys]
        return bool(values) and all(each is None for each in values)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple((name, _hashable(each)) for name, each in value.items())
    return value
