"""The metrics of three nodes when replicas, leaders and a majority go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients.cluster_wire import produce_to_leader
from support.clients.scrapes import Scrape, ask_health
from support.clients.wire import batch
from support.servers.cluster import free_port
from support.servers.clusters import OTTLA, ClusterPlan, NodeCluster, NodePlan, start_cluster

pytestmark = pytest.mark.slow

CONTROLLER = "kafka_controller_kafkacontroller"
REPLICAS = "kafka_server_replicamanager"


class Cluster:
    """The nodes, and their scrapes."""

    def __init__(self, nodes: NodeCluster, ports: dict[int, int]) -> None:
        self.nodes = nodes
        self.ports = ports

    def scrape(self, node_id: int) -> Scrape:
        return Scrape.take(self.ports[node_id])

    def sum(self, name: str) -> float:
        """The sum of a metric without labels over the nodes that run."""
        return sum(self.scrape(each).value(name) for each in self.running)

    @property
    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.nodes.items() if node.running]


@pytest.fixture(autouse=True)
def healed(measured: Cluster) -> Iterator[None]:
    """A test finds all nodes there, whatever an earlier one has broken."""
    yield
    measured.nodes.heal()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    ports = {node_id: free_port() for node_id in (1, 2, 3)}
    plans = tuple(
        NodePlan(node_id, settings={"ottla.metrics.listen": f"127.0.0.1:{port}"})
        for node_id, port in ports.items()
    )
    # A leader notices a lagging follower before the controller takes its broker for dead.
    settings = {"replica.lag.time.max.ms": "1000", "broker.session.timeout.ms": "6000"}
    directory: Path = tmp_path_factory.mktemp("cluster")
    with start_cluster(OTTLA, directory, ClusterPlan(plans, settings)) as nodes:
        yield Cluster(nodes, ports)


def test_a_follower_that_is_lost_and_comes_back_is_seen(measured: Cluster, unique_name: str) -> None:
    nodes = measured.nodes
    topic = nodes.create_topic(
        unique_name, assignments=[[1, 2, 3], [1, 3, 2]], config={"min.insync.replicas": "2"}
    )
    records = batch(10, b"x" * 100)
    for index in range(2):
        produce_to_leader(nodes, topic, index, records)
    whole = measured.scrape(1)
    assert measured.sum(f"{CONTROLLER}_activecontrollercount") == 1
    assert whole.value(f"{CONTROLLER}_activebrokercount") == 3
    assert whole.value(f"{REPLICAS}_underreplicatedpartitions") == 0
    assert whole.value("kafka_cluster_partition_insyncreplicascount", topic=topic, partition=0) == 3
    partitions = sum(len(each.partitions) for each in nodes.metadata().topics)
    assert measured.sum(f"{REPLICAS}_leadercount") == partitions
    assert whole.value(f"{CONTROLLER}_globalpartitioncount") == partitions
    copied = "kafka_server_brokertopicmetrics_replicationbytes"
    assert whole.value(f"{copied}out_total") == 4 * len(records)
    assert measured.sum(f"{copied}in_total") == 4 * len(records)
    assert whole.value("kafka_network_requestmetrics_requests_total", request="FetchFollower", version=18) > 0
    # when
    nodes.kill(3)
    for index in range(2):  # a follower that lacks nothing is in sync for as long as nothing comes
        produce_to_leader(nodes, topic, index, records)
    nodes.wait_for_isr(topic, 0, [1, 2])
    nodes.wait_for_isr(topic, 1, [1, 2])
    # then
    short = measured.scrape(1)
    assert short.value(f"{REPLICAS}_underreplicatedpartitions") == 2
    assert short.value(f"{REPLICAS}_atminisrpartitioncount") == 2
    assert short.value(f"{REPLICAS}_underminisrpartitioncount") == 0
    assert short.value(f"{REPLICAS}_isrshrinks_total") - whole.value(f"{REPLICAS}_isrshrinks_total") == 2
    for index in range(2):
        labels = {"topic": topic, "partition": index}
        assert short.value("kafka_cluster_partition_underreplicated", **labels) == 1
        assert short.value("kafka_cluster_partition_replicascount", **labels) == 3
        assert short.value("kafka_cluster_partition_insyncreplicascount", **labels) == 2
    nodes.wait_until_fenced(3)
    nodes.eventually(
        lambda: all(measured.scrape(each).value(f"{CONTROLLER}_fencedbrokercount") == 1 for each in (1, 2)),
        "the controllers count a fenced broker",
    )
    # when
    nodes.heal()
    # then
    healed = measured.scrape(1)
    assert healed.value(f"{REPLICAS}_underreplicatedpartitions") == 0
    assert healed.value(f"{REPLICAS}_isrexpands_total") - short.value(f"{REPLICAS}_isrexpands_total") == 2


def test_partitions_without_a_leader_are_offline(measured: Cluster, unique_name: str) -> None:
    nodes = measured.nodes
    nodes.create_topic(unique_name, assignments=[[3], [1]])
    metric = f"{CONTROLLER}_offlinepartitionscount"
    assert measured.scrape(1).value(metric) == 0
    nodes.kill(3)
    nodes.eventually(lambda: measured.scrape(1).value(metric) == 1, "one partition is offline")
    assert measured.scrape(2).value(metric) == 1
    nodes.heal()
    nodes.eventually(lambda: measured.scrape(1).value(metric) == 0, "no partition is offline")


def test_the_quorum_is_told_by_every_node_alike(measured: Cluster) -> None:
    nodes = measured.nodes
    leader = nodes.active_controller()
    for node_id in (1, 2, 3):
        scrape = measured.scrape(node_id)
        role = "leader" if node_id == leader else "follower"
        raft = "kafka_server_raftmetrics"
        assert scrape.value(f"{raft}_current_state", current_state=role) == 1
        assert scrape.value(f"{raft}_current_leader") == leader
        assert scrape.value(f"{raft}_number_of_voters") == 3
        assert scrape.value(f"{raft}_high_watermark") > 0
        voters = [labels["replica"] for labels, _ in scrape.of("ottla_quorum_replica_lag")]
        channel = "kafka_server_raftchannelmetrics"
        if node_id != leader:  # it has asked the leader for the metadata that it has
            assert scrape.value(f"{channel}_incoming_byte_total") > scrape.value(f"{raft}_log_end_offset")
            assert scrape.value(f"{channel}_outgoing_byte_total") > 10 * scrape.value(
                f"{channel}_response_total"
            )
        others = [str(each) for each in (1, 2, 3) if each != leader]
        assert sorted(voters) == (others if node_id == leader else [])
    told = {measured.scrape(node_id).value("kafka_server_raftmetrics_current_epoch") for node_id in (1, 2, 3)}
    assert told == {nodes.quorum().leader_epoch}


def test_a_node_without_a_majority_is_alive_and_not_ready_and_says_why(measured: Cluster) -> None:
    nodes = measured.nodes
    assert ask_health(measured.ports[1])[0] == 200
    nodes.kill(2)
    nodes.kill(3)

    def told() -> bool:
        status, answer = ask_health(measured.ports[1])
        reasons = {each["name"]: each["reason"] for each in answer["checks"] if each["state"] == "failed"}
        return status == 503 and "leader of the metadata quorum" in reasons.get("metadata-quorum", "")

    nodes.eventually(told, "node 1 says that no leader answers")
    assert ask_health(measured.ports[1], "/healthz")[0] == 200
    nodes.heal()
    nodes.eventually(lambda: ask_health(measured.ports[1])[0] == 200, "node 1 is ready again")
