"""A materialized table on the local disk: rows by key, and how far in the topic they go, in one SQLite file.

Rows and positions change in the same transaction, so after any end of the process the file goes on where it
was. It is a copy of a topic: a file of another topic, of other types or of other code, and one that is
broken, is thrown away and read anew. One thread writes; readers have connections of their own and never wait
for it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.streams.views.view_codec import Stored, TableKey

log = logging.getLogger("ottla.streams")

READERS: Final = 4
LAYOUT: Final = 1
_CACHE_KIBIBYTES: Final = 4_096
_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE positions (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE rows (
  key BLOB NOT NULL, start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL,
  value BLOB NOT NULL, timestamp_ms INTEGER NOT NULL,
  PRIMARY KEY (key, start_ms, end_ms)
) WITHOUT ROWID;
"""
_BY_END: Final = "CREATE INDEX rows_by_end ON rows (end_ms)"
_PLACED: Final = """
SELECT 0, partition, next_offset, NULL FROM positions
UNION ALL SELECT 1, timestamp_ms, 0, value FROM rows WHERE key = ? AND start_ms = 0 AND end_ms = 0
"""
_ROW: Final = "key, start_ms, end_ms, value, timestamp_ms"


class Row(NamedTuple):
    """A row of a table: `value` is JSON, `timestamp_ms` the last change's."""

    key: TableKey
    value: bytes
    timestamp_ms: int


class Change(NamedTuple):
    """A record's change of its row: `value` None deletes it."""

    value: bytes | None
    timestamp_ms: int


class Snapshot:
    """A table at one moment: rows, and the positions that they are of."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def positions(self) -> dict[int, int]:
        """By partition: the next offset to read."""
        return dict(self._connection.execute("SELECT partition, next_offset FROM positions"))

    def get(self, key: Stored) -> Row | None:
        """The row of a key, of a table without windows."""
        rows = self.select("WHERE key = ? AND start_ms = 0 AND end_ms = 0", (key,))
        return rows[0] if rows else None

    def windows(self, key: Stored, from_ms: int, to_ms: int, limit: int) -> list[Row]:
        """A key's windows that start from `from_ms` to `to_ms`, both inclusive, oldest first."""
        where = "WHERE key = ? AND start_ms BETWEEN ? AND ? ORDER BY start_ms, end_ms LIMIT ?"
        return self.select(where, (key, from_ms, to_ms, limit))

    def pages(self, rows: int, low: Stored | None = None, high: Stored | None = None) -> Iterator[list[Row]]:
        """The rows in the order of keys, from `low` to `high`, both inclusive, so many at a time."""
        where, values = _between(low, high)
        order = "ORDER BY key, start_ms, end_ms"
        found = self._connection.execute(f"SELECT {_ROW} FROM rows {where} {order}", values)
        while page := found.fetchmany(rows):
            yield [Row(TableKey(*row[:3]), row[3], row[4]) for row in page]

    def select(self, where: str, values: Sequence[Stored]) -> list[Row]:
        """The rows of a condition in SQLite's words."""
        found = self._connection.execute(f"SELECT {_ROW} FROM rows {where}", values)
        return [Row(TableKey(*row[:3]), row[3], row[4]) for row in found]


def _between(low: Stored | None, high: Stored | None) -> tuple[str, list[Stored]]:
    """The condition of keys between two, in SQLite's words, and its values."""
    given = [(sign, key) for sign, key in ((">=", low), ("<=", high)) if key is not None]
    where = " AND ".join(f"key {sign} ?" for sign, _ in given)
    return f"WHERE {where}" if where else "", [key for _, key in given]


