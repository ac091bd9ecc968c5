"""Documents in PostgreSQL (13 and later): a table of JSONB for each collection, and the sinks' offsets.

A document has the number of the transaction that changed it last. The order of reading is this number, then
the id; only transactions are read below the oldest that is still open, so that none appears later among
those that were passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import psycopg
from psycopg import sql

from ottla.connect.connectors.documents.store import Change, Stored, last_changes
from ottla.connect.connectors.ledger_writing import Plan
from ottla.connect.data.record import SourceOffset, TopicPartition
from ottla.connect.plugins.api import RetriableError
from ottla.pipeline.stores import StoreError
from ottla.pipeline.stores.postgres_connection import Connection, PostgresConnection

MAX_NAME_BYTES: Final = 63
_NUL: Final = "\\u0000"
_OFFSETS: Final = """
CREATE TABLE IF NOT EXISTS ottla_connect_offsets (
    ledger text, topic text, partition integer, next bigint NOT NULL, PRIMARY KEY (ledger, topic, partition)
)
"""
_COLLECTION: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    id text PRIMARY KEY, document jsonb NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id()
)
"""
_INDEX: Final = "CREATE INDEX IF NOT EXISTS {index} ON {table} (changed, id)"
_INSERT: Final = """
INSERT INTO {table} (id, document)
SELECT id, document::jsonb FROM unnest(%s::text[], %s::text[]) AS given (id, document)
ON CONFLICT (id) DO UPDATE SET document = excluded.document, changed = excluded.changed
"""
_DELETE: Final = "DELETE FROM {table} WHERE id = ANY(%s)"
_INSERT_OFFSETS: Final = """
INSERT INTO ottla_connect_offsets VALUES (%s, %s, %s, %s)
ON CONFLICT (ledger, topic, partition) DO UPDATE SET next = excluded.next
"""
_READ: Final = """
SELECT id, document, changed::text FROM {table}
WHERE (changed, id COLLATE "C") > (%s::text::xid8, %s::text COLLATE "C")
    AND changed < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY changed, id COLLATE "C" LIMIT %s
"""


class PostgresStore:
    """A `Store` in the schema that the connection's search path names, with the offsets of one ledger."""

    keeps_offsets: ClassVar[bool] = True

    def __init__(self, url: str, ledger: str) -> None:
        self._ledger = ledger
        self._known: set[str] = set()
        with _errors():
            self._connection = PostgresConnection(url)
            with self._connection.use("prepare") as connection, connection.transaction():
                _take_turns(connection)
                connection.execute(_OFFSETS)

    def refusal(self, id: str, document: str) -> str | None:
        # In JSON the character is an escape, and so is a backslash before it.
        if "\0" in id or (_NUL in document and _NUL in document.replace("\\\\", "")):
            return "PostgreSQL's texts can't have the character NUL"
        return None

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        with _errors(), self._connection.use("read") as connection:
            return self._offsets(connection, places)

    def write(self, places: Sequence[TopicPartition], plan: Plan[Change]) -> None:
        with _errors(), self._connection.use("write to") as connection:
            try:
                with connection.transaction():
                    for topic, partition in sorted(places):
                        # The row may not be there yet: the lock is on its name, and holds to the end.
                        connection.execute(
                            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                            (f"ottla {self._ledger} {topic} {partition}",),
                        )
                    batch = plan(self._offsets(connection, places))
                    for collection, documents in last_changes(batch.changes).items():
                        self._write(connection, collection, documents)
                    with connection.cursor() as cursor:
                        cursor.executemany(
                            _INSERT_OFFSETS,
                            [(self._ledger, *place, offset) for place, offset in batch.ends.items()],
                        )
            except BaseException:
                self._known.clear()
                raise

    def read(self, collection: str, offset: SourceOffset | None, limit: int) -> Sequence[Stored]:
        changed, id = (0, "") if offset is None else (offset["changed"], offset["id"])
        with _errors(), self._connection.use("read") as connection:
            if not _exists(connection, collection):
                return ()
            rows = connection.execute(_on(_READ, collection), (str(changed), id, limit)).fetchall()
        return [
            Stored(str(row[0]), _fields(row[1]), {"changed": int(str(row[2])), "id": str(row[0])})
            for row in rows
        ]

    def close(self) -> None:
        self._connection.close()

    def _offsets(self, connection: Connection, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        rows = connection.execute(
            "SELECT topic, partition, next FROM ottla_connect_offsets WHERE ledger = %s", (self._ledger,)
        ).fetchall()
        known = {TopicPartition(str(row[0]), int(str(row[1]))): int(str(row[2])) for row in rows}
        return {place: known[place] for place in places if place in known}

    def _write(self, connection: Connection, collection: str, documents: Mapping[str, str | None]) -> None:
        # Even with IF NOT EXISTS, an index that is there waits for every open transaction of the table.
        if collection not in self._known and not _exists(connection, collection):
            _take_turns(connection)
            connection.execute(_on(_COLLECTION, collection))
            connection.execute(_on(_INDEX, collection))
        written = {id: text for id, text in documents.items() if text is not None}
        deleted = [id for id, text in documents.items() if text is None]
        if written:
            connection.execute(_on(_INSERT, collection), (list(written), list(written.values())))
        if deleted:
            connection.execute(_on(_DELETE, collection), (deleted,))
        self._known.add(collection)


def _exists(connection: Connection, collection: str) -> bool:
    name = sql.Identifier(collection).as_string(connection)
    found = connection.execute("SELECT to_regclass(%s)::text", (name,)).fetchone()
    return found is not None and found[0] is not None


def _take_turns(connection: Connection) -> None:
    """Two transactions that create a table at once collide, even with IF NOT EXISTS."""
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('ottla_connect'))")


def _on(statement: str, collection: str) -> sql.Composed:
    index = f"{collection[: MAX_NAME_BYTES - 8]}_changed"
    return sql.SQL(statement).format(table=sql.Identifier(collection), index=sql.Identifier(index))


def _fields(value: object) -> Mapping[str, Any]:
    assert isinstance(value, dict)
    return value


@contextmanager
def _errors() -> Iterator[None]:
    """A server that is away, or busy, is tried again; other errors end the task."""
    try:
        yield
    except StoreError as problem:
        if isinstance(problem.__cause__, psycopg.OperationalError | psycopg.InterfaceError):
            raise RetriableError(str(problem)) from problem
        raise
