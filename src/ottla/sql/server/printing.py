"""PRINT: a topic's records as lines, their formats guessed, as ksqlDB shows them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Final

import orjson
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import NoSuchTopic
from ottla.schemas import framing
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import Print
from ottla.sql.rows.codecs import KafkaRecord
from ottla.sql.rows.json_values import timestamp_text
from ottla.sql.rows.messages import record_of

BATCH_RECORDS: Final = 500
CONSUME_SECONDS: Final = 0.2
MAX_SHOWN_CHARACTERS: Final = 10_000


class TopicPrinter:
    """Prints topics of a cluster."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def __call__(self, statement: Print, properties: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines, until LIMIT or for ever. Raises SqlError."""
        try:
            partitions = self._cluster.partitions(statement.topic)
        except NoSuchTopic:
            raise SqlError(
                f"there is no topic {statement.topic}", statement.at, "SHOW TOPICS lists them"
            ) from None
        begins_first = statement.from_beginning or properties.get("auto.offset.reset") == "earliest"
        return self._lines(statement, partitions, begins_first)

    async def _lines(
        self, statement: Print, partitions: list[int], begins_first: bool
    ) -> AsyncIterator[bytes]:
        place = OFFSET_BEGINNING if begins_first else OFFSET_END
        consumer = await asyncio.to_thread(self._assigned, statement.topic, partitions, place)
        every, left, number, is_told = statement.interval or 1, statement.limit, 0, False
        try:
            while left is None or left > 0:
                found = await asyncio.to_thread(consumer.consume, BATCH_RECORDS, CONSUME_SECONDS)
                lines: list[str] = []
                for message in found:
                    if message.error() is not None:
                        continue
                    record = record_of(message)
                    if not is_told:
                        is_told = True
                        lines.append(f"Key format: {guessed_format(record.key)}")
                        lines.append(f"Value format: {guessed_format(record.value)}")
                    number += 1
                    if (number - 1) % every:
                        continue
                    lines.append(shown(record))
                    if left is not None:
                        left -= 1
                        if left == 0:
                            lines.append("Topic printing ceased")
                            break
                if lines:
                    yield ("\n".join(lines) + "\n").encode()
        finally:
            await asyncio.to_thread(consumer.close)

    def _assigned(self, topic: str, partitions: list[int], place: int) -> Consumer:
        consumer = self._cluster.consumer({"auto.offset.reset": "latest"})
        consumer.assign([TopicPartition(topic, each, place) for each in partitions])
        return consumer


def guessed_format(data: bytes | None) -> str:
    """What some bytes may be."""
    if data is None:
        return "¯\\_(ツ)_/¯ - no data processed"
    if len(data) > framing.PREFIX_BYTES and data[0] == 0:
        return "AVRO or PROTOBUF or JSON_SR"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None and text.isprintable():
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError:
            return "KAFKA_STRING"
        return "JSON or KAFKA_STRING"
    if len(data) == 4:
        return "KAFKA_INT"
    return "KAFKA_BIGINT or KAFKA_DOUBLE" if len(data) == 8 else "KAFKA_BYTES"


def shown(record: KafkaRecord) -> str:
    """A record's line."""
    return (
        f"rowtime: {timestamp_text(record.timestamp_ms)}Z, key: {_shown(record.key)}, "
        f"value: {_shown(record.value)}, partition: {record.partition}"
    )


def _shown(data: bytes | None) -> str:
    if data is None:
        return "<null>"
    try:
        text = data.decode()
        if text.isprintable():
            return text[:MAX_SHOWN_CHARACTERS]
    except UnicodeDecodeError:
        pass
    if len(data) == 4:
        return str(struct.unpack(">i", data)[0])
    if len(data) == 8:
        return str(struct.unpack(">q", data)[0])
    return data[:MAX_SHOWN_CHARACTERS].hex()
