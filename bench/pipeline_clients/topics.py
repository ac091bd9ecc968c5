"""The topics of the pipeline's scenarios: made, and read to their ends."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.errors import BenchError
from bench.pipeline_clients.peers import PARTITIONS
from bench.servers import Server


def create_topics(server: Server, *names: str) -> None:
    """Make topics of as many partitions as all programs read."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result(30)


def read_all(server: Server, topic: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of all committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            # By default the client rests for a second whenever 100,000 records wait in it.
            "fetch.queue.backoff.ms": 5,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    open_partitions = set(range(PARTITIONS))
    while open_partitions:
        messages = consumer.consume(10_000, timeout=30)
        if not messages:
            raise BenchError(f"nothing comes from {topic} any more")
        for message in messages:
            if (error := message.error()) is None:
                yield message.key() or b"", message.value() or b""
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise BenchError(f"{topic} cannot be read: {error}")
    consumer.close()
