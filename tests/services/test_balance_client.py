"""`ottla balance serve` to Cruise Control's own client, cccli: each request that both know."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.clients.confluent import eventually, produce
from support.servers.clusters import ClusterPlan, NodeCluster, combined
from support.servers.services import ServiceProcess

CLIENT = "cruisecontrolclient.client.cccli"
PARTITIONS = 6
WAIT_S = 120.0
BLOCKS_SECONDS = 10
"""For so long the service keeps a request waiting before it says that its work goes on."""


class Client:
    """cccli in a process of its own for each request."""

    def __init__(self, service: ServiceProcess) -> None:
        self._address = service.url.removeprefix("http://")

    def text(self, *words: str) -> str:
        """What it writes; it must write no warning of what it does not understand."""
        command = [sys.executable, "-W", "error::UserWarning", "-m", CLIENT, "-a", self._address, *words]
        run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        assert run.returncode == 0, (words, run.stdout, run.stderr)
        return run.stdout

    def json(self, *words: str) -> dict[str, Any]:
        """The JSON that it writes."""
        return dict(json.loads(self.text(*words, "--json", "true")))

    def is_idle(self) -> bool:
        """Whether nothing is carried out."""
        state = self.json("state", "--substates", "executor")["ExecutorState"]["state"]
        return bool(state == "NO_TASK_IN_PROGRESS")


@contextmanager
def serving(cluster: NodeCluster, directory: Path, interval_ms: int) -> Iterator[Client]:
    given = {"metric.sampling.interval.ms": str(interval_ms)}
    words = ("balance", "serve")
    directory.mkdir()
    with ServiceProcess.start("balance", cluster.bootstrap, directory, given, words=words) as service:
        yield Client(service)


@pytest.mark.slow
def test_cruise_controls_client_is_understood(
    start_nodes: Callable[[ClusterPlan], AbstractContextManager[NodeCluster]], tmp_path: Path
) -> None:
    with start_nodes(ClusterPlan(combined(4))) as cluster:
        orders = cluster.create_topic("orders", assignments=[[1, 2]] * PARTITIONS)
        clicks = cluster.create_topic("clicks", assignments=[[1, 2]] * PARTITIONS)
        for topic in (orders, clicks):
            records = [{"value": b"x" * 10_000, "partition": one} for one in range(PARTITIONS)] * 3
            produce(cluster.bootstrap, topic, records)
        with serving(cluster, tmp_path / "quick", 200) as client:
            eventually(client.is_idle, "the journal is read", WAIT_S)
            _tells_the_loads(client)
            _plans_within_its_scope(client, cluster)
            _changes_the_number_of_replicas(client, cluster)
            _removes_a_broker_for_good(client, cluster)
            _refuses_what_it_does_not_know(client)
        with serving(cluster, tmp_path / "slow", (BLOCKS_SECONDS + 1) * 1_000) as client:
            assert "proposals" in client.json("proposals", "--verbose", "true")
            tasks = client.json("user_tasks", "--endpoint", "proposals")["userTasks"]
            assert [one["Status"] for one in tasks] == ["Completed"]


def _tells_the_loads(client: Client) -> None:
    load = client.json("load")
    assert sorted(one["Broker"] for one in load["brokers"]) == [1, 2, 3, 4]
    lines = client.text("load").splitlines()
    head = next(one for one in lines if "HOST" in one)
    assert head.split()[:4] == ["HOST", "BROKER", "RACK", "DISK_CAP(MB)"]
    rows = [one.split(",") for one in lines if one.count(",") > 10]
    assert sorted(int(one[1]) for one in rows) == [1, 2, 3, 4]
    assert {len(one) for one in rows} == {14}

    records = client.json("partition_load", "--topic", "orders|clicks", "--number-of-entries-to-show", "3")[
        "records"
    ]
    assert len(records) == 3
    assert records[0].keys() == {
        *("topic", "partition", "leader", "followers"),
        *("cpu", "disk", "networkInbound", "networkOutbound", "msg_in"),
    }
    assert records[0]["disk"] >= records[2]["disk"] > 0
    assert (records[0]["leader"], records[0]["followers"]) == (1, [2])
    assert client.text("partition_load").split()[:3] == ["PARTITION", "LEADER", "FOLLOWERS"]

    state = client.json("kafka_cluster_state", "--verbose", "true", "--topic", "orders")
    brokers = state["KafkaBrokerState"]
    assert brokers["ReplicaCountByBrokerId"]["1"] >= 2 * PARTITIONS
    assert brokers["Summary"]["Brokers"] == 4
    assert sum(brokers["IsController"].values()) == 1
    assert all(len(one) == 1 for one in brokers["OnlineLogDirsByBrokerId"].values())
    assert len(state["KafkaPartitionState"]["other"]) == PARTITIONS
    assert state["KafkaPartitionState"]["urp"] == []
    assert "Summary: The cluster has 4 brokers" in client.text("kafka_cluster_state")
    assert "USER TASK ID" in client.text("user_tasks")


def _plans_within_its_scope(client: Client, cluster: NodeCluster) -> None:
    found = client.json("rebalance", "-n", "--excluded-topics", "clicks", "--verbose", "true")
    assert found["summary"]["excludedTopics"] == ["clicks"]
    moved = {one["topicPartition"]["topic"] for one in found["proposals"]}
    assert "orders" in moved
    assert "clicks" not in moved
    goals = ["--goals", "DiskUsageDistributionGoal", "--skip-hard-goal-check", "true"]
    found = client.json("rebalance", "-n", *goals, "--destination-broker", "4", "--verbose", "true")
    assert [one["goal"] for one in found["goalSummary"]] == ["DiskUsageDistributionGoal"]
    new = {
        broker for one in found["proposals"] for broker in set(one["newReplicas"]) - set(one["oldReplicas"])
    }
    assert new <= {4}
    assert list(cluster.partition("orders", 0).replica_nodes) == [1, 2]
    client.json("rebalance", "--concurrency", "2", "--stop-ongoing-execution", "true")
    eventually(client.is_idle, "the plan is carried out", WAIT_S)
    assert {3, 4} <= _holders(cluster, "orders") | _holders(cluster, "clicks")


def _holders(cluster: NodeCluster, topic: str) -> set[int]:
    return {broker for one in range(PARTITIONS) for broker in cluster.partition(topic, one).replica_nodes}


def _changes_the_number_of_replicas(client: Client, cluster: NodeCluster) -> None:
    for factor in (3, 1):
        client.json("topic_configuration", "--topic", "clic.*", "--replication-factor", str(factor))
        eventually(client.is_idle, f"there are {factor} replicas", WAIT_S)
        for one in range(PARTITIONS):
            assert len(cluster.partition("clicks", one).replica_nodes) == factor
            assert len(cluster.partition("orders", one).replica_nodes) == 2


def _removes_a_broker_for_good(client: Client, cluster: NodeCluster) -> None:
    """Plans give a broker that was removed nothing back, unless they are told to."""
    client.json("remove_broker", "4")
    eventually(client.is_idle, "the broker holds nothing", WAIT_S)
    assert 4 not in _holders(cluster, "orders")
    found = client.json("rebalance", "-n", "--verbose", "true")
    assert found["summary"]["excludedBrokersForReplicaMove"] == [4]
    assert not any(4 in one["newReplicas"] for one in found["proposals"])
    assert "removed: []" in client.text("admin", "--drop-recently-removed-broker", "4")
    assert any(4 in one["newReplicas"] for one in client.json("proposals", "--verbose", "true")["proposals"])
    found = client.json("add_broker", "-n", "4", "--verbose", "true")
    assert any(4 in one["newReplicas"] for one in found["proposals"])


def _refuses_what_it_does_not_know(client: Client) -> None:
    refused = client.json("rebalance", "-n", "--strategies", "PostponeUrpReplicaMovementStrategy")
    assert "takes no parameter replica_movement_strategies" in refused["errorMessage"]
    assert (
        "hard goals are missing"
        in client.json("rebalance", "-n", "--goals", "CpuCapacityGoal")["errorMessage"]
    )
    assert "there is no goal" in client.json("proposals", "--goals", "NoGoal")["errorMessage"]
