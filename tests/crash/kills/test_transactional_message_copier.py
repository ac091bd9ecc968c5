"""Apache Kafka's TransactionalMessageCopier copies exactly once while the broker is killed repeatedly."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from support.clients.wire import WireClient
from support.java.java_tools import java_process
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.java

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
MESSAGES = 4_000
TRANSACTION_SIZE = 50
KILLS = 4
REPORTS_BETWEEN_KILLS = 8
TIMEOUT_S = 90.0


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(MESSAGES):
        producer.produce(topic, key=b"k", value=str(number).encode(), partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def read_committed(bootstrap: str, topic: str) -> list[int]:
    """The values of a partition up to its end, in their order."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "no end of the partition: a transaction hangs"
        if message.error():
            consumer.close()
            return values
        values.append(int(message.value()))


def reports_of(copier: subprocess.Popen[str]) -> queue.Queue[dict[str, object] | None]:
    """The copier's report after each transaction; None at its end."""
    reports: queue.Queue[dict[str, object] | None] = queue.Queue()

    def read() -> None:
        assert copier.stdout is not None
        for line in copier.stdout:
            if line.startswith("{"):
                reports.put(json.loads(line))
        reports.put(None)

    threading.Thread(target=read, daemon=True).start()
    return reports


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "mode",
    [pytest.param((), marks=pytest.mark.long), ("--group-mode", "--use-group-metadata")],
    ids=["assigned", "group"],
)
def test_a_copy_under_kills_of_the_broker_has_every_message_once(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        # given
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic("in")
            client.create_topic("out")
        fill(broker.bootstrap, "in")
        arguments = [
            *("--broker-list", broker.bootstrap, "--transactional-id", "copier"),
            *("--input-topic", "in", "--input-partition", "0", "--output-topic", "out"),
            *("--consumer-group", "copiers", "--transaction-size", str(TRANSACTION_SIZE)),
            *("--max-messages", str(MESSAGES), "--enable-random-aborts", *mode),
        ]
        with java_process(COPIER, *arguments) as copier:
            reports = reports_of(copier)
            kills = 0
            count = 0
            last: dict[str, object] = {}
            # when: the broker is killed between transactions, which is in the middle of the next
            while (report := reports.get(timeout=TIMEOUT_S)) is not None:
                last = report
                count += 1
                if count % REPORTS_BETWEEN_KILLS == 0 and kills < KILLS:
                    kills += 1
                    broker.server.kill()
                    broker.server.start()
            assert copier.wait(TIMEOUT_S) == 0, last
        # then
        assert kills == KILLS
        assert read_committed(broker.bootstrap, "out") == list(range(MESSAGES))
