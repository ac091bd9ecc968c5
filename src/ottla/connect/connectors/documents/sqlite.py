"""Documents in a SQLite file: a table for each collection, and the sinks' offsets beside them.

Each transaction has a number, one higher than the one before; a document has that of its last change. The
order of reading is this number, then the id.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

from ottla.connect.connectors.documents.store import Change, Stored, last_changes
from ottla.connect.connectors.ledger_writing import Plan
from ottla.connect.data.record import SourceOffset, TopicPartition
from ottla.connect.plugins.api import RetriableError
from ottla.pipeline.stores.sqlite import open_database

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS ottla_connect_offsets (
    ledger TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, next INTEGER NOT NULL,
    PRIMARY KEY (ledger, topic, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ottla_connect_changes (
    one INTEGER PRIMARY KEY CHECK (one = 1), last INTEGER NOT NULL
);
INSERT OR IGNORE INTO ottla_connect_changes VALUES (1, 0);
"""
_COLLECTION: Final = """
CREATE TABLE IF NOT EXISTS {0} (
    id TEXT PRIMARY KEY, document TEXT NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {1} ON {0} (changed, id);
"""


class SqliteStore:
    """A `Store` in one file, with the offsets of one ledger."""

    keeps_offsets: ClassVar[bool] = True

    def __init__(self, path: Path, ledger: str) -> None:
        self._path = path
        self._ledger = ledger
        self._known: set[str] = set()
        with self._errors():
            self._connection = open_database(path)
            self._connection.executescript(_SCHEMA)

    def refusal(self, id: str, document: str) -> str | None:
        return None

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with self._errors():
            return self._offsets(places)

    def write(self, places: Sequence[TopicPartition], plan: Plan[Change]) -> None:
        with self._errors(), self._transaction():
            batch = plan(self._offsets(places))
            (changed,) = self._connection.execute(
                "UPDATE ottla_connect_changes SET last = last + 1 RETURNING last"
            ).fetchone()
            for collection, documents in last_changes(batch.changes).items():
                self._write(collection, documents, changed)
            self._connection.executemany(
                "INSERT OR REPLACE INTO ottla_connect_offsets VALUES (?, ?, ?, ?)",
                [(self._ledger, *place, offset) for place, offset in batch.ends.items()],
            )

    def read(self, collection: str, offset: SourceOffset | None, limit: int) -> Sequence[Stored]:
        table = _quoted(collection)
        after = (-1, "") if offset is None else (offset["changed"], offset["id"])
        with self._errors():
            if not self._exists(collection):
                return ()
            rows = self._connection.execute(
                f"SELECT id, document, changed FROM {table} WHERE (changed, id) > (?, ?)"
                " ORDER BY changed, id LIMIT ?",
                (*after, limit),
            ).fetchall()
        return [Stored(id, json.loads(text), {"changed": changed, "id": id}) for id, text, changed in rows]

    def close(self) -> None:
        self._connection.close()

    def _offsets(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        rows = self._connection.execute(
            "SELECT topic, partition, next FROM ottla_connect_offsets WHERE ledger = ?", (self._ledger,)
        ).fetchall()
        known = {TopicPartition(topic, partition): offset for topic, partition, offset in rows}
        return {place: known[place] for place in places if place in known}

    def _write(self, collection: str, documents: Mapping[str, str | None], changed: int) -> None:
        table = _quoted(collection)
        if collection not in self._known and not self._exists(collection):
            # One by one: `executescript` would commit.
            for statement in _COLLECTION.format(table, _quoted(f"{collection}_changed")).strip().split(";\n"):
                self._connection.execute(statement)
        self._connection.executemany(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",
            [(id, text, changed) for id, text in documents.items() if text is not None],
        )
        self._connection.executemany(
            f"DELETE FROM {table} WHERE id = ?", [(id,) for id, text in documents.items() if text is None]
        )
        self._known.add(collection)

    def _exists(self, collection: str) -> bool:
        found = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (collection,))
        return found.fetchone() is not None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._known.clear()
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as problem:  # locked, full, read-only
            raise RetriableError(f"the SQLite file {self._path}: {problem}") from problem


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
