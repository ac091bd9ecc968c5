"""The MariaDB source driven by hand, as a source task drives it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql

from ottla.connect.cdc.mariadb.connector import MariaDbConnector
from ottla.connect.data.record import SourceOffset, SourceRecord
from ottla.connect.plugins.configuring import configured
from support.servers.mariadb import mariadb, mariadb_programs

PREFIX = "srv"
CLASS = "io.debezium.connector.mariadb.MariaDbConnector"
FILE_HISTORY = "io.debezium.storage.file.history.FileSchemaHistory"
SERVER_ID = 7
OPTIONS = (
    "--log-bin=log",
    "--binlog-format=ROW",
    f"--server-id={SERVER_ID}",
    "--character-set-server=utf8mb4",
)


def has_mariadb() -> bool:
    """Whether the server is installed."""
    return mariadb_programs() is not None


@contextmanager
def logging_mariadb(*options: str) -> Iterator[int]:
    """A server with a binary log while the block runs; yields its port."""
    programs = mariadb_programs()
    assert programs is not None
    with mariadb(programs, *OPTIONS, *options) as port:
        yield port


def connection(port: int) -> Any:
    """A connection that commits each statement, and whose dates may be zero."""
    found = pymysql.connect(host="127.0.0.1", port=port, user="ottla", autocommit=True, charset="utf8mb4")
    with found.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
    return found


def execute(port: int, *statements: str) -> None:
    """Run statements, each a transaction of its own unless they say otherwise."""
    opened = connection(port)
    try:
        with opened.cursor() as cursor:
            for each in statements:
                cursor.execute(each)
    finally:
        opened.close()


def configuration(port: int, history: Path, **others: str) -> dict[str, str]:
    """A configuration for such a server; names have underscores for dots."""
    return {
        "name": "changes",
        "connector.class": CLASS,
        "topic.prefix": PREFIX,
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "ottla",
        "database.password": "",
        "database.server.id": "4711",
        "database.ssl.mode": "disable",
        "schema.history.internal": FILE_HISTORY,
        "schema.history.internal.file.filename": str(history),
        **{name.replace("_", "."): value for name, value in others.items()},
    }


class Reading:
    """One run of the connector: what it gives, and the offset of the last record that was taken."""

    def __init__(self, config: Mapping[str, str], offset: SourceOffset | None = None) -> None:
        self.connector = MariaDbConnector(configured(MariaDbConnector.TABLE, config))
        self.partition = self.connector.partitions()[0]
        self.offset = offset
        self._batches: Iterator[Sequence[SourceRecord]] = self.connector.read(self.partition, offset)

    def turn(self) -> Sequence[SourceRecord]:
        """One batch, which may be empty."""
        batch = next(self._batches)
        if batch:
            self.offset = batch[-1].source_offset
        return batch

    def some(self, timeout_s: float = 20.0) -> Sequence[SourceRecord]:
        """The next batch that has records."""
        deadline = time.monotonic() + timeout_s
        while not (batch := self.turn()):
            assert time.monotonic() < deadline, "no record comes"
            time.sleep(0.005)
        return batch

    def take(self, count: int, timeout_s: float = 20.0) -> list[SourceRecord]:
        """Exactly so many records."""
        found: list[SourceRecord] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            batch = self.turn()
            found += batch
            if not batch:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records"
                time.sleep(0.005)
        assert len(found) == count, [each.record.value for each in found[count:]]
        return found

    def close(self) -> None:
        """Stop in order."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        self.connector.close()
