"""The JDBC sink on Spark whose host is killed at random moments: each record is in the table once."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from ottla.client.cluster import KafkaCluster, Topic
from ottla.connect.host.messages import Ended, Running
from support.clients.confluent import eventually, produce
from support.connect.spark_host import BATCH_TIMEOUT_S, START_TIMEOUT_S, SparkHost, spark_host
from support.servers.cluster import Cluster
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.system("psql", "postgresql")]
PARTITIONS = 3
KILLS = 3


@contextmanager
def empty_database() -> Iterator[str]:
    """The URL of an empty PostgreSQL."""
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with postgresql(programs) as url:
        yield url


class KilledSink:
    """A sink over several lives of its host."""

    def __init__(self, kafka: KafkaCluster, topic: str, url: str, directory: Path, seed: int) -> None:
        self.kafka, self.topic, self.url = kafka, topic, url
        self.directory, self.chance = directory, random.Random(seed)
        self.sent = 0
        kafka.ensure_topics([Topic(topic, PARTITIONS)])

    @property
    def config(self) -> dict[str, str]:
        """Of a connector that inserts: a record that is written twice is two rows."""
        return {
            "connector.class": "ottla.connect.spark.SparkJdbcSinkConnector",
            "topics": self.topic,
            "tasks.max": "2",
            "ottla.batch.max.records": "400",
            "value.schema": "id INT, text STRING",
            "connection.url": f"jdbc:{self.url.replace('ottla@', '')}",
            "connection.user": "ottla",
            "auto.create": "true",
            "table.name.format": "rows",
        }

    def send(self, most: int) -> None:
        count = self.chance.randint(1, most)
        values = [{"id": self.sent + at, "text": 'a,"b\n'} for at in range(count)]
        records = [
            {"value": json.dumps(each).encode(), "partition": self.chance.randrange(PARTITIONS)}
            for each in values
        ]
        produce(self.kafka.bootstrap, self.topic, records)
        self.sent += count

    def ids(self) -> Counter[int]:
        """The ids in the table, and how often each is there."""
        with psycopg.connect(self.url) as connection:
            if connection.execute("SELECT to_regclass('rows')").fetchone() == (None,):
                return Counter()
            return Counter(id for (id,) in connection.execute("SELECT id FROM rows"))

    def stages(self) -> int:
        """How many stages there are."""
        text = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'ottla_stage%'"
        with psycopg.connect(self.url) as connection:
            (found,) = connection.execute(text).fetchall()
        return int(found[0])

    def live(self, number: int, *, killed: bool) -> None:
        """A life of the host in which the sink runs: until it is killed, or to the end."""
        with spark_host(self.kafka.bootstrap, self.directory / f"host-{number}") as host:
            run = host.begin(self.topic, self.config)
            self.send(2000)
            begun = host.wait_for(run, (Running, Ended), START_TIMEOUT_S)
            # a JVM that outlived its host may have committed between: this run is refused, the next goes on
            if isinstance(begun, Ended):
                assert begun.trace is not None and "another run" in begun.trace, begun.trace
                return
            if killed:
                self._kill(host)
                return
            eventually(lambda: self.ids().total() >= self.sent, "all rows are there", 4 * BATCH_TIMEOUT_S)
            assert host.stop(run) is None

    def _kill(self, host: SparkHost) -> None:
        before = self.ids().total()
        self.send(2000)
        if self.chance.random() < 0.8:
            eventually(lambda: self.ids().total() > before, "a batch is there", 2 * BATCH_TIMEOUT_S)
        self.send(2000)
        threading.Event().wait(self.chance.random() * 1.5)  # a moment of any step of a batch
        if self.chance.random() < 0.5:
            host.process.kill()  # its JVM lives a moment longer, beside the next host
            host.process.wait()
        else:
            host.kill()


@pytest.mark.timeout(1800)
def test_each_row_is_there_once_after_many_kills(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    with empty_database() as url:
        sink = KilledSink(
            KafkaCluster(cluster.bootstrap), unique_name, url, tmp_path, random.randrange(1 << 30)
        )
        for number in range(KILLS):
            sink.live(number, killed=True)
        for number in range(KILLS, KILLS + 3):
            sink.live(number, killed=False)
            if sink.ids().total() >= sink.sent:
                break
        assert sink.ids() == Counter(range(sink.sent))
        assert sink.stages() == 0
