"""Records out of the client's messages."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message

from ottla.sql.rows.codecs import KafkaRecord


def record_of(message: Message) -> KafkaRecord:
    """The record of a message that is no error."""
    key: Any = message.key()
    value: Any = message.value()
    headers: Any = message.headers() or ()
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return KafkaRecord(
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        headers,
        message.timestamp()[1],
        partition,
        offset,
    )
