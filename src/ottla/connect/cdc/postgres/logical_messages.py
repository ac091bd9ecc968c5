"""What pg_logical_emit_message wrote, as records of the topic PREFIX.message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla.connect.cdc.core.envelope import TRANSACTION_BLOCK, Operation
from ottla.connect.cdc.core.filters import NameFilter
from ottla.connect.cdc.postgres.pgoutput import LogicalMessage
from ottla.connect.cdc.postgres.source_block import SOURCE
from ottla.connect.data.building import OPTIONAL, REQUIRED, as_optional, struct_schema
from ottla.connect.data.record import Record
from ottla.connect.data.schema import Schema, Struct, Type

COUNTED_AS: Final = "LOGICAL_DECODING_MESSAGE"
"""The name under which transactions count messages."""
_ROOM: Final = "io.debezium.connector.postgresql"
KEY: Final = replace(
    struct_schema((("prefix", OPTIONAL[Type.STRING]),), name=f"{_ROOM}.MessageKey"), version=1
)


@dataclass(frozen=True, slots=True)
class LogicalMessages:
    """The records of messages. content: the schema of their bytes, and what makes a value of them."""

    topic: str
    block: Schema
    value: Schema
    convert: Callable[[bytes], Any]
    prefixes: NameFilter = field(default_factory=NameFilter)

    def record(
        self, message: LogicalMessage, source: Struct, now_ms: int, transaction: Struct | None
    ) -> Record:
        """The record of a message."""
        content = {"prefix": message.prefix, "content": self.convert(message.content)}
        value = {
            "op": Operation.MESSAGE.value,
            "ts_ms": now_ms,
            "source": source,
            "transaction": transaction,
            "message": Struct(self.block, content),
        }
        key = Struct(KEY, {"prefix": message.prefix})
        return Record(self.topic, None, key, KEY, Struct(self.value, value), self.value)


def logical_messages(
    prefix: str, content: Schema, convert: Callable[[bytes], Any], prefixes: NameFilter
) -> LogicalMessages:
    """The messages of a connector."""
    block = struct_schema(
        (("prefix", OPTIONAL[Type.STRING]), ("content", as_optional(content))), name=f"{_ROOM}.Message"
    )
    block = replace(block, version=1)
    value = struct_schema(
        (
            ("op", REQUIRED[Type.STRING]),
            ("ts_ms", OPTIONAL[Type.INT64]),
            ("source", SOURCE),
            ("transaction", TRANSACTION_BLOCK),
            ("message", block),
        ),
        name=f"{_ROOM}.MessageValue",
    )
    return LogicalMessages(f"{prefix}.message", block, replace(value, version=1), convert, prefixes)
