"""Writes to `_schemas`, by calls that block and end in time: the primary's transactions, or a single NOOP.

By confluent-kafka: aiokafka's transactional producer can't be ended while its cluster is away.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from ottla.services.kafka_access import KafkaAccess
from ottla.services.registry.records import Record, noop

TRANSACTION_TIMEOUT_MS: Final = 10_000
"""How long readers may wait behind a primary that was killed within a write and that nobody fences."""
MAX_REQUEST_BYTES: Final = 32 << 20
"""The broker decides what is too large."""

_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
)


class Fenced(Exception):
    """Another instance has become the primary; nothing of this write was stored."""


class TooLarge(Exception):
    """The broker takes no record of this size; nothing of this write was stored."""


class Unstored(Exception):
    """A write failed, and whether it was stored is not known."""


class Writer:
    """The right to write, as long as nobody else takes it. Of no use any more once a call has raised."""

    def __init__(self, access: KafkaAccess, topic: str, writers_id: str, timeout_ms: int) -> None:
        """Fence who wrote before under `writers_id`. Raises Unstored."""
        self._topic = topic
        self._producer = Producer(
            access.confluent(
                {
                    "client.id": "ottla-registry",
                    "transactional.id": writers_id,
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    "message.max.bytes": MAX_REQUEST_BYTES,
                    "linger.ms": 0,
                    "log_level": 0,
                }
            )
        )
        try:
            self._producer.init_transactions(timeout_ms / 1000)
        except KafkaException as problem:
            raise _meaning(problem) from problem

    def append(self, records: Sequence[Record], timeout_ms: int) -> int:
        """Store records, all or none; the offset of the last. Raises Fenced, TooLarge, Unstored.

        What fails is left open: whoever takes over next aborts it.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            self._producer.begin_transaction()
            offset = _produce(self._producer, self._topic, records, deadline)
            self._producer.commit_transaction(max(0.0, deadline - time.monotonic()))
        except KafkaException as problem:
            self._producer.purge()
            raise _meaning(problem) from problem
        return offset


def append_noop(access: KafkaAccess, topic: str, timeout_ms: int) -> int:
    """Add a NOOP, as an instance that is not the primary may; its offset. Raises Unstored."""
    producer = Producer(access.confluent({"client.id": "ottla-registry", "linger.ms": 0, "log_level": 0}))
    try:
        return _produce(producer, topic, [noop()], time.monotonic() + timeout_ms / 1000)
    except KafkaException as problem:
        producer.purge()
        raise _meaning(problem) from problem


def _produce(producer: Producer, topic: str, records: Sequence[Record], deadline: float) -> int:
    """Produce and wait until all are acknowledged. Raises KafkaException."""
    offsets: list[int] = []
    problems: list[KafkaError] = []

    def told(problem: KafkaError | None, message: Any) -> None:
        if problem is not None:
            problems.append(problem)
        else:
            offsets.append(message.offset())

    for record in records:
        producer.produce(topic, record.value, record.key, partition=0, on_delivery=told)
    producer.flush(max(0.0, deadline - time.monotonic()))
    if problems:
        raise KafkaException(problems[0])
    if len(offsets) < len(records):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the cluster did not answer in time"))
    return max(offsets)


def _meaning(problem: KafkaException) -> Fenced | TooLarge | Unstored:
    error: KafkaError = problem.args[0]
    if error.code() in _FENCED:
        return Fenced()
    if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
        return TooLarge()
    return Unstored(error.str())
