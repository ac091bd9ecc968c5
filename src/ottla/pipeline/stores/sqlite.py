"""The embedded document store: one SQLite file.

A batch is one transaction together with its row in `batches`. The write-ahead log is synced in full, so a
committed batch is on disk, and a kill at any line leaves either the whole batch or nothing of it.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.pipeline.stores import KEPT_BATCHES, Document, Outputs, StoreError

BUSY_TIMEOUT_SECONDS = 30.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
    query TEXT NOT NULL, batch_id INTEGER NOT NULL, documents INTEGER NOT NULL, outputs TEXT NOT NULL,
    PRIMARY KEY (query, batch_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS store (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL);
"""


class SqliteDocuments:
    """A `DocumentStore` in one file. Usable from any thread; calls take turns."""

    name = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._lock = threading.Lock()
        try:
            self._connection = open_database(self._path)
            self._connection.executescript(_SCHEMA)
            self._connection.execute("INSERT OR IGNORE INTO store VALUES (1, ?)", (str(uuid.uuid4()),))
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"cannot open the SQLite store {self._path}: {error}") from error

    @property
    def identity(self) -> str:
        return str(self._query("SELECT id FROM store")[0][0])

    def write_batch(self, query: str, batch_id: int, documents: Sequence[Document], outputs: Outputs) -> None:
        rows = [(document.id, json.dumps(document.fields)) for document in documents]
        batch = (query, batch_id, len(rows), json.dumps(outputs))
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    self._connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?)", rows)
                    self._connection.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", batch)
                    self._connection.execute(
                        "DELETE FROM batches WHERE query = ? AND batch_id <= ?",
                        (query, batch_id - KEPT_BATCHES),
                    )
                    self._connection.execute("COMMIT")
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StoreError(f"cannot write to the SQLite store {self._path}: {error}") from error

    def outputs_before(self, query: str, batch_id: int) -> dict[str, dict[int, int]]:
        rows = self._query(
            "SELECT outputs FROM batches WHERE query = ? AND batch_id < ? ORDER BY batch_id DESC LIMIT 1",
            (query, batch_id),
        )
        return parse_outputs(rows[0][0]) if rows else {}

    def count(self) -> int:
        return int(self._query("SELECT count(*) FROM documents")[0][0])

    def ids(self) -> Iterator[str]:
        return (str(row[0]) for row in self._query("SELECT id FROM documents"))

    def get(self, document_id: str) -> Document | None:
        """The document with that id; None if there is none."""
        rows = self._query("SELECT document FROM documents WHERE id = ?", (document_id,))
        return Document(document_id, json.loads(rows[0][0])) if rows else None

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _query(self, statement: str, parameters: tuple[str | int, ...] = ()) -> list[tuple[str]]:
        with self._lock:
            try:
                return self._connection.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise StoreError(f"cannot read the SQLite store {self._path}: {error}") from error


def open_database(path: Path) -> sqlite3.Connection:
    """The SQLite file at a path, made where it is missing, with a write-ahead log that is synced in full.

    Usable from any thread; the caller begins and ends transactions. Raises sqlite3.Error, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def parse_outputs(text: str) -> dict[str, dict[int, int]]:
    """The outputs in a recorded JSON text, in which partitions are texts."""
    return {
        topic: {int(partition): int(offset) for partition, offset in positions.items()}
        for topic, positions in json.loads(text).items()
    }
