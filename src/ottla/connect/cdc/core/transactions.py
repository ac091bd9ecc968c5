"""provide.transaction.metadata: the counts of a transaction's events, its block, beginning and end."""

from __future__ import annotations

from collections.abc import Mapping
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

    id: str
    total: int = 0
    tables: dict[str, int] = field(default_factory=dict)

    def event(self, table: str) -> Struct:
        """Count an event of a table; the block that says its place."""
        self.total += 1
        order = self.tables.get(table, 0) + 1
        self.tables[table] = order
        return Struct(
            TRANSACTION_BLOCK, {"id": self.id, "total_order": self.total, "data_collection_order": order}
        )

    def key(self) -> Struct:
        """The key of both records."""
        return Struct(KEY, {"id": self.id})

    def begin(self, now_ms: int) -> Struct:
        """The value of the record that it begins."""
        return self._value("BEGIN", now_ms, {})

    def end(self, now_ms: int) -> Struct:
        """The value of the record that it ends, with its counts."""
        counts = [
            Struct(COLLECTION_COUNT, {"data_collection": table, "event_count": count})
            for table, count in self.tables.items()
        ]
        return self._value("END", now_ms, {"event_count": self.total, "data_collections": counts})

    def _value(self, status: str, now_ms: int, counts: Mapping[str, object]) -> Struct:
        return Struct(
            VALUE,
            {
                "status": status,
                "id": self.id,
                "event_count": counts.get("event_count"),
                "data_collections": counts.get("data_collections"),
                "ts_ms": now_ms,
            },
        )
