"""`ottla audit count` and `report` on a cluster: the same numbers whatever is killed, and each loss named."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer

from ottla.audit import AuditedProducer
from ottla.client.audit.mark import HEADER, mark
from support.audit.counting import counting, report
from support.audit.faulty import Faulty, settled, total
from support.clients.confluent import create_topic
from support.metrics.samples import sample
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker


def test_what_producers_send_arrives(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name, 3)
    metrics = f"127.0.0.1:{free_port()}"
    settings = {"topics.include": unique_name, "ottla.metrics.listen": metrics}
    with counting(broker.bootstrap, tmp_path, unique_name, settings) as service:
        config = {"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"}
        with AuditedProducer(config, tier=unique_name, bucket_ms=1_000, host="h1") as producer:
            for number in range(5_000):
                producer.produce(topic, b"value", str(number))
        code, rows = settled(broker.bootstrap, unique_name)
        assert (code, total(rows, "sent"), total(rows, "counted")) == (0, 5_000, 5_000)
        assert total(rows, "lost") == total(rows, "doubled") == total(rows, "unreported") == 0
        assert {row["percent"] for row in rows} == {100.0}
        assert all(row["delay_ms"]["100"] is not None for row in rows)
        assert sum(count for row in rows for count in row["partitions"].values()) == 5_000
        status = httpx.get(service.url).json()
        assert (status["partitions"], status["counted"], status["problem"]) == (3, 5_000, None)
        scraped = httpx.get(f"http://{metrics}/metrics").text
        assert sample(scraped, "ottla_audit_counted_records_total", tier=unique_name) == 5_000
        assert sample(scraped, "ottla_audit_behind_seconds", tier=unique_name) < 60


@pytest.mark.parametrize("by", ["records", "headers"])
def test_losses_doubles_and_aborted_records(
    broker: OttlaBroker, tmp_path: Path, unique_name: str, by: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name, 2)
    settings = {"topics.include": f"{unique_name}|eu\\.{unique_name}", "counting": by}
    with counting(broker.bootstrap, tmp_path, unique_name, settings):
        faulty = Faulty(broker.bootstrap, unique_name, topic)
        faulty.send([*range(10), *range(13, 50), 20, 20, 21])
        config = {"bootstrap.servers": broker.bootstrap, "transactional.id": unique_name}
        transactions = Producer(config)
        transactions.init_transactions(30)
        for commits in (False, True):
            transactions.begin_transaction()
            for one in (10, 11) if not commits else (12,):
                headers = [(HEADER, mark(faulty.of, one))]
                timestamp = faulty.of.bucket_start_ms
                transactions.produce(topic, b"v", timestamp=timestamp, headers=headers)
            if commits:
                transactions.commit_transaction(30)
            else:
                transactions.flush(30)
                transactions.abort_transaction(30)
        faulty.report(60)
        code, (row,) = settled(broker.bootstrap, unique_name)
    assert code == 3
    assert (row["sent"], row["counted"], row["lost"], row["doubled"]) == (60, 51, 12, 3)
    assert [(one["first"], one["last"]) for one in row["lost_ranges"]] == [(10, 11), (50, 59)]
    assert [(one["first"], one["last"]) for one in row["doubled_ranges"]] == [(20, 21)]
    assert row["hosts"] == {"h1": {"sent": 60, "missing": 12, "unreported": 0}}
    assert row["percent"] == 80.0
    code, (told,) = report(broker.bootstrap, "--tier", unique_name, "--trend")
    assert (code, told["topic"], told["tier"]) == (3, topic, unique_name)
    assert told["trend"]["1h"] == {"percent": 80.0, "before": None, "change": None}


def test_counters_that_are_killed_count_nothing_twice(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    """Killed at any time, one after the other and two at once: each record counts once."""
    topic = create_topic(broker.bootstrap, unique_name, 3)
    faulty = Faulty(broker.bootstrap, unique_name, topic)
    settings = {"topics.include": unique_name, "fetch.max.bytes": str(1 << 20)}
    for life in range(3):
        with (
            counting(broker.bootstrap, tmp_path, unique_name, settings) as service,
            counting(broker.bootstrap, tmp_path, unique_name, settings) as other,
        ):
            faulty.send(range(life * 4_000, life * 4_000 + 2_000))
            time.sleep(0.13 * life)  # at another point of its work each time
            service.kill()
            faulty.send(range(life * 4_000 + 2_000, life * 4_000 + 4_000))
            other.kill()
    faulty.report(12_000)
    with counting(broker.bootstrap, tmp_path, unique_name, settings):
        code, (row,) = settled(broker.bootstrap, unique_name)
    assert (code, row["sent"], row["counted"], row["lost"], row["doubled"]) == (0, 12_000, 12_000, 0, 0)


def test_what_retention_removed_is_unknown(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    faulty = Faulty(broker.bootstrap, unique_name, topic)
    faulty.send(range(30))
    delete_to(broker.bootstrap, topic, 10)
    faulty.report(40)
    with counting(broker.bootstrap, tmp_path, unique_name, {"topics.include": unique_name}):
        code, (row,) = settled(broker.bootstrap, unique_name)
    assert (code, row["counted"], row["lost"], row["unknown"]) == (3, 20, 10, 10)


def delete_to(bootstrap: str, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition

    from support.clients.confluent import admin_client

    futures = admin_client(bootstrap).delete_records([TopicPartition(topic, 0, offset)])
    for future in futures.values():
        future.result(30)
