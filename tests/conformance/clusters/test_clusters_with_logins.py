"""Clusters whose nodes log in to each other: a node is killed, and Apache Kafka's nodes are among ottla's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support.servers.apache_kafka import CLUSTER_ID
from support.servers.clusters import (
    APACHE_KAFKA,
    ClusterPlan,
    NodeCluster,
    NodePlan,
    combined,
    end_cluster,
    prepare_cluster,
)

TIMEOUT_S = 60
TOPIC = "orders"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN = f'{MODULE} required username="node" password="secret" user_node="secret" user_alice="alice-secret";'
SCRAM_LOGIN = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="node" password="secret";'
)
#: Both listeners ask for a login, whatever their names say.
COMMON = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    # Kafka's brokers speak plaintext to each other otherwise, whatever the map says of the listener.
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
    "listener.name.controller.plain.sasl.jaas.config": LOGIN,
    "connections.max.reauth.ms": "5000",
}
SCRAM = {
    **COMMON,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
    "listener.name.controller.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
    "ottla.format.add.scram": "SCRAM-SHA-256=[name=node,password=secret]",
}


@contextmanager
def started(
    directory: Path,
    nodes: tuple[NodePlan, ...],
    settings: Mapping[str, str],
    cluster_id: str | None = None,
) -> Iterator[NodeCluster]:
    """A cluster whose requests need a login, so that the test's own wire clients can't look after it."""
    cluster = prepare_cluster("ottla", directory, ClusterPlan(nodes, settings, cluster_id=cluster_id))
    try:
        cluster.start(*cluster.nodes)
        yield cluster
    finally:
        end_cluster(cluster)


def access(cluster: NodeCluster) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(node.bootstrap for node in cluster.nodes.values()),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }


def leader_of(cluster: NodeCluster) -> int:
    metadata = AdminClient(access(cluster)).list_topics(TOPIC, timeout=TIMEOUT_S)
    return metadata.topics[TOPIC].partitions[0].leader


def until_in_sync(cluster: NodeCluster, nodes: set[int]) -> None:
    admin = AdminClient(access(cluster))

    def in_sync() -> bool:
        partition = admin.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions[0]
        return set(partition.isrs) == nodes

    cluster.eventually(in_sync, f"replicas {nodes} in sync", TIMEOUT_S)


def create_topic(cluster: NodeCluster) -> None:
    admin = AdminClient(access(cluster))
    admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(TIMEOUT_S)
    until_in_sync(cluster, set(cluster.nodes))


def produced(producer: confluent_kafka.Producer, numbers: range) -> list[int]:
    """The numbers that were acknowledged: all of them, whatever dies meanwhile."""
    acknowledged: list[int] = []

    def delivered(number: int, error: confluent_kafka.KafkaError | None) -> None:
        assert error is None, error
        acknowledged.append(number)

    for number in numbers:
        producer.produce(
            TOPIC, str(number), on_delivery=lambda error, _, number=number: delivered(number, error)
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return acknowledged


def consumed(cluster: NodeCluster, count: int) -> list[int]:
    consumer = confluent_kafka.Consumer({**access(cluster), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        found.append(int(message.value() or b""))
    consumer.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [pytest.param(COMMON, marks=pytest.mark.long), SCRAM], ids=["plain", "scram"]
)
def test_a_killed_leader_costs_nothing_that_was_acknowledged(
    tmp_path: Path, settings: Mapping[str, str]
) -> None:
    with started(tmp_path, combined(3), settings) as cluster:
        create_topic(cluster)
        producer = confluent_kafka.Producer({**access(cluster), "acks": "all", "enable.idempotence": True})
        acknowledged = produced(producer, range(500))
        victim = leader_of(cluster)
        cluster.kill(victim)
        acknowledged += produced(producer, range(500, 1000))
        cluster.start(victim)
        until_in_sync(cluster, {1, 2, 3})
        acknowledged += produced(producer, range(1000, 1200))
        assert consumed(cluster, 1200) == acknowledged == list(range(1200))
        assert "secret" not in cluster.log_tails(lines=10_000)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.timeout(300)
def test_nodes_of_ottla_and_apache_kafka_log_in_to_each_other(tmp_path: Path) -> None:
    nodes = (NodePlan(1), NodePlan(2, kind=APACHE_KAFKA), NodePlan(3))
    with started(tmp_path, nodes, COMMON, CLUSTER_ID) as cluster:
        create_topic(cluster)
        producer = confluent_kafka.Producer({**access(cluster), "acks": "all", "enable.idempotence": True})
        acknowledged = produced(producer, range(300))
        cluster.kill(2)
        acknowledged += produced(producer, range(300, 600))
        cluster.start(2)
        until_in_sync(cluster, {1, 2, 3})
        cluster.kill(1)
        acknowledged += produced(producer, range(600, 900))
        cluster.start(1)
        until_in_sync(cluster, {1, 2, 3})
        assert consumed(cluster, 900) == acknowledged == list(range(900))
