"""`ottla balance serve` as a process: Cruise Control's HTTP, executions, self-healing, metrics, its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.clients.confluent import eventually, produce
from support.servers.cluster import free_port
from support.servers.clusters import ClusterPlan, NodeCluster, combined
from support.servers.services import ServiceProcess

ROOT = "/kafkacruisecontrol"
PARTITIONS = 6
WAIT_S = 120.0


@contextmanager
def serving(cluster: NodeCluster, directory: Path, **settings: str) -> Iterator[ServiceProcess]:
    given = {"metric.sampling.interval.ms": "200", **settings}
    bootstrap = cluster.bootstrap
    words = ("balance", "serve")
    with ServiceProcess.start("balance", bootstrap, directory, given, words=words) as service:
        yield service


def ask(service: ServiceProcess, method: str, path: str, expected: int = 200, **query: str) -> dict[str, Any]:
    """The answer to a request, which is asked for again by its task while it takes long."""
    headers: dict[str, str] = {}
    while True:
        answer = httpx.request(
            method,
            f"{service.url}{ROOT}/{path}",
            params={**query, "json": "true"},
            headers=headers,
            timeout=60,
        )
        if answer.status_code != 202:
            assert answer.status_code == expected, answer.text
            return dict(answer.json())
        headers = {"User-Task-ID": answer.headers["User-Task-ID"]}


def executor(service: ServiceProcess) -> str:
    return str(ask(service, "GET", "state", substates="executor")["ExecutorState"]["state"])


@pytest.mark.slow
def test_a_cluster_is_balanced_and_healed_over_http(
    start_nodes: Callable[[ClusterPlan], AbstractContextManager[NodeCluster]], tmp_path: Path
) -> None:
    with start_nodes(ClusterPlan(combined(4))) as cluster:
        topic = cluster.create_topic("orders", assignments=[[1, 2]] * PARTITIONS)
        records = [{"value": b"x" * 10_000, "partition": one} for one in range(PARTITIONS)] * 3
        produce(cluster.bootstrap, topic, records)
        metrics = free_port()
        settings = {
            "self.healing.enabled": "true",
            "broker.failure.self.healing.threshold.ms": "1000",
            "ottla.metrics.listen": f"127.0.0.1:{metrics}",
        }
        with serving(cluster, tmp_path, **settings) as service:
            _tells_how_it_stands(service)
            _refuses_what_can_not_be(service)
            _balances(service, cluster, topic)
            _heals(service, cluster, topic)
            text = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
            assert "ottla_balance_healings_total 1" in text
            assert 'ottla_balance_plans_total{outcome="ok"}' in text
            assert service.server.stop() == 0
        _mends_a_missed_goal(cluster, tmp_path)


def _tells_how_it_stands(service: ServiceProcess) -> None:
    state = ask(service, "GET", "state")
    assert state["MonitorState"]["state"] == "RUNNING"
    healing = state["AnomalyDetectorState"]
    assert healing["selfHealingEnabled"] == ["BROKER_FAILURE", "DISK_FAILURE", "GOAL_VIOLATION"]
    assert healing["recentBrokerFailures"] == []
    switched = ask(service, "POST", "admin", disable_self_healing_for="goal_violation,disk_failure")
    assert switched["selfHealingEnabledBefore"] == {"GOAL_VIOLATION": True, "DISK_FAILURE": True}
    healing = ask(service, "GET", "state", substates="anomaly_detector")["AnomalyDetectorState"]
    assert healing["selfHealingEnabled"] == ["BROKER_FAILURE"]
    load = ask(service, "GET", "load")
    by_id = {row["Broker"]: row for row in load["brokers"]}
    assert sorted(by_id) == [1, 2, 3, 4]
    assert by_id[1]["Replicas"] >= PARTITIONS
    assert by_id[1]["DiskMB"] > 0
    assert {row["BrokerState"] for row in load["brokers"]} == {"ALIVE"}
    size = ask(service, "POST", "rightsize")
    assert size["provisionStatus"] in ("OVER_PROVISIONED", "RIGHT_SIZED")


def _refuses_what_can_not_be(service: ServiceProcess) -> None:
    for path, query in (
        ("add_broker", {}),
        ("remove_broker", {"brokerid": "one"}),
        ("rebalance", {"dryrun": "perhaps"}),
    ):
        assert ask(service, "POST", path, 400, **query)["errorMessage"]
    # a parameter that is not known might say what is not to move
    refused = ask(service, "POST", "rebalance", 400, dryrun="false", kafka_assigner="true")
    assert "takes no parameter kafka_assigner" in refused["errorMessage"]
    assert "no broker 77" in ask(service, "POST", "remove_broker", 500, brokerid="77")["errorMessage"]
    unknown = httpx.post(f"{service.url}{ROOT}/rebalance", headers={"User-Task-ID": "none"})
    assert unknown.status_code == 400
    assert httpx.get(f"{service.url}{ROOT}/rebalance").status_code == 405


def _balances(service: ServiceProcess, cluster: NodeCluster, topic: str) -> None:
    """A dry run changes nothing, which is the default."""
    proposals = ask(service, "GET", "proposals", verbose="true")
    moved = [one for one in proposals["proposals"] if one["topicPartition"]["topic"] == topic]
    assert moved
    assert ask(service, "POST", "rebalance")["summary"]["numReplicaMovements"] > 0
    assert list(cluster.partition(topic, 0).replica_nodes) == [1, 2]
    eventually(lambda: executor(service) == "NO_TASK_IN_PROGRESS", "no execution is under way", WAIT_S)
    found = ask(service, "POST", "rebalance", dryrun="false")
    assert any(one["status"] == "FIXED" for one in found["goalSummary"])
    eventually(lambda: executor(service) == "NO_TASK_IN_PROGRESS", "no execution is under way", WAIT_S)
    holders = {broker for one in range(PARTITIONS) for broker in cluster.partition(topic, one).replica_nodes}
    assert holders >= {3, 4}
    tasks = ask(service, "GET", "user_tasks")["userTasks"]
    assert any("dryrun=false" in one["RequestURL"] and one["Status"] == "Completed" for one in tasks)
    stopped = ask(service, "POST", "stop_proposal_execution")
    assert stopped["message"] == "There was no ongoing proposal execution."


def _heals(service: ServiceProcess, cluster: NodeCluster, topic: str) -> None:
    cluster.kill(4)
    cluster.wait_until_fenced(4)

    def is_mended() -> bool:
        found = [cluster.partition(topic, one, of=1) for one in range(PARTITIONS)]
        return all(4 not in one.replica_nodes for one in found)

    eventually(is_mended, "the dead broker holds nothing", WAIT_S)
    eventually(lambda: executor(service) == "NO_TASK_IN_PROGRESS", "no execution is under way", WAIT_S)
    healing = ask(service, "GET", "state", substates="anomaly_detector")["AnomalyDetectorState"]
    failures = healing["recentBrokerFailures"]
    assert failures[-1]["failedBrokersByTimeMs"].keys() == {"4"}
    assert failures[-1]["status"] == "FIX_STARTED"


def _mends_a_missed_goal(cluster: NodeCluster, directory: Path) -> None:
    """Brokers 1 and 2 get all of a topic: what is watched is mended, once it was missed twice."""
    late = cluster.create_topic("late", assignments=[[1, 2]] * 6 * PARTITIONS)
    settings = {
        "self.healing.goal.violation.enabled": "true",
        "anomaly.detection.goals": "ReplicaDistributionGoal",
        "goal.violation.detection.interval.ms": "1000",
        "ottla.balance.goal.violation.cooldown.ms": "0",
    }
    (directory / "goals").mkdir()
    with serving(cluster, directory / "goals", **settings) as service:

        def is_even() -> bool:
            held = [one for each in range(6 * PARTITIONS) for one in _holders(cluster, late, each)]
            return held.count(3) >= PARTITIONS

        eventually(is_even, "broker 3 has its share", WAIT_S)
        healing = ask(service, "GET", "state", substates="anomaly_detector")["AnomalyDetectorState"]
        assert healing["selfHealingEnabled"] == ["GOAL_VIOLATION"]
        violations = healing["recentGoalViolations"]
        assert violations[0]["fixableViolatedGoals"] == ["ReplicaDistributionGoal"]
        assert healing["metrics"]["numSelfHealingStarted"] >= 1


def _holders(cluster: NodeCluster, topic: str, partition: int) -> list[int]:
    return list(cluster.partition(topic, partition, of=1).replica_nodes)
