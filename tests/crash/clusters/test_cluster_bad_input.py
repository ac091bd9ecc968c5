"""Nodes that do not belong, a quorum without a majority: clear errors, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.errors import ErrorCode
from support.clients.cluster_wire import list_offset, produce_to_leader
from support.clients.confluent import read_all
from support.clients.wire import batch
from support.servers.clusters import (
    APACHE_KAFKA,
    BROKER,
    ClusterNode,
    ClusterPlan,
    NodeCluster,
    NodePlan,
    combined,
    prepare_cluster,
    separate,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]

NODES = [1, 2, 3]
StartNodes = Callable[[ClusterPlan], AbstractContextManager[NodeCluster]]


def stranger(cluster: NodeCluster, directory: Path, node_id: int) -> ClusterNode:
    """A broker of its own directory that is told to join the cluster's quorum."""
    plan = ClusterPlan(
        (NodePlan(node_id, (BROKER,)),),
        {
            "controller.quorum.voters": ",".join(
                f"{node.node_id}@{node.controller_bootstrap}" for node in cluster.controllers
            ),
            "initial.broker.registration.timeout.ms": "6000",
        },
    )
    return prepare_cluster(cluster.name, directory, plan).nodes[node_id]


def change_cluster_id(node: ClusterNode, cluster_id: str) -> None:
    """Make the node's directory one of another cluster."""
    path = node.log_directory / "meta.properties"
    lines = [
        f"cluster.id={cluster_id}" if line.startswith("cluster.id=") else line
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def still_serves(cluster: NodeCluster, topic: str, end: int) -> None:
    """The cluster's own nodes go on as if nothing were."""
    assert produce_to_leader(cluster, topic, 0, batch(1)).base_offset == end
    assert {each.node_id for each in cluster.metadata("").brokers} == set(NODES)
    assert all(node.running for node in cluster.nodes.values())


def test_a_broker_of_another_cluster_stays_out(
    start_nodes: StartNodes, unique_name: str, tmp_path: Path
) -> None:
    with start_nodes(ClusterPlan(separate(1, 3))) as cluster:
        topic = cluster.create_topic(unique_name)
        assert produce_to_leader(cluster, topic, 0, batch(5)).error_code == ErrorCode.NONE
        foreign = stranger(cluster, tmp_path / "foreign", 7)
        foreign.log_directory.mkdir(exist_ok=True)
        if cluster.name != APACHE_KAFKA:
            (foreign.log_directory / "meta.properties").write_text(
                "version=1\ncluster.id=x\nnode.id=7\ndirectory.id=AAAAAAAAAAAAAAAAAAAABw\n"
            )
        change_cluster_id(foreign, "AAAAAAAAAAAAAAAAAAAAAA")
        # when
        foreign.server.launch()
        # then: it ends by itself and says why
        try:
            cluster.eventually(lambda: not foreign.running, "the stranger has given up", 90)
            said = foreign.log_text()
        finally:
            foreign.server.kill()
        assert "INCONSISTENT_CLUSTER_ID" in said or "cluster" in said.lower()
        still_serves(cluster, topic, 5)


def test_a_second_broker_of_one_id_stays_out(
    start_nodes: StartNodes, unique_name: str, tmp_path: Path
) -> None:
    with start_nodes(ClusterPlan(separate(1, 3))) as cluster:
        topic = cluster.create_topic(unique_name)
        assert produce_to_leader(cluster, topic, 0, batch(5)).error_code == ErrorCode.NONE
        cluster_id = cluster.metadata("").cluster_id
        double = stranger(cluster, tmp_path / "double", 3)
        if cluster.name == APACHE_KAFKA:
            change_cluster_id(double, cluster_id)
        # when
        double.server.launch()
        # then
        try:
            cluster.eventually(lambda: not double.running, "the second one has given up", 90)
            said = double.log_text()
        finally:
            double.server.kill()
        if cluster.name != APACHE_KAFKA:
            # one clear line that says what to do
            assert "ottla broker: " in said
        still_serves(cluster, topic, 5)
        assert cluster.partition(topic).leader_id in NODES


def test_without_a_majority_nothing_changes_and_nothing_is_lost(
    start_nodes: StartNodes, unique_name: str
) -> None:
    with start_nodes(ClusterPlan(combined(3), {"min.insync.replicas": "2"})) as cluster:
        topic = cluster.create_topic(unique_name, assignments=[[1, 2, 3]])
        alone = cluster.create_topic(
            f"{unique_name}-alone", assignments=[[1]], config={"min.insync.replicas": "1"}
        )
        assert produce_to_leader(cluster, topic, 0, batch(5)).error_code == ErrorCode.NONE
        assert produce_to_leader(cluster, alone, 0, batch(5)).error_code == ErrorCode.NONE
        # when
        cluster.kill(2)
        cluster.kill(3)
        # then: no change is made, and the client is told
        admin = AdminClient({"bootstrap.servers": cluster.nodes[1].bootstrap, "log_level": 0})
        created = admin.create_topics([NewTopic("never", 1, 1)], request_timeout=5, operation_timeout=4)
        with pytest.raises(KafkaException) as refused:
            created["never"].result(30)
        assert refused.value.args[0].retriable() or "imed out" in str(refused.value)
        assert "never" not in {each.name for each in cluster.metadata(of=1).topics}
        # the node serves what it has
        with cluster.wire(1) as client:
            assert list_offset(client, alone).offset == 5
            assert client.produce(alone, 0, batch(2)).base_offset == 5
        assert len(read_all(cluster.nodes[1].bootstrap, alone, 7)) == 7
        # when: a majority is back
        cluster.start(2)
        cluster.eventually(lambda: cluster.quorum(of=2).leader_id > 0, "a controller")
        assert cluster.create_topic(f"{unique_name}-later", 1, 1)
        # then
        cluster.heal()
        assert produce_to_leader(cluster, topic, 0, batch(1)).base_offset == 5
        assert len(read_all(cluster.bootstrap, topic, 6)) == 6


def test_a_node_that_waits_for_its_majority_says_so_and_can_be_stopped(start_nodes: StartNodes) -> None:
    plan = ClusterPlan(combined(3), start_now=())
    with start_nodes(plan) as cluster:
        # when: one of three starts
        cluster.launch(1)
        cluster.eventually(lambda: cluster.nodes[1].log_text() != "", "it says something")
        # then: SIGTERM ends it
        cluster.nodes[1].server.stop()
        # and with another it is a cluster, which the third joins later
        cluster.start(1, 2)
        cluster.wait_until_unfenced(1, 2)
        cluster.start(3)
        cluster.wait_until_unfenced(1, 2, 3)
