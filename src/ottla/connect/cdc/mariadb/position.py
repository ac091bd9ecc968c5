"""A place in MariaDB's binary log, as it stands in the offsets topic; no I/O.

Debezium's own keys: `file` and `pos` say where a transaction begins, `gtids` which ones are done before it,
`event` how many of its events were produced, and `row` how many rows of the event after those. So Debezium's
offsets are ours, and the other way round, but for one thing: Debezium counts the annotations of statements
where it has asked for them. A transaction that it has told in part is told again (`whole_transactions`).
While tables are copied there is `snapshot`; then `copied` names those whose rows are all there as of the
place, and `table` the one of which some are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.data.record import SourceOffset

FILE: Final = "file"
POSITION: Final = "pos"
GTIDS: Final = "gtids"
EVENT: Final = "event"
ROW: Final = "row"
SNAPSHOT: Final = "snapshot"
TIME: Final = "ts_sec"
COPIED: Final = "copied"
TABLE: Final = "table"
COPYING: Final = "INITIAL"
FIRST_POSITION: Final = 4
"""Where the first event of every file begins."""
_GTID: Final = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")
_FILE_NUMBER: Final = re.compile(r".*\.(\d+)")


class BadOffset(ValueError):
    """An offset that is none of MariaDB's."""


@dataclass(frozen=True, slots=True)
class GtidPosition:
    """The last transaction of each domain: its server and sequence number."""

    domains: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return ",".join(
            f"{domain}-{server}-{sequence}" for domain, (server, sequence) in sorted(self.domains.items())
        )

    def after(self, domain: int, server: int, sequence: int) -> GtidPosition:
        """The position behind a transaction."""
        return GtidPosition({**self.domains, domain: (server, sequence)})

    def covers(self, other: GtidPosition) -> bool:
        """Whether nothing of the other position is missing here."""
        return all(
            domain in self.domains and self.domains[domain][1] >= sequence
            for domain, (_, sequence) in other.domains.items()
        )


def gtids_of(text: str) -> GtidPosition:
    """The position of `0-1-100,1-2-7`; of several in one domain the last. Raises BadOffset."""
    found: dict[int, tuple[int, int]] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        match = _GTID.fullmatch(part.strip())
        if match is None:
            raise BadOffset(f"{part.strip()!r} is no GTID of MariaDB")
        domain, server, sequence = map(int, match.groups())
        if domain not in found or found[domain][1] < sequence:
            found[domain] = (server, sequence)
    return GtidPosition(found)


@dataclass(frozen=True, slots=True)
class Position:
    """A place. copied: None where no copy is going on."""

    file: str
    position: int
    gtids: GtidPosition = GtidPosition()
    events: int = 0
    rows: int = 0
    copied: frozenset[str] | None = None
    copying: str | None = None

    def offset(self) -> SourceOffset:
        """As a JSON object of plain values."""
        found: dict[str, Any] = {FILE: self.file, POSITION: self.position}
        if self.gtids.domains:
            found[GTIDS] = str(self.gtids)
        if self.events:
            found[EVENT] = self.events
        if self.rows:
            found[ROW] = self.rows
        if self.copied is not None:
            found[SNAPSHOT] = COPYING
            found[COPIED] = json.dumps(sorted(self.copied), separators=(",", ":"))
            if self.copying is not None:
                found[TABLE] = self.copying
        return found

    def begin(self, file: str, position: int) -> Position:
        """The place before a transaction."""
        return Position(file, position, self.gtids, 0, 0, self.copied, self.copying)

    def within(self, events: int, rows: int) -> Position:
        """The place behind so many events and rows of the transaction."""
        return Position(self.file, self.position, self.gtids, events, rows, self.copied, self.copying)

    def done(self, file: str, position: int, gtids: GtidPosition) -> Position:
        """The place behind a transaction."""
        return Position(file, position, gtids, 0, 0, self.copied, self.copying)

    def begins(self, table: str) -> Position:
        """The place while a table is copied."""
        return replace(self, copied=self.copied or frozenset(), copying=table)

    def ends(self, table: str) -> Position:
        """The place when a table is copied."""
        return replace(self, copied=(self.copied or frozenset()) | {table}, copying=None)

    def complete(self) -> Position:
        """The place when all tables are copied."""
        return replace(self, copied=None, copying=None)

    def is_behind(self, file: str, position: int) -> bool:
        """Whether this is at another place of the same server's log, or behind it."""
        return log_order(self.file, self.position) >= log_order(file, position)


def whole_transactions(offset: SourceOffset, position: Position) -> Position:
    """The place of an offset of Debezium's, which has a time, before a transaction that was told in part."""
    return position.within(0, 0) if TIME in offset else position


def log_order(file: str, position: int) -> tuple[int, int]:
    """What places of one server's log are sorted by."""
    match = _FILE_NUMBER.fullmatch(file)
    return (int(match.group(1)) if match else 0), position


def position_of(offset: SourceOffset) -> Position:
    """The place of an offset, ours or Debezium's. Raises BadOffset."""
    file = offset.get(FILE)
    if not isinstance(file, str):
        raise BadOffset(f"an offset has no {FILE!r}: {dict(offset)}")
    gtids = offset.get(GTIDS)
    copied: frozenset[str] | None = None
    if offset.get(SNAPSHOT):
        try:
            listed = json.loads(offset.get(COPIED, "[]"))
        except (TypeError, ValueError):
            listed = None
        if not isinstance(listed, list):
            raise BadOffset(f"an offset's {COPIED!r} is no list of tables: {dict(offset)}")
        copied = frozenset(map(str, listed))
    table = offset.get(TABLE)
    if not isinstance(table, str | None) or not isinstance(gtids, str | None):
        raise BadOffset(f"an offset's {TABLE!r} or {GTIDS!r} is no text: {dict(offset)}")
    return Position(
        file,
        _number(offset, POSITION),
        gtids_of(gtids or ""),
        _number(offset, EVENT),
        _number(offset, ROW),
        copied,
        table,
    )


def _number(offset: SourceOffset, name: str) -> int:
    value = offset.get(name, 0)
    if type(value) is not int or value < 0:
        raise BadOffset(f"an offset's {name!r} must be a number, not {value!r}")
    return value
