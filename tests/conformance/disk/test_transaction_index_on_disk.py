"""The index of aborted transactions on disk is Kafka's: the same bytes, and each goes on with the other's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from support.clients.confluent import TIMEOUT_S, create_topic, eventually
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

TOPIC = "t"
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def transact(bootstrap: str, first: int, count: int) -> None:
    """Transactions of two records, every other one aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx", "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    for number in range(first, first + count):
        producer.begin_transaction()
        for each in range(2):
            producer.produce(TOPIC, b"%d/%d" % (number, each) + b"." * 20_000)
        if number % 2:
            # records that are not flushed are never sent when a transaction is aborted
            assert producer.flush(TIMEOUT_S) == 0
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)


def read_committed(bootstrap: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes] = []
    ended = False

    def read() -> bool:
        nonlocal ended
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            found.append(value.rstrip(b"."))
        elif message is not None:
            ended = True
        return ended

    eventually(read, "the consumer is at the end")
    consumer.close()
    return found


def committed(count: int) -> list[bytes]:
    return [b"%d/%d" % (number, each) for number in range(0, count, 2) for each in range(2)]


def index_files(data: Path) -> dict[str, bytes]:
    """The files that are not empty: Apache Kafka leaves empty ones after a recovery."""
    files = sorted((data / f"{TOPIC}-0").glob("*.txnindex"))
    return {path.name: path.read_bytes() for path in files if path.stat().st_size}


def dumped(data: Path) -> list[tuple[int, int]]:
    """(first offset, last offset) of every entry, as Kafka's tool prints them."""
    files = sorted((data / f"{TOPIC}-0").glob("*.txnindex"))
    run = run_java("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(str(file) for file in files))
    assert run.returncode == 0 and "Exception" not in run.stderr, run.stderr
    found = re.findall(r"version: 0 producerId: \d+ firstOffset: (\d+) lastOffset: (\d+)", run.stdout)
    return [(int(first), int(last)) for first, last in found]


def forget_what_is_derived(data: Path) -> None:
    """Remove the indexes, as a kill may: the next start makes them again."""
    (data / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    for path in (data / f"{TOPIC}-0").glob("*.txnindex"):
        path.write_bytes(b"")
    (data / "recovery-point-offset-checkpoint").unlink()
    (data / "log-start-offset-checkpoint").unlink(missing_ok=True)


def test_both_write_the_same_index_and_take_turns(tmp_path: Path) -> None:
    data = tmp_path / "logs"  # where ApacheKafka has it too
    with OttlaBroker.start(data) as broker:
        create_topic(broker.bootstrap, TOPIC, config=SMALL_SEGMENTS)
        transact(broker.bootstrap, 0, 60)
        assert read_committed(broker.bootstrap) == committed(60)
    ours = index_files(data)
    assert len(ours) >= 3 and len(dumped(data)) == 30
    forget_what_is_derived(data)

    with ApacheKafka.start(tmp_path) as kafka:
        assert index_files(data) == ours
        assert read_committed(kafka.bootstrap) == committed(60)
        transact(kafka.bootstrap, 60, 20)
        assert read_committed(kafka.bootstrap) == committed(80)
    kafkas = index_files(data)
    assert len(dumped(data)) == 40
    with OttlaBroker.start(data) as broker:
        assert read_committed(broker.bootstrap) == committed(80)
    forget_what_is_derived(data)

    with OttlaBroker.start(data) as broker:
        assert read_committed(broker.bootstrap) == committed(80)
        transact(broker.bootstrap, 80, 2)
        assert read_committed(broker.bootstrap) == committed(82)
    after = index_files(data)
    assert all(after[name].startswith(content) for name, content in kafkas.items())
