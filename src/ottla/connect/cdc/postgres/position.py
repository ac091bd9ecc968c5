"""A place in PostgreSQL's stream of transactions, as it stands in the offsets topic; no I/O.

Transactions come in the order of their commits, each whole. A place is a commit, and how many changes of its
transaction were produced: {"commit": 17, "changes": 3}. Without changes it lies before the transaction, so a
transaction that was produced whole is the place of the end of its commit: every later one begins behind it.
A row's own place in the log (LSN) says nothing, as transactions overlap there.

While tables are copied the place has `snapshot`: the transactions before it are in the copies of the tables
that `copied` names. A copy that a later run made holds more: each table has its own commit from which its
changes count, until the stream is past them all.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.data.record import SourceOffset

COMMIT: Final = "commit"
CHANGES: Final = "changes"
PREVIOUS: Final = "previous"
SNAPSHOT: Final = "snapshot"
COPIED: Final = "copied"
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
    copied: Mapping[str, int] = field(default_factory=dict)
    """Tables whose copies hold transactions up to their own LSN, which is not below `commit`."""

    def offset(self) -> SourceOffset:
        """As a JSON object of plain values."""
        found: dict[str, Any] = {COMMIT: self.commit}
        if self.changes:
            found[CHANGES] = self.changes
        if self.previous is not None:
            found[PREVIOUS] = self.previous
        if self.snapshot is SnapshotState.COPYING:
            found[SNAPSHOT] = self.snapshot.value
        if self.copied:
            found[COPIED] = json.dumps(dict(self.copied), sort_keys=True, separators=(",", ":"))
        return found

    def holds(self, table: str, commit: int) -> bool:
        """Whether a table's copy holds what the transaction of this commit did."""
        copied = self.copied.get(table)
        return copied is not None and commit < copied

    def at_transaction(self, commit: int) -> Position:
        """The place before a transaction. Copies that it is past need no more be told."""
        left = {table: lsn for table, lsn in self.copied.items() if lsn > commit} if self.copied else {}
        return replace(self, commit=commit, changes=0, copied=left)

    def after(self, changes: int) -> Position:
        """The place behind so many changes of the transaction."""
        # Once a change: `replace` takes five times as long.
        return Position(self.commit, changes, self.previous, self.snapshot, self.copied)

    def past(self, end: int) -> Position:
        """The place behind the whole transaction."""
        return Position(end, 0, end, self.snapshot, self.copied)


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
    try:
        snapshot = SnapshotState(offset.get(SNAPSHOT, SnapshotState.DONE))
        copied = json.loads(offset.get(COPIED, "{}"))
        tables = {str(table): int(lsn) for table, lsn in copied.items()}
    except (ValueError, TypeError, AttributeError):
        raise BadOffset(f"an offset's {SNAPSHOT!r} or {COPIED!r} makes no sense: {dict(offset)}") from None
    return Position(_lsn(offset, COMMIT), changes, previous, snapshot, tables)


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
