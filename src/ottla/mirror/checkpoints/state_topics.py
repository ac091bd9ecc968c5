"""The mirror's own topics: made where they are missing, written to, read to their ends.

Each has one partition and is compacted, as MirrorMaker 2 makes them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.client.reading import reader

COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
FLUSH_SECONDS: Final = 10.0
STALL_SECONDS: Final = 15.0
"""In a read to the end: nothing comes for so long."""
BATCH: Final = 5_000

_log = logging.getLogger("ottla.mirror")


def ensure_topic(access: ClusterAccess, name: str, replicas: int) -> None:
    """Make a topic if it is missing. Raises ClusterError."""
    cluster = KafkaCluster(access.bootstrap, dict(access.properties), access.client_id or "ottla-mirror")
    if cluster.missing_topics([name]):
        brokers = cluster.broker_count()
        factor = replicas if replicas < 1 else min(replicas, max(brokers, 1))
        if factor < replicas:
            _log.warning(
                "topic %s gets %d replicas, not %d: there are so many brokers", name, factor, replicas
            )
        cluster.ensure_topics([Topic(name, 1, factor, COMPACTED)])


class StateWriter:
    """Writes records to partition 0 of a topic, idempotently. Used by one thread at a time."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        """Raises ClusterError for properties that a client can't have."""
        self.topic = topic
        self._failed: KafkaError | None = None
        options = {
            "enable.idempotence": True,
            "linger.ms": "50",
            "allow.auto.create.topics": "false",
            "log_level": "0",
            "queue.buffering.max.messages": "100000",
            "on_delivery": self._delivered,
        }
        try:
            self._producer = Producer(access.librdkafka(options))
        except (KafkaException, ValueError) as problem:
            raise ClusterError(f"the producer of topic {topic} can't be made: {problem}") from None

    def write(self, key: bytes, value: bytes) -> bool:
        """Hand a record over; False where there is no room for it now."""
        try:
            self._producer.produce(self.topic, value, key, partition=0)
        except BufferError:
            return False
        self._producer.poll(0)
        return True

    def poll(self) -> None:
        """Take answers in, without waiting."""
        self._producer.poll(0)

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until all records are acknowledged. Raises ClusterError for those that are not."""
        deadline = time.monotonic() + seconds
        while len(self._producer) and time.monotonic() < deadline and self._failed is None:
            self._producer.poll(0.05)
        failed, self._failed = self._failed, None
        if failed is not None:
            raise ClusterError(f"topic {self.topic} can't be written: {failed.str()}")
        if len(self._producer):
            self._producer.purge()
            raise ClusterError(f"topic {self.topic} can't be written: no answer in {seconds:g} s")

    def close(self) -> None:
        """Give up what was not acknowledged."""
        self._producer.purge()
        self._producer.poll(0)

    def _delivered(self, problem: KafkaError | None, _: Message) -> None:
        if problem is not None and problem.code() not in (
            KafkaError._PURGE_QUEUE,
            KafkaError._PURGE_INFLIGHT,
        ):
            self._failed = self._failed or problem


class StateReader:
    """Reads partition 0 of a topic from its start, further at each call. Used by one thread.

    begin: called before the first record, and whenever the topic has to be read from its start again.
    """

    def __init__(
        self,
        access: ClusterAccess,
        topic: str,
        begin: Callable[[], None],
        take: Callable[[bytes, bytes | None], None],
    ) -> None:
        self.topic = topic
        self._access = access
        self._begin = begin
        self._take = take
        self._consumer: Consumer | None = None

    def read_to_end(self, goes_on: Callable[[], bool]) -> None:
        """Take all records up to the present end, as long as `goes_on`. Raises ClusterError."""
        consumer = self._opened()
        last = time.monotonic()
        try:
            while goes_on():
                messages = consumer.consume(BATCH, timeout=0.2)
                now = time.monotonic()
                if messages:
                    last = now
                elif now - last > STALL_SECONDS:
                    raise ClusterError(f"topic {self.topic} can't be read: nothing comes")
                for message in messages:
                    error = message.error()
                    if error is None:
                        self._take(message.key() or b"", message.value())
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
                    elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                        raise ClusterError(f"topic {self.topic} can't be read: {error.str()}")
        except ClusterError:
            self.close()
            raise
        except KafkaException as problem:
            self.close()
            raise ClusterError(f"topic {self.topic} can't be read: {problem}") from problem

    def _opened(self) -> Consumer:
        """The consumer, which has told its end before: it tells it again only after new records."""
        if self._consumer is None:
            self._consumer = reader(self._access, {"log_level": "0"})
            self._begin()
            self._consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        else:
            place = self._consumer.position([TopicPartition(self.topic, 0)])[0]
            offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
            self._consumer.assign([TopicPartition(self.topic, 0, offset)])
        return self._consumer

    def close(self) -> None:
        """The next read begins at the start of the topic."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
