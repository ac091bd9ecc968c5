"""`ottla quorum` and `ottla partition` on a cluster; the same words work on Apache Kafka's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.servers.clusters import NodeCluster

TIMEOUT_S = 60


def ottla(cluster: NodeCluster, *words: str) -> Any:
    """The JSON that a command writes."""
    run = subprocess.run(
        [sys.executable, "-m", "ottla", *words, "--bootstrap", cluster.bootstrap, "--json"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run
    return json.loads(run.stdout)


def problem(cluster: NodeCluster, *words: str) -> str:
    """The line that a command fails with."""
    run = subprocess.run(
        [sys.executable, "-m", "ottla", *words, "--bootstrap", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, ""), run
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"ottla {words[0]} {words[1]}: ")
    return line


def test_the_quorums_state(three_nodes: NodeCluster) -> None:
    status = ottla(three_nodes, "quorum", "status")
    assert sorted(row["node"] for row in status["nodes"]) == [1, 2, 3]
    assert sorted(row["role"] for row in status["nodes"]) == ["leader", "voter", "voter"]
    (leader,) = (row for row in status["nodes"] if row["role"] == "leader")
    assert (leader["node"], leader["lag"]) == (status["leader"], 0)
    assert "node 9 is no voter: these are 1, 2, 3" in problem(three_nodes, "quorum", "remove", "--node", "9")


def test_nodes_that_are_gone_are_forgotten(three_nodes: NodeCluster) -> None:
    leader = ottla(three_nodes, "quorum", "status")["leader"]
    unregister = ("quorum", "unregister")
    assert "broker 9: BROKER_ID_NOT_REGISTERED" in problem(three_nodes, *unregister, "--broker", "9")
    assert "controller 9: CONTROLLER_ID_NOT_REGISTERED" in problem(
        three_nodes, *unregister, "--controller", "9"
    )
    active = f"controller {leader}: INVALID_REQUEST: Controller cannot unregister itself while it is active."
    assert active in problem(three_nodes, *unregister, "--controller", str(leader))


def test_replicas_are_moved_by_a_rule_and_by_a_plan(
    three_nodes: NodeCluster, unique_name: str, tmp_path: Path
) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1], [1]])
    # a rule
    planned = ottla(
        three_nodes,
        "partition",
        "reassign",
        "--topic",
        topic,
        "--brokers",
        "2,3",
        "--replication-factor",
        "2",
    )
    assert {tuple(sorted(each["replicas"])) for each in planned["partitions"]} == {(2, 3)}
    three_nodes.eventually(lambda: ottla(three_nodes, "partition", "list") == [], "no move under way")
    assert set(three_nodes.partition(topic).replica_nodes) == {2, 3}
    # a plan that says nothing new, and one for this topic
    assert ottla(three_nodes, "partition", "reassign", "--topic", topic, "--brokers", "2,3", "--dry-run") == {
        "version": 1,
        "partitions": [],
    }
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]})
    )
    ottla(three_nodes, "partition", "reassign", "--file", str(plan))
    three_nodes.eventually(lambda: list(three_nodes.partition(topic).replica_nodes) == [1], "moved to 1")


def test_preferred_leaders_are_elected(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name)
    assert ottla(three_nodes, "partition", "elect", "preferred", "--topic", topic) in (
        [],
        [{"topic": topic, "partition": 0, "error": "ELECTION_NOT_NEEDED"}],
    )


def test_unknown_brokers_topics_and_plans_are_refused(
    three_nodes: NodeCluster, unique_name: str, tmp_path: Path
) -> None:
    topic = three_nodes.create_topic(unique_name)
    reassign = ("partition", "reassign")
    assert "there is no broker 9; there are 1, 2, 3" in problem(
        three_nodes, *reassign, "--topic", topic, "--brokers", "1,9"
    )
    assert "UNKNOWN_TOPIC_OR_PARTITION" in problem(three_nodes, *reassign, "--topic", "nowhere")
    assert "4 replicas do not fit on 3 brokers" in problem(
        three_nodes, *reassign, "--topic", topic, "--replication-factor", "4"
    )
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [1, 9]}]}))
    assert f"{topic}-0: INVALID_REPLICA_ASSIGNMENT" in problem(three_nodes, *reassign, "--file", str(plan))
    plan.write_text("[]")
    assert "not a plan in Kafka's JSON" in problem(three_nodes, *reassign, "--file", str(plan))


def test_a_cluster_that_cannot_be_reached_is_told_in_a_line(three_nodes: NodeCluster) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "ottla", "quorum", "status", "--bootstrap", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("ottla quorum status: The broker at 127.0.0.1:1 cannot be reached: ")
