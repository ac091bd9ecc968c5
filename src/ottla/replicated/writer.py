"""Writes to a state's topic: the primary's transactions, and records that any instance adds.

Calls block, and end in time. By confluent-kafka: aiokafka's transactional producer can't be ended while its
cluster is away.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.replicated.errors import Fenced, TooLarge, Unstored
from ottla.replicated.records import Record

TRANSACTION_TIMEOUT_MS: Final = 10_000
"""How long readers may wait behind a primary that was killed within a write and that no other fences."""
MAX_REQUEST_BYTES: Final = 32 << 20
"""The broker decides which record is too large."""
ABORT_SECONDS: Final = 2.0
NEVER_MAKE_TOPICS: Final = {"allow.auto.create.topics": "false"}
"""librdkafka lists it among consumers' settings; producers obey it, and would make topics without it."""
_COMMON: Final = {
    "partitioner": "murmur2_random",  # where Java's clients put keys
    "linger.ms": 0,
    "log_level": 0,
    **NEVER_MAKE_TOPICS,
}
_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
)


class Written(NamedTuple):
    """Where a record was written."""

    partition: int
    offset: int


def require_known(access: ClusterAccess) -> None:
    """Raises ClientOptionError for settings that a writer can't have: a write would find them much later."""
    try:
        Producer(access.librdkafka(_COMMON)).close()
    except (KafkaException, TypeError, ValueError) as problem:
        text = problem.args[0].str() if isinstance(problem, KafkaException) else str(problem)
        raise ClientOptionError(text) from None


class Writer:
    """The right to write, as long as no other takes it. Of no use any more once a call has raised."""

    def __init__(self, access: ClusterAccess, topic: str, writers_id: str, timeout_ms: int) -> None:
        """Fence the writer before under `writers_id`. Raises Fenced, Unstored."""
        self._topic = topic
        self._producer = Producer(
            access.librdkafka(
                {
                    **_COMMON,
                    "transactional.id": writers_id,
                    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                    "message.max.bytes": MAX_REQUEST_BYTES,
                }
            )
        )
        try:
            self._producer.init_transactions(timeout_ms / 1000)
        except KafkaException as problem:
            raise _meaning(problem) from problem

    def write(self, records: Sequence[Record], timeout_ms: int) -> Sequence[Written]:
        """Write records that readers get after `commit` alone. Raises Fenced, TooLarge, Unstored.

        A write that fails is left open: the next take-over aborts it.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            self._producer.begin_transaction()
            return _produce(self._producer, self._topic, records, deadline)
        except KafkaException as problem:
            self._producer.purge()
            raise _meaning(problem) from problem

    def commit(self, timeout_ms: int) -> None:
        """Store all records that were written. Raises Unstored, also for a writer that is fenced.

        A commit whose answer was lost is sent again, and may find the writer fenced though it was stored.
        """
        try:
            self._producer.commit_transaction(timeout_ms / 1000)
        except KafkaException as problem:
            self._producer.purge()
            raise Unstored(problem.args[0].str()) from problem

    def abort(self) -> None:
        """Take back the written records; else the cluster does it after TRANSACTION_TIMEOUT_MS."""
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(ABORT_SECONDS)


def add(access: ClusterAccess, topic: str, records: Sequence[Record], timeout_ms: int) -> Sequence[Written]:
    """Store records outside any transaction, as every instance may. Raises TooLarge, Unstored."""
    # one request at a time: a repeated one comes before those that follow it
    producer = Producer(access.librdkafka({**_COMMON, "max.in.flight": 1}))
    try:
        return _produce(producer, topic, records, time.monotonic() + timeout_ms / 1000)
    except KafkaException as problem:
        producer.purge()
        raise _meaning(problem) from problem


def _produce(producer: Producer, topic: str, records: Sequence[Record], deadline: float) -> Sequence[Written]:
    """Produce and wait until all are acknowledged. Raises KafkaException."""
    written: dict[int, Written] = {}
    problems: list[KafkaError] = []

    def delivered(number: int, problem: KafkaError | None, message: Any) -> None:
        if problem is not None:
            problems.append(problem)
        else:
            written[number] = Written(message.partition(), message.offset())

    for number, record in enumerate(records):
        producer.produce(topic, record.value, record.key, on_delivery=partial(delivered, number))
    # A fatal error (fenced) is an exception out of the client; `flush` would go on and call `delivered` while
    # that is raised, which comes out as a SystemError.
    while len(written) + len(problems) < len(records) and time.monotonic() < deadline:
        producer.poll(max(0.0, deadline - time.monotonic()))
    if problems:
        raise KafkaException(problems[0])
    if len(written) < len(records):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the cluster did not answer in time"))
    return [written[number] for number in range(len(records))]


def _meaning(problem: KafkaException) -> Fenced | TooLarge | Unstored:
    error: KafkaError = problem.args[0]
    if error.code() in _FENCED:
        return Fenced()
    if error.code() in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE):
        return TooLarge()
    return Unstored(error.str())
