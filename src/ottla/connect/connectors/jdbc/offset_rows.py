"""The ledger of sinks in a database: the next offset of each partition, in rows of ottla_connect_offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.connectors.jdbc.database import LEDGER_TABLE, Database
from ottla.connect.data.record import TopicPartition


class OffsetRows:
    """The rows of one ledger. Every method raises what the database's raise."""

    def __init__(self, database: Database, ledger: str) -> None:
        self._database = database
        self._ledger = ledger

    def locks(self, places: Sequence[TopicPartition]) -> list[str]:
        """The names to be locked by whoever writes these partitions' records."""
        return [f"ottla {self._ledger} {topic} {partition}" for topic, partition in places]

    def read(self) -> dict[TopicPartition, int]:
        """The next offsets of all partitions that have one."""
        database = self._database
        rows = database.select(
            f"SELECT topic, {database.quote('partition')}, next FROM {LEDGER_TABLE}"
            f" WHERE ledger = {database.placeholder}",
            (self._ledger,),
        )
        return {
            TopicPartition(_as_text(topic), int(partition)): int(offset) for topic, partition, offset in rows
        }

    def put(self, ends: Mapping[TopicPartition, int]) -> None:
        """Write next offsets, in the transaction that is open."""
        database, mark = self._database, self._database.placeholder
        database.insert(
            f"INSERT INTO {LEDGER_TABLE} (ledger, topic, {database.quote('partition')}, next)",
            f"({mark}, {mark}, {mark}, {mark})",
            database.ledger_tail(),
            [(self._ledger, *place, offset) for place, offset in ends.items()],
        )


def _as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
