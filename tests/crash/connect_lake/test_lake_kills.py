"""Lake sinks whose host is killed at random moments: each record is in the table once."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ottla.client.cluster import KafkaCluster, Topic
from ottla.connect.host.messages import Ended, Running
from support.clients.confluent import eventually, produce
from support.connect.lake_path import is_jvm
from support.connect.lakes import delta_rows, iceberg_rows
from support.connect.spark_host import BATCH_TIMEOUT_S, START_TIMEOUT_S, SparkHost, spark_host
from support.servers.cluster import Cluster
from support.servers.processes import descendants

pytestmark = pytest.mark.spark
PARTITIONS = 3
ICEBERG, DELTA, FILES = "iceberg", "delta", "files"


def config(kind: str, topic: str, directory: Path) -> dict[str, str]:
    common = {"topics": topic, "tasks.max": "2", "ottla.batch.max.records": "150"}
    match kind:
        case "iceberg":
            return common | {
                "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
                "iceberg.tables": "db.rows",
                "iceberg.tables.auto-create-enabled": "true",
                "iceberg.catalog.warehouse": str(directory),
            }
        case "delta":
            return common | {
                "connector.class": "ottla.connect.spark.DeltaSinkConnector",
                "delta.path": str(directory / "table"),
            }
    return common | {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "ottla.url": str(directory),
        "flush.size": "40",
        "rotate.interval.ms": "0",
    }


def rows(kind: str, directory: Path) -> list[dict[str, Any]]:
    match kind:
        case "iceberg":
            return iceberg_rows(directory / "db" / "rows")
        case "delta":
            return delta_rows(directory / "table")
    files = (directory / "topics").rglob("*.parquet")
    return [row for path in files for row in pq.read_table(path).to_pylist()]


class KilledSink:
    """A sink over several lives of its host."""

    def __init__(self, kafka: KafkaCluster, kind: str, topic: str, directory: Path, seed: int) -> None:
        self.kafka, self.kind, self.topic = kafka, kind, topic
        self.directory, self.chance = directory, random.Random(seed)
        self.sent = 0
        kafka.ensure_topics([Topic(topic, PARTITIONS)])

    @property
    def lake(self) -> Path:
        return self.directory / "lake"

    def send(self, most: int) -> None:
        count = self.chance.randint(1, most)
        records = [
            {
                "value": json.dumps({"id": self.sent + at}).encode(),
                "partition": self.chance.randrange(PARTITIONS),
            }
            for at in range(count)
        ]
        produce(self.kafka.bootstrap, self.topic, records)
        self.sent += count

    def count(self) -> int:
        return len(rows(self.kind, self.lake))

    def live(self, number: int, then: Callable[[SparkHost], None]) -> None:
        """A life of the host, in which the sink runs."""
        with spark_host(self.kafka.bootstrap, self.directory / f"host-{number}") as host:
            run = host.begin(self.topic, config(self.kind, self.topic, self.lake))
            self.send(400)
            begun = host.wait_for(run, (Running, Ended), START_TIMEOUT_S)
            # a JVM that outlived its host may have committed between: this run is refused, the next goes on
            if isinstance(begun, Ended):
                assert begun.trace is not None and "another run" in begun.trace, begun.trace
                return
            then(host)

    def live_until_killed(self, number: int) -> None:
        def then(host: SparkHost) -> None:
            before = self.count()
            self.send(400)
            if self.chance.random() < 0.8:
                eventually(lambda: self.count() > before, "a batch is there", BATCH_TIMEOUT_S)
            self.send(400)
            threading.Event().wait(self.chance.random() * 1.5)  # a moment of any step of a commit
            if self.chance.random() < 0.5:
                host.process.kill()  # its JVM lives a moment longer, beside the next host
                host.process.wait()
            else:
                host.kill()

        self.live(number, then)

    def live_to_the_end(self, number: int) -> None:
        def then(host: SparkHost) -> None:
            eventually(lambda: self.count() >= self.sent, "all rows are there", 3 * BATCH_TIMEOUT_S)

        self.live(number, then)

    def assert_each_row_once(self) -> None:
        found = Counter(row["id"] for row in rows(self.kind, self.lake))
        assert [number for number, count in found.items() if count > 1] == [], "rows twice"
        assert set(range(self.sent)) - set(found) == set(), "rows that are missing"


@pytest.mark.long
def test_a_killed_hosts_rows_are_there_once(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    sink = KilledSink(KafkaCluster(cluster.bootstrap), ICEBERG, unique_name, tmp_path, seed=1)
    sink.live_until_killed(0)
    sink.live_to_the_end(1)
    sink.assert_each_row_once()


@pytest.mark.long
def test_a_host_whose_jvm_is_killed_goes_on_with_another(
    cluster: Cluster, unique_name: str, tmp_path: Path
) -> None:
    sink = KilledSink(KafkaCluster(cluster.bootstrap), DELTA, unique_name, tmp_path, seed=3)
    with spark_host(cluster.bootstrap, tmp_path / "host") as host:
        run = host.start(unique_name, config(DELTA, unique_name, sink.lake))
        for _ in range(2):
            sink.send(100)
            eventually(lambda: sink.count() >= sink.sent, "all rows are there", BATCH_TIMEOUT_S)
            (jvm,) = [pid for pid, command in descendants(host.process.pid).items() if is_jvm(command)]
            os.kill(jvm, signal.SIGKILL)
            assert host.ended(run) is not None
            sink.send(100)
            run = host.start(unique_name, config(DELTA, unique_name, sink.lake))
        eventually(lambda: sink.count() >= sink.sent, "all rows are there", BATCH_TIMEOUT_S)
    sink.assert_each_row_once()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [ICEBERG, DELTA, FILES])
def test_each_row_is_there_once_after_many_kills(
    cluster: Cluster, unique_name: str, tmp_path: Path, kind: str
) -> None:
    sink = KilledSink(KafkaCluster(cluster.bootstrap), kind, unique_name, tmp_path, seed=5)
    kills = 8
    for number in range(kills):
        sink.live_until_killed(number)
    for number in range(kills, kills + 3):
        sink.live_to_the_end(number)
        if sink.count() >= sink.sent:
            break
    sink.assert_each_row_once()
