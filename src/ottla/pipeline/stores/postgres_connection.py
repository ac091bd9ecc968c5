"""A connection to PostgreSQL that is opened again after the server closed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ottla.pipeline.stores import StoreError

CONNECT_TIMEOUT_SECONDS = 10
STATEMENT_TIMEOUT_MS = 60_000

Connection = psycopg.Connection[tuple[object, ...]]


class PostgresConnection:
    """For one thread at a time. `url` is any connection string of libpq. Raises StoreError."""

    def __init__(self, url: str) -> None:
        self._url = url
        with _errors("connect to"):
            self._connection = self._connect()

    @contextmanager
    def use(self, verb: str) -> Iterator[Connection]:
        """The connection; psycopg's errors in the block become StoreErrors with the verb."""
        with _errors("connect to"):
            if self._connection.closed:
                self._connection = self._connect()
        with _errors(verb):
            yield self._connection

    def close(self) -> None:
        """Close it. Safe to call twice."""
        self._connection.close()

    def _connect(self) -> Connection:
        return psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            options=f"-c statement_timeout={STATEMENT_TIMEOUT_MS}",
            application_name="ottla",
        )


@contextmanager
def _errors(verb: str) -> Iterator[None]:
    """Turns psycopg's errors into StoreError, whose message never holds the URL (it may hold a password)."""
    try:
        yield
    except psycopg.Error as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"cannot {verb} PostgreSQL: {reason}") from error
