"""The document store on PostgreSQL: a table of JSONB documents.

Tables `ottla_documents`, `ottla_batches` and `ottla_store` in the schema that the connection's search path
names. A batch is one transaction: the documents by `INSERT … ON CONFLICT DO UPDATE` and the batch's own row.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Sequence

from psycopg.types.json import Jsonb

from ottla.pipeline.stores import KEPT_BATCHES, Document, Outputs
from ottla.pipeline.stores.postgres_connection import PostgresConnection
from ottla.pipeline.stores.sqlite import parse_outputs

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ottla_documents (id text PRIMARY KEY, document jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS ottla_batches (
    query text NOT NULL, batch_id bigint NOT NULL, documents integer NOT NULL, outputs text NOT NULL,
    PRIMARY KEY (query, batch_id)
);
CREATE TABLE IF NOT EXISTS ottla_store (one integer PRIMARY KEY CHECK (one = 1), id text NOT NULL);
"""
_INSERT_DOCUMENT = """
INSERT INTO ottla_documents VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET document = excluded.document
"""
_INSERT_STORE = "INSERT INTO ottla_store VALUES (1, %s) ON CONFLICT DO NOTHING"
_DELETE_BATCHES = "DELETE FROM ottla_batches WHERE query = %s AND batch_id <= %s"
_INSERT_BATCH = """
INSERT INTO ottla_batches VALUES (%s, %s, %s, %s) ON CONFLICT (query, batch_id)
DO UPDATE SET documents = excluded.documents, outputs = excluded.outputs
"""


class PostgresDocuments:
    """A `DocumentStore` in PostgreSQL. Usable from any thread; calls take turns.

    `url` is any connection string of libpq: `postgresql://user:password@host:port/database`.
    """

    name = "postgresql"

    def __init__(self, url: str) -> None:
        self._lock = threading.Lock()
        self._connection = PostgresConnection(url)
        with self._lock, self._connection.use("prepare") as connection, connection.transaction():
            # Two processes that create a table at once collide even with IF NOT EXISTS.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('ottla_documents'))")
            connection.execute(_SCHEMA)
            connection.execute(_INSERT_STORE, (str(uuid.uuid4()),))

    @property
    def identity(self) -> str:
        return str(self._query("SELECT id FROM ottla_store")[0][0])

    def write_batch(self, query: str, batch_id: int, documents: Sequence[Document], outputs: Outputs) -> None:
        rows = [(document.id, Jsonb(_storable(document.fields))) for document in documents]
        with (
            self._lock,
            self._connection.use("write to") as connection,
            connection.transaction(),
            connection.cursor() as cursor,
        ):
            cursor.executemany(_INSERT_DOCUMENT, rows)
            cursor.execute(_INSERT_BATCH, (query, batch_id, len(rows), json.dumps(outputs)))
            cursor.execute(_DELETE_BATCHES, (query, batch_id - KEPT_BATCHES))

    def outputs_before(self, query: str, batch_id: int) -> dict[str, dict[int, int]]:
        rows = self._query(
            "SELECT outputs FROM ottla_batches WHERE query = %s AND batch_id < %s"
            " ORDER BY batch_id DESC LIMIT 1",
            (query, batch_id),
        )
        return parse_outputs(str(rows[0][0])) if rows else {}

    def count(self) -> int:
        return int(str(self._query("SELECT count(*) FROM ottla_documents")[0][0]))

    def ids(self) -> Iterator[str]:
        return (str(row[0]) for row in self._query("SELECT id FROM ottla_documents"))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _query(self, statement: str, parameters: tuple[str | int, ...] = ()) -> list[tuple[object, ...]]:
        with self._lock, self._connection.use("read") as connection:
            return connection.execute(statement.encode(), parameters).fetchall()


def _storable(value: object) -> object:
    """The value without NUL characters, which JSONB can't hold."""
    match value:
        case str():
            return value.replace("\0", "")
        case dict():
            return {_storable(key): _storable(item) for key, item in value.items()}
        case list() | tuple():
            return [_storable(item) for item in value]
        case _:
            return value
