"""The PostgreSQL source driven by hand, as a source task drives it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from ottla.connect.cdc.postgres.connector import PostgresConnector
from ottla.connect.data.record import SourceOffset, SourceProgress, SourceRecord
from ottla.connect.plugins.configuring import configured

PREFIX = "srv"
CLASS = "io.debezium.connector.postgresql.PostgresConnector"


def configuration(url: str, **others: str) -> dict[str, str]:
    """A configuration for a server of `support.servers.postgresql`; names have underscores for dots."""
    parts = urlsplit(url)
    return {
        "name": "changes",
        "connector.class": CLASS,
        "topic.prefix": PREFIX,
        "plugin.name": "pgoutput",
        "database.hostname": parts.hostname or "",
        "database.port": str(parts.port),
        "database.user": parts.username or "",
        "database.password": "any",
        "database.dbname": parts.path.removeprefix("/"),
        **{name.replace("_", "."): value for name, value in others.items()},
    }


class Reading:
    """One run of the connector: what it gives, and the offset of the last record that was taken."""

    def __init__(self, config: Mapping[str, str], offset: SourceOffset | None = None) -> None:
        self.connector = PostgresConnector(configured(PostgresConnector.TABLE, config))
        self.partition = self.connector.partitions()[0]
        self.offset = offset
        self._batches: Iterator[Sequence[SourceRecord]] = self.connector.read(self.partition, offset)

    def turn(self) -> Sequence[SourceRecord]:
        """One batch, which may be empty; its offset is committed by `commit`."""
        batch = next(self._batches)
        if batch:
            self.offset = batch[-1].source_offset
        elif isinstance(batch, SourceProgress):
            self.offset = batch.source_offset
        return batch

    def some(self, timeout_s: float = 20.0) -> Sequence[SourceRecord]:
        """The next batch that has records."""
        deadline = time.monotonic() + timeout_s
        while not (batch := self.turn()):
            assert time.monotonic() < deadline, "no record comes"
        return batch

    def take(self, count: int, timeout_s: float = 20.0) -> list[SourceRecord]:
        """Exactly so many records."""
        found: list[SourceRecord] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            batch = self.turn()
            found += batch
            assert batch or time.monotonic() < deadline, f"{len(found)} of {count} records"
        assert len(found) == count, [each.record.value for each in found[count:]]
        return found

    def commit(self) -> None:
        """Kafka has all that was taken."""
        if self.offset is not None:
            self.connector.committed(self.partition, self.offset)

    def close(self) -> None:
        """Stop in order."""
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
        self.connector.close()
