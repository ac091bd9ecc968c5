"""The Kafka clients of one Spark worker that outlive a task: producers of units, readers of their ledgers."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

from ottla.client.access import ClusterAccess
from ottla.pipeline.sink.exactly_once_settings import SinkSettings

MAX_PRODUCERS = 16
MAX_LEDGER_READERS = 64


def client_access(settings: SinkSettings) -> ClusterAccess:
    """How every client of the sink reaches the cluster."""
    properties = {
        "allow.auto.create.topics": "false",
        # librdkafka's own log lines bypass Spark's logs; anything that matters is returned as an error.
        "log_level": "2",
        **{name: value for name, value in settings.client_options.items() if name not in _PRODUCER_ONLY},
    }
    return ClusterAccess(settings.bootstrap, properties)


_PRODUCER_DEFAULTS: dict[str, str | bool] = {
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    # A unit's producer has few connections, and a new one must find its coordinator at once.
    "enable.sparse.connections": "false",
    # commit_transaction flushes, so lingering costs a batch's latency nothing.
    "linger.ms": "20",
    "batch.size": "1000000",
    "batch.num.messages": "100000",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "131072",
    "message.max.bytes": "104857600",
    "delivery.report.only.error": True,  # the Python client wants a bool
}
_PRODUCER_ONLY = frozenset(_PRODUCER_DEFAULTS) - {"message.max.bytes"}


def producer_options(settings: SinkSettings) -> dict[str, Any]:
    """The properties of a unit's producer, without its transactional id."""
    return client_access(settings).librdkafka(
        {
            **_PRODUCER_DEFAULTS,
            "transaction.timeout.ms": str(settings.transaction_timeout_ms),
            **settings.client_options,
        }
    )


class UnitProducer:
    """A transactional producer of one unit, which may serve its batches one after the other.

    next_batch: the unit's next batch after this producer's last commit, None before that. topics: the topics
    known to exist. failure: the first error of a record that is not a consequence of another error.
    """

    def __init__(self, settings: SinkSettings, group: str, consequences: frozenset[int]) -> None:
        self.next_batch: int | None = None
        self.topics: set[str] = set()
        self.failure: KafkaError | None = None
        self.failed_topic: str | None = None
        self._consequences = consequences
        self.client = Producer(
            {**producer_options(settings), "transactional.id": group}, on_delivery=self._on_delivery
        )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.failure is None and error.code() not in self._consequences:
            self.failure, self.failed_topic = error, message.topic()


class UnitProducers:
    """Producers that have committed, kept for their units' next batch: making one takes 15 to 30 ms.

    A producer is taken out for use and put back once it has committed, so that a failed one is dropped.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[tuple[object, ...], UnitProducer] = OrderedDict()

    def take(self, settings: SinkSettings, group: str) -> UnitProducer | None:
        """Take out the unit's producer; None if this process has none."""
        return self._kept.pop(_key(settings, group), None)

    def put(self, settings: SinkSettings, group: str, producer: UnitProducer) -> None:
        """Keep a producer whose transaction is committed; the least recently used one makes room."""
        self._kept[_key(settings, group)] = producer
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)


def _key(settings: SinkSettings, group: str) -> tuple[object, ...]:
    return group, *sorted((name, str(value)) for name, value in producer_options(settings).items())


UNIT_PRODUCERS = UnitProducers(MAX_PRODUCERS)


class LedgerReaders:
    """This process's consumers for reading ledgers: one for each group, as a consumer has one group.

    An AdminClient could read them all, but librdkafka 2.16 crashes in it when a broker answers that a
    transaction is about to change the offset, as Apache Kafka does.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._consumers: OrderedDict[tuple[tuple[str, Any], ...], Consumer] = OrderedDict()

    def consumer(self, access: ClusterAccess, group: str) -> Consumer:
        """A consumer of `group` that never joins it."""
        wanted = access.librdkafka(
            {
                "group.id": group,
                "enable.auto.commit": False,
                # Makes the broker wait with its answer for what a transaction still does to the offset.
                "isolation.level": "read_committed",
            }
        )
        key = tuple(sorted(wanted.items()))
        found = self._consumers.pop(key, None)
        if found is None:
            if len(self._consumers) >= self._capacity:
                self._consumers.popitem(last=False)[1].close()
            found = Consumer(wanted)
        self._consumers[key] = found
        return found


LEDGER_READERS = LedgerReaders(MAX_LEDGER_READERS)
