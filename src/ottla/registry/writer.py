"""Writes to `_schemas`, by calls that block and end in time: the primary's transactions, or a single NOOP.

By confluent-kafka: aiokafka's transactional producer can't be ended while its cluster is away.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from ottla.client.access import ClusterAccess
from ottla.registry.core.records import Record, noop

TRANSACTION_TIMEOUT_MS: Final = 10_000
"""How long readers may wait behind a primary that was killed within a write and that nobody fences."""
MAX_REQUEST_BYTES: Final = 32 << 20
"""The broker decides what is too large."""

ABORT_SECONDS: Final = 2.0
NEVER_MAKE_TOPICS: Final = {"allow.auto.create.topics": "false"}
"""librdkafka lists it among consumers' settings; producers obey it, and would make topics without it."""

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

    def __init__(self, access: ClusterAccess, topic: str, writers_id: str, timeout_ms: int) -> None:
        """Fence who wrote before under `writers_id`. Raises Unstored."""
        self._topic = topic
        self._producer = Producer(
            access.librdkafka(
                {
                    "transactional.id": writers_id,
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    "message.max.bytes": MAX_REQUEST_BYTES,
                    "linger.ms": 0,
                    "log_level": 0,
                    **NEVER_MAKE_TOPICS,
                }
            )
        )
        try:
            self._producer.init_transactions(timeout_ms / 1000)
        except KafkaException as problem:
            raise _meaning(problem) from problem

    def write(self, records: Sequence[Record], timeout_ms: int) -> Sequence[int]:
        """Write records that nobody reads before `commit`; their offsets. Raises Fenced, TooLarge, Unstored.

        What fails is left open: whoever takes over next aborts it.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            self._producer.begin_transaction()
            return _produce(self._producer, self._topic, records, deadline)
        except KafkaException as problem:
            self._producer.purge()
            raise _meaning(problem) from problem

    def commit(self, timeout_ms: int) -> None:
        """Store what was written, all of it. Raises Fenced, Unstored."""
        try:
            self._producer.commit_transaction(timeout_ms / 1000)
        except KafkaException as problem:
            self._producer.purge()
            raise _meaning(problem) from problem

    def abort(self) -> None:
        """Take back what was written. Where that fails, the cluster does it after TRANSACTION_TIMEOUT_MS."""
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(ABORT_SECONDS)


def append_noop(access: ClusterAccess, topic: str, timeout_ms: int) -> int:
    """Add a NOOP, as an instance that is not the primary may; its offset. Raises Unstored."""
    properties = {"linger.ms": 0, "log_level": 0, **NEVER_MAKE_TOPICS}
    producer = Producer(access.librdkafka(properties))
    try:
        return _produce(producer, topic, [noop()], time.monotonic() + timeout_ms / 1000)[0]
    except KafkaException as problem:
        producer.purge()
        raise _meaning(problem) from problem


def _produce(producer: Producer, topic: str, records: Sequence[Record], deadline: float) -> Sequence[int]:
    """Produce and wait until all are acknowledged; their offsets. Raises KafkaException."""
    offsets: dict[int, int] = {}
    problems: list[KafkaError] = []

    def told(number: int, problem: KafkaError | None, message: Any) -> None:
        if problem is not None:
            problems.append(problem)
        else:
            offsets[number] = message.offset()

    for number, record in enumerate(records):
        producer.produce(topic, record.value, record.key, partition=0, on_delivery=partial(told, number))
    producer.flush(max(0.0, deadline - time.monotonic()))
    if problems:
        raise KafkaException(problems[0])
    if len(offsets) < len(records):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the cluster did not answer in time"))
    return [offsets[number] for number in range(len(records))]


def _meaning(problem: KafkaException) -> Fenced | TooLarge | Unstored:
    error: KafkaError = problem.args[0]
    if error.code() in _FENCED:
        return Fenced()
    if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
        return TooLarge()
    return Unstored(error.str())
