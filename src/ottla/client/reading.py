"""Reads a topic's committed records up to an end, with a consumer outside any group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClusterError

READ_STALL_SECONDS: Final = 30.0
_HOPELESS: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    }
)


def reader(access: ClusterAccess, properties: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer outside any group that reads committed records, from the offsets that it is assigned.

    properties: librdkafka's, in place of those that are chosen here.
    """
    return Consumer(
        access.librdkafka(
            {
                "group.id": "ottla-pipeline-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                # By default the client rests for a second whenever 100,000 records wait in it.
                "fetch.queue.backoff.ms": 5,
                **(properties or {}),
            }
        )
    )


def read(
    access: ClusterAccess, topic: str, begin: Mapping[int, int], end: Mapping[int, int]
) -> Iterator[Message]:
    """The committed records of each partition from its offset in `begin` to the one before `end`.

    Raises ClusterError when nothing arrives for READ_STALL_SECONDS.
    """
    begun = [partition for partition in end if begin[partition] < end[partition]]
    if not begun:
        return
    left: set[int | None] = set(begun)
    where = f"{topic} at {access.bootstrap}"
    consumer = reader(access)
    try:
        consumer.assign([TopicPartition(topic, partition, begin[partition]) for partition in begun])
        last_arrival = time.monotonic()
        while left:
            messages = consumer.consume(1000, timeout=0.5)
            if messages:
                last_arrival = time.monotonic()
            elif time.monotonic() - last_arrival > READ_STALL_SECONDS:
                raise ClusterError(f"nothing arrives from {where} any more")
            for message in messages:
                if _is_before_end(message, end, left, where):
                    yield message
    finally:
        consumer.close()


def ends_reading(error: KafkaError) -> bool:
    """Whether a consumer that goes on for ever can't: librdkafka itself tries all else again."""
    return bool(error.fatal()) or error.code() in _HOPELESS


def _is_before_end(message: Message, end: Mapping[int, int], left: set[int | None], where: str) -> bool:
    """Whether a message is a record before the end; removes a partition that is at its end from `left`."""
    partition, offset, error = message.partition(), message.offset(), message.error()
    if error is not None:
        if error.code() == KafkaError._PARTITION_EOF:
            # Behind control records at the very end no message reaches `end`, only this event tells.
            left.discard(partition)
        elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
            raise ClusterError(f"cannot read {where}: {error}")
        return False
    if partition is None or partition not in left or offset is None or offset >= end[partition]:
        left.discard(partition)
        return False
    if offset + 1 >= end[partition]:
        left.discard(partition)
    return True
