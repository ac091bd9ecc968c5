"""Write a batch of keyed records to a topic so that a repeated batch leaves each record there exactly once.

Spark runs a batch again when it was not finished: same batch id, same input, so here the same keys. The
caller keeps with each batch the positions that `write` returned: every record of that batch and of earlier
ones is before them. The first `write` of a process, and any after one that failed, may be a repetition: it
first reads the topic from the positions kept with the batch before to its end, and leaves out the keys that
it finds.

    write N to the topic  ->  store N and its positions in one transaction  ->  Spark commits N

After a kill at either arrow or in the middle of the write, batch N is repeated. The reading, which starts at
the positions of the batch before N even if N has its own, finds the records that N has written. Keys must be
unique over the batches. The records are visible to read_committed readers as soon as they are acknowledged.
Records that a killed process had in flight reach the log or are lost when its socket closes, seconds before
the next process reads. (A transaction would make that wait unnecessary.)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from ottla.client.cluster import KafkaCluster, Positions
from ottla.client.errors import ClusterError

DELIVERY_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class KeyedRecord:
    """One record to write; its key identifies it for good."""

    key: bytes
    value: bytes
    timestamp_ms: int


class TopicOutput:
    """Writes batches to one topic. For one thread at a time."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._may_be_repetition = True
        self._producer: Producer | None = None
        self._positions: dict[int, int] = {}

    def write(self, records: Sequence[KeyedRecord], before: Positions) -> dict[int, int]:
        """Write the records that are not in the topic yet; returns the positions to keep with the batch.

        `before` are the positions kept with the batch before this one, empty if there is none. Raises
        ClusterError if not every record was acknowledged; the next call finds out which were.
        """
        positions = {**before, **self._positions}
        present: set[bytes] = set()
        if self._may_be_repetition:
            for message in self._cluster.read(self._topic, before):
                key = message.key()
                present.add(key or b"")
            positions |= self._cluster.end_positions(self._topic)
        self._may_be_repetition = True
        written = self._produce([record for record in records if record.key not in present])
        self._may_be_repetition = False
        for partition, offset in written.items():
            positions[partition] = max(offset, positions.get(partition, 0))
        self._positions = positions
        return positions

    def _produce(self, records: Sequence[KeyedRecord]) -> dict[int, int]:
        if not records:
            return {}
        ends: dict[int, int] = {}
        failures: list[str] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is not None:
                failures.append(str(error))
            elif partition is not None and offset is not None:
                ends[partition] = max(offset + 1, ends.get(partition, 0))

        producer = self._open()
        for record in records:
            while True:
                try:
                    producer.produce(
                        self._topic,
                        record.value,
                        record.key,
                        timestamp=record.timestamp_ms,
                        on_delivery=on_delivery,
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
        deadline = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000 + 5
        while len(producer) and not failures and time.monotonic() < deadline:
            producer.flush(0.5)
        if failures or len(producer):
            # Records left in this producer must not arrive unnoticed during the next call.
            producer.purge(in_queue=True, in_flight=True)
            self._producer = None
            raise ClusterError(f"cannot write to {self._topic}: {(failures or ['no answer'])[0]}")
        return ends

    def _open(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {
                    **self._cluster.producer_options(),
                    "client.id": "ottla-pipeline",
                    "linger.ms": 5,
                    "compression.type": "lz4",
                    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                }
            )
        return self._producer
