"""A place in PostgreSQL's stream of transactions, as it stands in the offsets topic; no I/O.

Transactions come in the order of their commits, each whole. A place is a commit, and how many changes of its
transaction were produced: {"commit": 17, "changes": 3}. Without changes it lies before the transaction, so a
transaction that was produced whole is the place of the end of its commit: every later one begins behind it.
A row's own place in the log (LSN) says nothing, as transactions overlap there.

While tables are copied the place has `snapshot`: `copied` names the tables whose rows are all there as of the
place, `copying` the one of which some are.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect.data.record import SourceOffset

COMMIT: Final = "commit"
CHANGES: Final = "changes"
PREVIOUS: Final = "previous"
SNAPSHOT: Final = "snapshot"
COPIED: Final = "copied"
TABLE: Final = "table"
_DEBEZIUM_COMMIT: Final = "lsn_commit"
MAX_LSN: Final = (1 << 64) - 1


class SnapshotState(enum.StrEnum):
    """How far the copying of tables is."""

    COPYING = "copying"
    DONE = "done"


class BadOffset(ValueError):
    """An offset that is none of PostgreSQL's."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place. commit: LSN; previous: the end of the transaction before, where it is known."""

    commit: int
    changes: int = 0
    previous: int | None = None
    snapshot: SnapshotState = SnapshotState.DONE
    copied: frozenset[str] = frozenset()
    copying: str | None = None

    def offset(self) -> SourceOffset:
        """As a JSON object of plain values."""
        found: dict[str, Any] = {COMMIT: self.commit}
        if self.changes:
            found[CHANGES] = self.changes
        if self.previous is not None:
            found[PREVIOUS] = self.previous
        if self.snapshot is SnapshotState.COPYING:
            found[SNAPSHOT] = self.snapshot.value
            found[COPIED] = json.dumps(sorted(self.copied), separators=(",", ":"))
            if self.copying is not None:
                found[TABLE] = self.copying
        return found

    def at(self, commit: int) -> Position:
        """The place before a transaction."""
        return Position(commit, 0, self.previous, self.snapshot, self.copied, self.copying)

    def after(self, changes: int) -> Position:
        """The place behind so many changes of the transaction."""
        # Once a change: `replace` takes five times as long.
        return Position(self.commit, changes, self.previous, self.snapshot, self.copied, self.copying)

    def past(self, end: int) -> Position:
        """The place behind the whole transaction."""
        return Position(end, 0, end, self.snapshot, self.copied, self.copying)

    def begins(self, table: str) -> Position:
        """The place while a table is copied."""
        return Position(self.commit, 0, self.previous, SnapshotState.COPYING, self.copied, table)

    def ends(self, table: str) -> Position:
        """The place when a table is copied."""
        return Position(self.commit, 0, self.previous, SnapshotState.COPYING, self.copied | {table})

    def done(self) -> Position:
        """The place when all tables are copied."""
        return Position(self.commit, 0, self.previous)


def position_of(offset: SourceOffset) -> Position:
    """The place of an offset; of Debezium's, too, after its last whole transaction. Raises BadOffset."""
    if COMMIT not in offset:
        if type(offset.get(_DEBEZIUM_COMMIT)) is int:
            return Position(_lsn(offset, _DEBEZIUM_COMMIT))
        raise BadOffset(f"an offset has no {COMMIT!r}: {dict(offset)}")
    previous = None if offset.get(PREVIOUS) is None else _lsn(offset, PREVIOUS)
    changes = offset.get(CHANGES, 0)
    if type(changes) is not int or changes < 0:
        raise BadOffset(f"an offset's {CHANGES!r} must be a number of changes, not {changes!r}")
    table = offset.get(TABLE)
    try:
        snapshot = SnapshotState(offset.get(SNAPSHOT, SnapshotState.DONE))
        copied = json.loads(offset.get(COPIED, "[]"))
    except (ValueError, TypeError):
        raise BadOffset(f"an offset's {SNAPSHOT!r} or {COPIED!r} makes no sense: {dict(offset)}") from None
    if not isinstance(copied, list) or not isinstance(table, str | None):
        raise BadOffset(f"an offset's {COPIED!r} is no list of tables: {dict(offset)}")
    if snapshot is SnapshotState.DONE:
        return Position(_lsn(offset, COMMIT), changes, previous)
    tables = frozenset(map(str, copied))
    return Position(_lsn(offset, COMMIT), changes, previous, snapshot, tables, table)


def _lsn(offset: SourceOffset, name: str) -> int:
    value = offset[name]
    if type(value) is not int or not 0 <= value <= MAX_LSN:
        raise BadOffset(f"an offset's {name!r} must be a place in the log, not {value!r}")
    return value


def lsn_text(lsn: int) -> str:
    """As PostgreSQL writes it: 16/B374D848."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


def lsn_of(text: str) -> int:
    """The number of 16/B374D848. Raises ValueError."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)
