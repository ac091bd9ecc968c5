"""The dead letter topic of a sink: records that failed, as they were consumed, with headers that tell why."""

from __future__ import annotations

import logging
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.connect.host.clients import admin_access, producer
from ottla.connect.host.errors import Failure, TaskFailed, java_class_name, stack_trace
from ottla.connect.host.messages import Start
from ottla.connect.host.producing import NOW, Outgoing, drain, produced
from ottla.connect.host.settings import ErrorSettings

PREFIX: Final = "__connect.errors."
PARTITIONS: Final = 1

_log = logging.getLogger(__name__)


class DeadLetters:
    """Writes dead letters. Nothing is committed past a record before `settle` has returned."""

    def __init__(self, start: Start, settings: ErrorSettings) -> None:
        """Make the topic where it is missing. Raises TaskFailed."""
        self._start = start
        self._settings = settings
        self._problem: KafkaError | None = None
        topic = settings.dead_letter_topic
        where = admin_access(start)
        try:
            cluster = KafkaCluster(where.bootstrap, dict(where.properties))
            if cluster.missing_topics([topic]):
                cluster.ensure_topics([Topic(topic, PARTITIONS, settings.dead_letter_replicas)])
        except ClusterError as problem:
            raise TaskFailed(
                f"Could not initialize dead letter queue with topic={topic}: {problem}"
            ) from problem
        client_id = f"connector-dlq-producer-{start.run.connector}-{start.run.task}"
        self._producer: Producer = producer(start, self._undelivered, client_id=client_id)

    def report(self, record: Message, failure: Failure) -> None:
        """Send a letter. Raises TaskFailed."""
        given: Any = record.headers()
        headers: list[tuple[str, Any]] = list(given or ())
        if self._settings.dead_letter_headers:
            headers += context_headers(self._start, record, failure)
        timestamp_type, timestamp_ms = record.timestamp()
        letter = Outgoing(
            self._settings.dead_letter_topic,
            _bytes(record.value()),
            _bytes(record.key()),
            timestamp_ms=timestamp_ms if timestamp_type else NOW,
            headers=headers,
        )
        produced(self._producer, letter)

    def settle(self) -> None:
        """Wait until every letter is acknowledged. Raises TaskFailed for one that was refused."""
        try:
            drain(self._producer)
        except KafkaException as problem:
            raise self._failed(problem.args[0]) from problem
        if self._problem is not None:
            raise self._failed(self._problem)

    def close(self) -> None:
        """Give the producer up; letters that are not acknowledged are written again with their records."""
        self._producer.purge()

    def _undelivered(self, problem: KafkaError, _: Message) -> None:
        _log.error(
            "could not produce to the dead letter queue %s: %s",
            self._settings.dead_letter_topic,
            problem.str(),
        )
        self._problem = self._problem or problem

    def _failed(self, problem: KafkaError) -> TaskFailed:
        topic = self._settings.dead_letter_topic
        return TaskFailed(f"Could not produce message to dead letter queue. topic={topic}: {problem.str()}")


def context_headers(start: Start, record: Message, failure: Failure) -> list[tuple[str, bytes]]:
    """Connect's headers of a dead letter, in Connect's order."""
    texts = {
        "topic": record.topic() or "",
        "partition": str(record.partition()),
        "offset": str(record.offset()),
        "connector.name": start.run.connector,
        "task.id": str(start.run.task),
        "stage": failure.stage.value,
        "class.name": failure.executing_class,
        "exception.class.name": java_class_name(failure.error),
        "exception.message": str(failure.error),
        "exception.stacktrace": stack_trace(failure.error),
    }
    return [(f"{PREFIX}{name}", text.encode(errors="replace")) for name, text in texts.items()]


def _bytes(given: str | bytes | None) -> bytes | None:
    """A consumed message's own bytes, which the client's types call a text too."""
    return given.encode() if isinstance(given, str) else given
