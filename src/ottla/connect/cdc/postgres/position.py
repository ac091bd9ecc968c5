"""A place in PostgreSQL's stream of transactions, as it stands in the offsets topic; no I/O.

Transactions come in the order of their commits, each whole. A place is a commit, and how many changes of its
transaction were produced: {"commit": 17, "changes": 3}. Without changes it lies before the transaction, so a
transaction that was produced whole is the place of the end of its commit: every later one begins behind it.
A row's own place in the log (LSN) says nothing, as transactions overlap there.

While tables are copied the place has `snapshot`: `copied` names the tables whose rows are all there as of the
place, `begun` those of which some are, with the ranges that are done.

`system` and `timeline` say which history of the log the place is in: after a standby was promoted, or in
another server, the same number is another place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.connect.cdc.postgres.copying.ranges import BadRanges, Ranges, begun_of, begun_text
from ottla.connect.data.record import SourceOffset

COMMIT: Final = "commit"
CHANGES: Final = "changes"
PREVIOUS: Final = "previous"
SNAPSHOT: Final = "snapshot"
COPIED: Final = "copied"
BEGUN: Final = "begun"
SYSTEM: Final = "system"
TIMELINE: Final = "timeline"
_COPYING: Final = "copying"
_DONE: Final = "done"
_DEBEZIUM_COMMIT: Final = "lsn_commit"
MAX_LSN: Final = (1 << 64) - 1


class BadOffset(ValueError):
    """An offset that is none of PostgreSQL's."""


@dataclass(frozen=True, slots=True)
class History:
    """A history of the log. system: the database cluster's identifier; timeline: its number."""

    system: str
    timeline: int


@dataclass(frozen=True, slots=True)
class Copying:
    """How far the copying of tables is. copied: those that are done; begun: those of which rows are there."""

    copied: frozenset[str] = frozenset()
    begun: Mapping[str, Ranges] = field(default_factory=dict)

    def begins(self, table: str, ranges: Ranges) -> Copying:
        """When rows of a table come."""
        return Copying(self.copied, {**self.begun, table: ranges})

    def finishes(self, table: str, number: int) -> Copying:
        """When a range of a table that is begun is done."""
        ranges = self.begun[table].with_done(number)
        if ranges.left:
            return self.begins(table, ranges)
        begun = {name: each for name, each in self.begun.items() if name != table}
        return Copying(self.copied | {table}, begun)


@dataclass(frozen=True, slots=True)
class Position:
    """A place. commit: LSN; previous: the end of the transaction before, where it is known.

    copying: None where no table is being copied; history: None where the offset does not say it.
    """

    commit: int
    changes: int = 0
    previous: int | None = None
    copying: Copying | None = None
    history: History | None = None

    def offset(self) -> SourceOffset:
        """As a JSON object of plain values."""
        found: dict[str, Any] = {COMMIT: self.commit}
        if self.changes:
            found[CHANGES] = self.changes
        if self.previous is not None:
            found[PREVIOUS] = self.previous
        if self.history is not None:
            found[SYSTEM] = self.history.system
            found[TIMELINE] = self.history.timeline
        if self.copying is not None:
            found[SNAPSHOT] = _COPYING
            found[COPIED] = json.dumps(sorted(self.copying.copied), separators=(",", ":"))
            if self.copying.begun:
                found[BEGUN] = begun_text(self.copying.begun)
        return found

    def at(self, commit: int) -> Position:
        """The place before a transaction."""
        return Position(commit, 0, self.previous, self.copying, self.history)

    def after(self, changes: int) -> Position:
        """The place behind so many changes of the transaction."""
        # Once a change: `replace` takes five times as long.
        return Position(self.commit, changes, self.previous, self.copying, self.history)

    def past(self, end: int) -> Position:
        """The place behind the whole transaction."""
        return Position(end, 0, end, self.copying, self.history)

    def with_copying(self, copying: Copying | None) -> Position:
        """The place while tables are copied; None: when all are."""
        return Position(self.commit, 0, self.previous, copying, self.history)

    def within(self, history: History) -> Position:
        """The place in a history of the log."""
        return Position(self.commit, self.changes, self.previous, self.copying, history)


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
    return Position(_lsn(offset, COMMIT), changes, previous, _copying_of(offset), _history_of(offset))


def _copying_of(offset: SourceOffset) -> Copying | None:
    try:
        copied = json.loads(offset.get(COPIED, "[]"))
        begun = begun_of(offset.get(BEGUN, "{}"))
    except (ValueError, TypeError, BadRanges):
        raise BadOffset(f"an offset's {COPIED!r} or {BEGUN!r} makes no sense: {dict(offset)}") from None
    if not isinstance(copied, list):
        raise BadOffset(f"an offset's {COPIED!r} is no list of tables: {dict(offset)}")
    match offset.get(SNAPSHOT, _DONE):
        case "done":
            return None
        case "copying":
            return Copying(frozenset(map(str, copied)), begun)
    raise BadOffset(f"an offset's {SNAPSHOT!r} is neither {_COPYING} nor {_DONE}: {dict(offset)}")


def _history_of(offset: SourceOffset) -> History | None:
    system, timeline = offset.get(SYSTEM), offset.get(TIMELINE)
    if system is None and timeline is None:
        return None
    if not isinstance(system, str) or type(timeline) is not int:
        raise BadOffset(f"an offset's {SYSTEM!r} or {TIMELINE!r} makes no sense: {dict(offset)}")
    return History(system, timeline)


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
