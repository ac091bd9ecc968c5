"""`ottla balance` over brokers' own metrics: rates and CPU, a first plan within a minute of the start."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from ottla.pipeline.spark.maven import fetch_jars
from support.clients.confluent import consumer
from support.clients.ottla_command import ottla
from support.java.java_tools import jars_of
from support.servers.cluster import free_port
from support.servers.clusters import OTTLA, ClusterPlan, NodeCluster, NodePlan

EXPORTER_LOCK = Path(__file__).parents[2] / "support" / "java" / "jmx-exporter.jars.lock"
NODES = (1, 2, 3)
PARTITIONS = 6
RECORD = b"x" * 10_000
RECORDS_AT_ONCE = 5
PAUSE_S = 0.02
MINUTE_S = 60.0
INTERVAL_S = 3.0
USUAL_RULES = r"""
lowercaseOutputName: true
rules:
- pattern: kafka.server<type=(.+), name=(.+)PerSec\w*, topic=(.+)><>Count
  name: kafka_server_$1_$2_total
  type: COUNTER
  labels:
    topic: "$3"
"""
NO_RULES = "rules:\n- pattern: '.*'\n"


def ports_in_one_decade() -> int:
    """A number that ends in 0; the ports after it are free, one for each node."""
    while True:
        base = free_port()
        if base % 10 == 0 and [free_port() for _ in NODES] == [base + one for one in NODES]:
            return base


def plan(kind: str, base: int, directory: Path) -> ClusterPlan:
    """Nodes with their metrics at base + id. Kafka's exporters have the usual rules, node 2's none."""
    nodes = tuple(
        NodePlan(one, settings={"ottla.metrics.listen": f"127.0.0.1:{base + one}"} if kind == OTTLA else {})
        for one in NODES
    )
    if kind == OTTLA:
        return ClusterPlan(nodes)
    (agent,) = fetch_jars(jars_of(EXPORTER_LOCK))

    def flags(node: int) -> list[str]:
        rules = directory / f"exporter-{node}.yaml"
        rules.write_text(NO_RULES if node == 2 else USUAL_RULES, encoding="utf-8")
        return [f"-javaagent:{agent}=127.0.0.1:{base + node}:{rules}"]

    return ClusterPlan(nodes, java_flags_of=flags)


class Traffic:
    """Writes to all partitions and reads them without a committed offset, for the length of a block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._ended = threading.Event()
        self.sent = 0
        self.read = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=each) for each in (self._write, self._read)]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._ended.set()
            for one in threads:
                one.join(60)

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5})
        number = 0
        while not self._ended.wait(PAUSE_S):
            for _ in range(RECORDS_AT_ONCE):
                number += 1
                producer.produce(self._topic, RECORD, partition=number % PARTITIONS)
            self.sent += RECORDS_AT_ONCE * len(RECORD)
            producer.poll(0)
        producer.flush(30)

    def _read(self) -> None:
        with consumer(self._bootstrap, "unseen") as client:
            client.assign([TopicPartition(self._topic, one, 0) for one in range(PARTITIONS)])
            while not self._ended.is_set():
                for message in client.consume(500, timeout=0.2):
                    self.read += len(message.value() or b"")


def told(cluster: NodeCluster, *words: str) -> dict[str, float]:
    """The loads of all brokers before the plan, added up."""
    run = ottla(cluster.bootstrap, "balance", "plan", "--json", *words)
    assert run.code == 0, run
    (row,) = run.rows
    assert row["problems"] == []
    names = ("leader_in_bytes_per_second", "out_bytes_per_second", "cpu_percent")
    return {name: sum(one["before"][name] for one in row["brokers"]) for name in names}


@pytest.mark.slow
def test_rates_and_cpu_come_from_the_brokers_metrics(
    start_nodes: Callable[[ClusterPlan], AbstractContextManager[NodeCluster]],
    cluster_kind: str,
    unique_name: str,
    tmp_path: Path,
) -> None:
    base = ports_in_one_decade()
    url = f"http://{{host}}:{base // 10}{{id}}/metrics"
    begun = time.monotonic()
    with start_nodes(plan(cluster_kind, base, tmp_path)) as cluster:
        first = told(cluster, "--metrics-url", url, "--interval", "1")
        assert time.monotonic() - begun < MINUTE_S
        assert first["cpu_percent"] > 0 or first["leader_in_bytes_per_second"] == 0
        topic = cluster.create_topic(unique_name, assignments=[[1, 2], [2, 3], [3, 1]] * (PARTITIONS // 3))
        traffic = Traffic(cluster.bootstrap, topic)
        with traffic.running():
            cluster.eventually(lambda: traffic.read > 0, "records are read")
            sent, at = traffic.sent, time.monotonic()
            measured = told(cluster, "--metrics-url", url, "--interval", str(INTERVAL_S))
            rate = (traffic.sent - sent) / (time.monotonic() - at)
            estimated = told(cluster, "--interval", str(INTERVAL_S))
    _fits(measured, estimated, rate)


def _fits(measured: dict[str, float], estimated: dict[str, float], rate: float) -> None:
    """Both tell what is written; the metrics tell the processors, and readers without offsets too."""
    assert rate / 3 < measured["leader_in_bytes_per_second"] < 3 * rate
    assert rate / 3 < estimated["leader_in_bytes_per_second"] < 3 * rate
    assert measured["cpu_percent"] > 0
    assert estimated["cpu_percent"] == 0
    # each has one follower, which copies what is written; only the metrics know of the reader
    followers = measured["leader_in_bytes_per_second"]
    assert measured["out_bytes_per_second"] > followers + rate / 3
    assert estimated["out_bytes_per_second"] < estimated["leader_in_bytes_per_second"] + rate / 3
