"""The walk of docs/links.md, by its own commands, under load: from Apache Kafka to ottla with a short pause.

A producer writes numbered records all the time, a group reads them. The group moves first, then the producer;
nothing is lost, nothing comes twice, and the group goes on at its offsets.
"""

from __future__ import annotations

import re
import shlex
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.cli.main import main
from support.clients.confluent import TIMEOUT_S, create_topic, eventually
from support.links.mirrors import partitions_of, wait_for
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

PAGE = Path(__file__).resolve().parents[3] / "docs" / "links.md"
PARTITIONS = 2


@pytest.fixture(params=["ottla", pytest.param("apache-kafka", marks=[pytest.mark.java, pytest.mark.long])])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[request.param]
    with start(tmp_path / "old") as running:
        yield running


def walk(old: str, new: str) -> dict[str, list[str]]:
    """The page's commands of its walk, by their verbs, with these addresses in place of its own."""
    section = PAGE.read_text(encoding="utf-8").split("## A walk")[1].split("\n## ")[0]
    lines = re.findall(r"ottla link [^`\n]+", section)
    words = [shlex.split(line.replace("old:9092", old).replace("new:9092", new))[1:] for line in lines]
    return {each[1]: each for each in words}


class Writer(threading.Thread):
    """Writes numbers to a cluster until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._topic = topic
        self.next_number = first
        self._stopped = threading.Event()
        self.failures: list[object] = []

    def run(self) -> None:
        while not self._stopped.wait(0.001):
            number = self.next_number
            self._producer.produce(
                self._topic, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._told
            )
            self.next_number += 1
            self._producer.poll(0)
        assert self._producer.flush(TIMEOUT_S) == 0

    def _told(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures.append(error)

    def stop(self) -> int:
        """Ends after the last acknowledgement; the number that comes next."""
        self._stopped.set()
        self.join(2 * TIMEOUT_S)
        assert not self.is_alive() and not self.failures
        return self.next_number


def read_some(
    bootstrap: str, group: str, topic: str, count: int | None, ends: dict[int, int] | None
) -> list[int]:
    """What a member of the group reads: `count` records, or all up to the ends; its offsets are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    found: list[int] = []
    positions: dict[int, int] = {}
    try:
        consumer.subscribe([topic])

        def is_done() -> bool:
            if count is not None:
                return len(found) >= count
            assert ends is not None
            return all(positions.get(each, -1) >= end for each, end in ends.items())

        def poll() -> bool:
            for message in consumer.consume(1_000, 0.2):
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                found.append(int(value))
                positions[message.partition()] = message.offset() + 1
            return is_done()

        wait_for(poll, "records are read")
        consumer.commit(
            offsets=[TopicPartition(topic, each, offset) for each, offset in positions.items()],
            asynchronous=False,
        )
        return found
    finally:
        consumer.close()


def test_producers_and_groups_move_and_nothing_is_lost_or_doubled(old: Cluster, tmp_path: Path) -> None:
    topic, group = f"orders-{uuid.uuid4().hex[:8]}", f"readers-{uuid.uuid4().hex[:8]}"
    with OttlaBroker.start(tmp_path / "new") as new:
        commands = walk(old.bootstrap, new.bootstrap)
        create_topic(old.bootstrap, topic, PARTITIONS)
        writer = Writer(old.bootstrap, topic, 0)
        writer.start()
        read = read_some(old.bootstrap, group, topic, 200, None)
        assert main(commands["create"]) == 0

        def has_offsets() -> bool:
            client = Consumer({"bootstrap.servers": new.bootstrap, "group.id": group, "log_level": 0})
            try:
                wanted = [TopicPartition(topic, each) for each in range(PARTITIONS)]
                here = client.committed(wanted, timeout=TIMEOUT_S)
            finally:
                client.close()
            return sum(max(0, each.offset) for each in here) == len(read)

        eventually(has_offsets, "the group's offsets have come along", 60)
        read += read_some(new.bootstrap, group, topic, 100, None)
        number = writer.stop()
        assert main(commands["promote"]) == 0
        second = Writer(new.bootstrap, topic, number)
        second.start()
        wait_for(lambda: second.next_number > number + 300, "the producer goes on")
        last = second.stop()
        stood = partitions_of(new.bootstrap, "move").values()
        assert sum(each["mirrored_end_offset"] for each in stood) == number
        client = Consumer({"bootstrap.servers": new.bootstrap, "group.id": "ends", "log_level": 0})
        final = {
            each: client.get_watermark_offsets(TopicPartition(topic, each), timeout=TIMEOUT_S)[1]
            for each in range(PARTITIONS)
        }
        client.close()
        read += read_some(new.bootstrap, group, topic, None, final)
        assert sorted(read) == list(range(last))
        assert {each["state"] for each in partitions_of(new.bootstrap, "move").values()} == {"promoted"}
        assert main(commands["delete"]) == 0
