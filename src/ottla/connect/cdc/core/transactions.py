"""provide.transaction.metadata: the counts of a transaction's events, its block, beginning and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ottla.connect.cdc.core.envelope import (
    COLLECTION_COUNT,
    TRANSACTION_BLOCK,
    transaction_key_schema,
    transaction_value_schema,
)
from ottla.connect.data.schema import Struct

KEY: Final = transaction_key_schema()
VALUE: Final = transaction_value_schema()


@dataclass(slots=True)
class TransactionCounts:
    """The events of the transaction that is read now, by table. Counted anew where it is read again."""

    total: int = 0
    tables: dict[str, int] = field(default_factory=dict)

    def event(self, id: str, table: str) -> Struct:
        """Count an event of a table; the block that says its place."""
        self.total += 1
        order = self.tables.get(table, 0) + 1
        self.tables[table] = order
        return Struct(
            TRANSACTION_BLOCK, {"id": id, "total_order": self.total, "data_collection_order": order}
        )

    def end(self, id: str, time_ms: int) -> Struct:
        """The value of the record that the transaction ends, with its counts."""
        counts = [
            Struct(COLLECTION_COUNT, {"data_collection": table, "event_count": count})
            for table, count in self.tables.items()
        ]
        return _value("END", id, time_ms, self.total, counts)


def transaction_key(id: str) -> Struct:
    """The key of both records."""
    return Struct(KEY, {"id": id})


def transaction_begin(id: str, time_ms: int) -> Struct:
    """The value of the record that a transaction begins."""
    return _value("BEGIN", id, time_ms, None, None)


def _value(status: str, id: str, time_ms: int, count: int | None, collections: list[Struct] | None) -> Struct:
    return Struct(
        VALUE,
        {
            "status": status,
            "id": id,
            "event_count": count,
            "data_collections": collections,
            "ts_ms": time_ms,
        },
    )