class ViewStore:
    """One table's file, open. `identity` names the topic and the types that it is a copy of."""

    def __init__(self, path: Path, identity: str, *, windowed: bool) -> None:
        self._path = path
        self._identity = identity
        self._windowed = windowed
        self._writer = self._opened()
        self._readers: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue(READERS)
        for _ in range(READERS):
            self._readers.put(self._connect(read_only=True))

    # -- for the thread that writes -------------------------------------------------------------------------

    def positions(self) -> dict[int, int]:
        """By partition: the next offset to read."""
        return dict(self._writer.execute("SELECT partition, next_offset FROM positions"))

    def apply(self, changes: Mapping[TableKey, Change], positions: Mapping[int, int]) -> None:
        """All changes and the positions behind them, or nothing."""
        with self._writer:
            self._writer.execute("BEGIN")
            deleted = self._writer.executemany(
                "DELETE FROM rows WHERE key = ? AND start_ms = ? AND end_ms = ?", list(changes)
            ).rowcount
            rows = [(*key, change.value, change.timestamp_ms) for key, change in changes.items()]
            rows = [row for row in rows if row[3] is not None]
            self._writer.executemany(f"INSERT INTO rows ({_ROW}) VALUES (?, ?, ?, ?, ?)", rows)
            self._add("count", len(rows) - max(deleted, 0))
            self._writer.executemany(
                "INSERT INTO positions VALUES (?, ?)"
                " ON CONFLICT (partition) DO UPDATE SET next_offset = excluded.next_offset",
                list(positions.items()),
            )

    def expire(self, before_ms: int, limit: int) -> int:
        """Remove windows that ended before a time, `limit` of them at most; how many there were."""
        with self._writer:
            self._writer.execute("BEGIN")
            found = self._writer.execute(
                "SELECT key, start_ms, end_ms FROM rows WHERE end_ms < ? LIMIT ?", (before_ms, limit)
            ).fetchall()
            self._writer.executemany("DELETE FROM rows WHERE key = ? AND start_ms = ? AND end_ms = ?", found)
            self._add("count", -len(found))
        return len(found)

    def fact(self, name: str) -> int | None:
        """A number that was kept with `keep_fact`."""
        found = self._writer.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else int(found[0])

    def keep_fact(self, name: str, value: int) -> None:
        """Keep a number beside the rows."""
        with self._writer:
            self._writer.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def clear(self) -> None:
        """No rows, no positions."""
        with self._writer:
            self._writer.execute("BEGIN")
            for table in ("rows", "positions"):
                self._writer.execute(f"DELETE FROM {table}")
            self._writer.execute("DELETE FROM facts WHERE name <> 'identity'")

    # -- for readers ---------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many rows there are."""
        with self._reader() as reader:
            found = reader.execute("SELECT value FROM facts WHERE name = 'count'").fetchone()
            return 0 if found is None else int(found[0])

    def get(self, key: Stored) -> Row | None:
        """The row of a key, of a table without windows."""
        with self._reader() as reader:
            return Snapshot(reader).get(key)

    def windows(self, key: Stored, from_ms: int, to_ms: int, limit: int) -> list[Row]:
        """A key's windows that start from `from_ms` to `to_ms`, both inclusive, oldest first."""
        with self._reader() as reader:
            return Snapshot(reader).windows(key, from_ms, to_ms, limit)

    def range(self, low: Stored | None, high: Stored | None, after: TableKey | None, limit: int) -> list[Row]:
        """Rows in the order of keys, from `low` to `high`, both inclusive, behind `after`."""
        where, values = _between(low, high)
        if after is not None:
            where += f" {'AND' if where else 'WHERE'} (key, start_ms, end_ms) > (?, ?, ?)"
            values += after
        return self._select(f"{where} ORDER BY key, start_ms, end_ms LIMIT ?", (*values, limit))

    def get_placed(self, key: Stored) -> tuple[Row | None, dict[int, int]]:
        """The row of a key, of a table without windows, and the positions that it is of: one statement."""
        row: Row | None = None
        positions: dict[int, int] = {}
        with self._reader() as reader:
            for kind, one, other, value in reader.execute(_PLACED, (key,)):
                if kind:
                    row = Row(TableKey(key, 0, 0), value, one)
                else:
                    positions[one] = other
        return row, positions

    @contextlib.contextmanager
    def snapshot(self, *, lasting: bool = False) -> Iterator[Snapshot]:
        """The table as it is now, for as long as the block runs.

        lasting: for a block that may take long: with a connection of its own, it holds up no other reader.
        """
        if lasting:
            with contextlib.closing(self._connect(read_only=True)) as connection:
                connection.execute("BEGIN")
                yield Snapshot(connection)
            return
        with self._reader() as reader:
            reader.execute("BEGIN")
            try:
                yield Snapshot(reader)
            finally:
                reader.execute("COMMIT")

    def close(self) -> None:
        """Close the file; readers that are at it finish first."""
        for _ in range(READERS):
            self._readers.get().close()
        self._writer.close()

    # -- within --------------------------------------------------------------------------------------------

    def _select(self, where: str, values: Sequence[Stored]) -> list[Row]:
        with self._reader() as reader:
            return Snapshot(reader).select(where, values)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        reader = self._readers.get()
        try:
            yield reader
        finally:
            self._readers.put(reader)

    def _add(self, name: str, amount: int) -> None:
        self._writer.execute(
            "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            (name, amount),
        )

    def _opened(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        identity = f"{LAYOUT} {self._identity}"
        if self._path.exists():
            connection: sqlite3.Connection | None = None
            try:
                connection = self._connect()
                found = connection.execute("SELECT value FROM facts WHERE name = 'identity'").fetchone()
                if found is not None and found[0] == identity:
                    return connection
                log.info("%s is a copy of something else: it is read anew", self._path)
            except sqlite3.DatabaseError as error:
                log.warning("%s is broken (%s): it is read anew", self._path, error)
            if connection is not None:
                connection.close()
            self._remove()
        connection = self._connect()
        connection.executescript(_SCHEMA + (_BY_END if self._windowed else ""))
        with connection:
            connection.execute("INSERT INTO facts VALUES ('identity', ?)", (identity,))
        return connection

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        # autocommit; transactions begin where they are written
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIBIBYTES}")
        connection.execute(f"PRAGMA query_only = {int(read_only)}")
        return connection

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
