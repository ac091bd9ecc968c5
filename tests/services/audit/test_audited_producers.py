"""Producers that report: marks in the records, reports in `_audit`, transactions, refusals, a sudden end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Producer

from ottla.audit import AuditedAIOKafkaProducer, AuditedProducer
from ottla.client.audit.mark import HEADER, StreamBucket, parse_mark
from ottla.client.audit.reports import REPORTS_TOPIC, Report, parse_report
from support.clients.confluent import consumer, create_topic, topic_exists
from support.servers.ottla_broker import OttlaBroker


def read_all(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[confluent_kafka.Message]:
    found = []
    with consumer(
        bootstrap, f"reads-{topic}", isolation_level=isolation, enable_partition_eof="true"
    ) as client:
        client.subscribe([topic])
        ended: set[int] = set()
        partitions = len(client.list_topics(topic, timeout=20).topics[topic].partitions)
        deadline = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < deadline
            message = client.poll(1)
            if message is None:
                continue
            if message.error():
                ended.add(message.partition())
            else:
                found.append(message)
    return found


def reports(bootstrap: str, tier: str) -> dict[StreamBucket, Report]:
    """The newest report of each bucket of the tier."""
    found: dict[StreamBucket, Report] = {}
    if not topic_exists(bootstrap, REPORTS_TOPIC):
        return found
    for message in read_all(bootstrap, REPORTS_TOPIC):
        report = parse_report(message.value())
        assert report is not None
        if report.tier == tier:
            found[report.of] = report
    return found


def marks(messages: list[confluent_kafka.Message]) -> list[tuple[StreamBucket, int]]:
    found = []
    for message in messages:
        values = [value for name, value in message.headers() or () if name == HEADER]
        assert len(values) == 1
        parsed = parse_mark(values[0])
        assert parsed is not None
        found.append(parsed)
    return found


def test_each_record_has_a_mark_and_the_end_tells_all(broker: OttlaBroker, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name, 3)
    old = ((HEADER, b"of another record"), ("trace", b"1"))
    with AuditedProducer(
        {"bootstrap.servers": broker.bootstrap}, tier=unique_name, host="h1", bucket_ms=60_000
    ) as producer:
        for number in range(30):
            producer.produce(topic, b"v", str(number), timestamp=60_000 * (number // 10 + 1), headers=old)
        producer.produce_batch(topic, [{"value": b"a"}, {"value": b"b", "timestamp": 60_000}])
    found = marks(read_all(broker.bootstrap, topic))
    told = reports(broker.bootstrap, unique_name)
    assert len(found) == len(set(found)) == 32
    assert sum(one.sent for one in told.values()) == 32
    assert all(one.is_final and one.host == "h1" and one.topic == topic for one in told.values())
    for of, report in told.items():
        assert sorted(sequence for each, sequence in found if each == of) == list(range(report.sent))
    assert {of.bucket_start_ms for of in told} >= {60_000, 120_000, 180_000}


def test_a_refused_record_leaves_no_gap(broker: OttlaBroker, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    producer = AuditedProducer(
        {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 5, "linger.ms": 1_000},
        tier=unique_name,
    )
    refused = 0
    for _ in range(9):
        try:
            producer.produce(topic, b"v", timestamp=5)
        except BufferError:
            refused += 1
    batch: list[dict[str, Any]] = [{"value": b"v", "timestamp": 5}]
    assert producer.produce_batch(topic, batch) == 0 and "_error" in batch[0]
    with pytest.raises(TypeError):
        producer.produce(topic, 5)
    producer.flush()
    producer.produce(topic, b"last", timestamp=5)
    producer.close()
    (report,) = reports(broker.bootstrap, unique_name).values()
    assert refused == 4 and report.sent == 6
    assert sorted(sequence for _, sequence in marks(read_all(broker.bootstrap, topic))) == list(range(6))


def test_what_was_aborted_was_never_sent(broker: OttlaBroker, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    config = {"bootstrap.servers": broker.bootstrap, "transactional.id": unique_name}
    producer = AuditedProducer(config, tier=unique_name)
    producer.init_transactions(30)
    for commits in (False, True, False, True):
        producer.begin_transaction()
        for _ in range(4):
            producer.produce(topic, b"v", timestamp=5)
        producer.flush()
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    producer.close()
    (report,) = reports(broker.bootstrap, unique_name).values()
    assert report.sent == 8
    assert sorted(sequence for _, sequence in marks(read_all(broker.bootstrap, topic))) == list(range(8))


def test_a_program_that_only_flushes_and_ends_reports(broker: OttlaBroker, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    program = f"""
from ottla.audit import AuditedProducer
producer = AuditedProducer({{"bootstrap.servers": "{broker.bootstrap}"}}, tier="{unique_name}")
for number in range(7):
    producer.produce("{topic}", b"v", timestamp=5)
    producer.flush()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    (report,) = reports(broker.bootstrap, unique_name).values()
    assert (report.sent, report.is_final) == (7, True)


def test_a_producer_whose_cluster_is_away_goes_on(caplog: pytest.LogCaptureFixture, unique_name: str) -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 300}
    producer = AuditedProducer(config, tier=unique_name)
    assert isinstance(producer, Producer)
    failed: list[Any] = []
    producer.produce(unique_name, b"v", on_delivery=lambda error, _: failed.append(error))
    producer.flush(2)
    assert failed and failed[0] is not None
    producer._sender._stop.set()  # the last report would wait for the cluster
    producer._finalizer.detach()


def test_a_producer_of_aiokafka_reports_too(broker: OttlaBroker, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name, 2)

    async def run() -> None:
        options = {"bootstrap_servers": broker.bootstrap}
        async with AuditedAIOKafkaProducer(tier=unique_name, host="h2", **options) as producer:
            sends = [producer.send(topic, b"v", timestamp_ms=5, headers=[("a", b"1")]) for _ in range(20)]
            await asyncio.gather(*[await one for one in sends])
            with pytest.raises(AssertionError):
                await producer.send(topic)
            await producer.flush()
            await producer.send_and_wait(topic, b"last", timestamp_ms=5)

    asyncio.run(run())
    (report,) = reports(broker.bootstrap, unique_name).values()
    assert (report.sent, report.host, report.is_final) == (21, "h2", True)
    assert sorted(sequence for _, sequence in marks(read_all(broker.bootstrap, topic))) == list(range(21))
