"""The audit on ottla and on Apache Kafka: a producer, and a copy that loses some and doubles others."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from ottla.audit import AuditedProducer
from support.audit.counting import counting
from support.audit.faulty import settled, total
from support.clients.confluent import consumer, create_topic
from support.servers.cluster import Cluster


def test_a_copy_that_loses_and_doubles_is_named(cluster: Cluster, tmp_path: Path, unique_name: str) -> None:
    """The second tier is a topic with a mirror's name, counted under a tier of its own."""
    bootstrap = cluster.bootstrap
    topic, copy = unique_name, f"app.{unique_name}"
    create_topic(bootstrap, topic, 2)
    create_topic(bootstrap, copy, 2)
    first, second = f"{unique_name}-app", f"{unique_name}-lake"
    config = {"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20}
    with (
        counting(bootstrap, tmp_path, first, {"topics.include": topic}),
        counting(bootstrap, tmp_path, second, {"topics.include": copy.replace(".", "\\.")}),
    ):
        with AuditedProducer(config, tier=first, bucket_ms=1_000, host="h1") as producer:
            for number in range(200):
                producer.produce(topic, b"value", str(number))
        mirror = Producer(config)
        with consumer(bootstrap, unique_name) as reader:
            reader.subscribe([topic])
            copied = 0
            while copied < 200:
                message = reader.poll(30)
                assert message is not None and message.error() is None
                times = 0 if copied in (5, 50, 51) else 2 if copied == 100 else 1
                for _ in range(times):
                    mirror.produce(
                        copy,
                        message.value(),
                        message.key(),
                        headers=message.headers(),
                        timestamp=message.timestamp()[1],
                    )
                copied += 1
        assert mirror.flush(30) == 0
        code, rows = settled(bootstrap, first)
        assert (code, total(rows, "sent"), total(rows, "lost"), total(rows, "doubled")) == (0, 200, 0, 0)
        code, rows = settled(bootstrap, second)
        numbers = [total(rows, name) for name in ("sent", "counted", "lost", "doubled", "remirrored")]
        assert (code, numbers) == (3, [200, 198, 3, 1, 1])
        assert {row["topic"] for row in rows} == {copy}
