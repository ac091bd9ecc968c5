"""`ottla balance` on a cluster: planned, carried out, killed and finished; brokers go and die."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from support.clients.cluster_wire import ongoing_reassignments, produce_to_leader
from support.clients.ottla_command import CommandRun, ottla
from support.clients.wire import batch
from support.servers.clusters import ClusterPlan, NodeCluster, combined

QUICK = ("--interval", "0.2")
PARTITIONS = 8
THROTTLE = 40_000
RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"


def balance(cluster: NodeCluster, *words: str) -> CommandRun:
    return ottla(cluster.bootstrap, "balance", *words)


def planned(cluster: NodeCluster, *words: str) -> dict[str, Any]:
    run = balance(cluster, "plan", "--json", *QUICK, *words)
    assert run.code == 0, run
    (row,) = run.rows
    return dict(row)


def carried_out(cluster: NodeCluster, *words: str) -> dict[str, Any]:
    run = balance(cluster, *words, "--yes", "--json", *QUICK)
    assert run.code == 0, run
    row: dict[str, Any] = run.rows[-1]
    assert row["outcome"] == "done", run
    return row


def settings(cluster: NodeCluster, kind: str, name: str) -> dict[str, str]:
    """What is set for a broker or a topic itself."""
    run = ottla(cluster.bootstrap, "config", "describe", kind, name, "--json")
    assert run.code == 0, run
    return {row["name"]: row["value"] for row in run.rows if row["source"] in ("broker", "topic")}


def replicas(cluster: NodeCluster, topic: str) -> list[list[int]]:
    return [list(cluster.partition(topic, index).replica_nodes) for index in range(PARTITIONS)]


def in_sync(cluster: NodeCluster, topic: str) -> bool:
    found = [cluster.partition(topic, index) for index in range(PARTITIONS)]
    return all(sorted(one.isr_nodes) == sorted(one.replica_nodes) for one in found)


@pytest.mark.slow
def test_a_cluster_is_balanced_through_kills_and_deaths(
    start_nodes: Callable[[ClusterPlan], AbstractContextManager[NodeCluster]], unique_name: str
) -> None:
    with start_nodes(ClusterPlan(combined(4))) as cluster:
        topic = cluster.create_topic(unique_name, assignments=[[1, 2]] * PARTITIONS)
        for index in range(PARTITIONS):
            for _ in range(3):
                answer = produce_to_leader(cluster, topic, index, batch(10, b"x" * 10_000))
                assert answer.error_code == ErrorCode.NONE
        cluster.eventually(lambda: in_sync(cluster, topic), "all replicas are in sync")
        _is_planned(cluster, topic)
        _outlives_a_kill(cluster, topic)
        _lets_a_broker_lead_nothing(cluster, topic)
        _changes_the_number_of_replicas(cluster, topic)
        _empties_a_broker(cluster, topic)
        _mends_what_a_death_has_left(cluster, topic)


def _is_planned(cluster: NodeCluster, topic: str) -> None:
    """A plan changes nothing, and names brokers 3 and 4 as the places for what 1 and 2 have too much."""
    plan = planned(cluster)
    changes = [one for one in plan["changes"] if one["topic"] == topic]
    assert plan["hard_goals_hold"]
    assert plan["bytes_moved"] > 0
    assert {broker for one in changes for broker in one["after"]} >= {3, 4}
    assert replicas(cluster, topic) == [[1, 2]] * PARTITIONS
    shown = balance(cluster, "plan", *QUICK)
    assert "replicas move" in shown.out
    assert "DiskUsageDistributionGoal" in shown.out


def _outlives_a_kill(cluster: NodeCluster, topic: str) -> None:
    """Killed on the way it leaves throttles; the next run finds them, finishes, and takes them away."""
    first = subprocess.Popen(
        [
            *(sys.executable, "-m", "ottla", "balance", "run", "--yes", *QUICK),
            *("--throttle", str(THROTTLE), "--bootstrap", cluster.bootstrap),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def moves() -> bool:
            with cluster.wire() as client:
                return any(name == topic for name, _ in ongoing_reassignments(client))

        cluster.eventually(moves, "a replica moves")
        assert settings(cluster, "broker", "1")[RATE] == str(THROTTLE)
        assert settings(cluster, "topic", topic)[LIST]
        # never two at a time
        second = balance(cluster, "run", "--yes", *QUICK)
        assert second.code == 1
        assert "carries out balance" in second.err
        assert first.poll() is None
    finally:
        first.kill()
        first.wait(60)
    assert settings(cluster, "broker", "1")[RATE] == str(THROTTLE)
    done = carried_out(cluster, "run")
    assert done["purpose"] == "balance"
    cluster.eventually(lambda: in_sync(cluster, topic), "all replicas are in sync")
    assert RATE not in settings(cluster, "broker", "1")
    assert LIST not in settings(cluster, "topic", topic)
    held = [broker for one in replicas(cluster, topic) for broker in one]
    assert {held.count(broker) for broker in (1, 2, 3, 4)} <= {3, 4, 5}
    assert json.loads(balance(cluster, "status", "--json").out)["state"] == "done"


def _lets_a_broker_lead_nothing(cluster: NodeCluster, topic: str) -> None:
    before = [sorted(one) for one in replicas(cluster, topic)]
    assert carried_out(cluster, "demote", "1")["bytes_moved"] == 0
    assert [sorted(one) for one in replicas(cluster, topic)] == before
    leaders = {cluster.partition(topic, index).leader_id for index in range(PARTITIONS)}
    assert 1 not in leaders


def _changes_the_number_of_replicas(cluster: NodeCluster, topic: str) -> None:
    """More replicas and fewer, the others stay; what can't be is refused before anything happens."""
    before = replicas(cluster, topic)
    assert carried_out(cluster, "replicas", topic, "3")["changes"] == PARTITIONS
    assert all(one[:2] == was for one, was in zip(replicas(cluster, topic), before, strict=True))
    assert carried_out(cluster, "replicas", topic, "2")["bytes_moved"] == 0
    cluster.eventually(lambda: in_sync(cluster, topic), "all replicas are in sync")
    assert {len(one) for one in replicas(cluster, topic)} == {2}
    for words, problem in (
        (("replicas", topic, "5"), "5 replicas need as many brokers"),
        (("replicas", "(", "2"), "not a regular expression"),
        (("plan", "--goals", "NoGoal"), "there is no goal NoGoal"),
        (("plan", "--goals", "CpuCapacityGoal"), "--skip-hard-goal-check"),
        (("plan", "--destination-broker-ids", "9"), "there is no broker 9"),
    ):
        run = balance(cluster, *words, *QUICK)
        assert run.code != 0
        assert problem in run.err
    assert planned(cluster, "--excluded-topics", ".*")["changes"] == []


def _empties_a_broker(cluster: NodeCluster, topic: str) -> None:
    assert carried_out(cluster, "remove", "3")["changes"] > 0
    assert all(3 not in one for one in replicas(cluster, topic))
    row = next(one for one in planned(cluster)["brokers"] if one["broker"] == 3)
    assert row["before"]["replicas"] == 0
    # and it gets its share back
    assert carried_out(cluster, "add", "3")["changes"] > 0
    assert any(3 in one for one in replicas(cluster, topic))


def _mends_what_a_death_has_left(cluster: NodeCluster, topic: str) -> None:
    assert any(4 in one for one in replicas(cluster, topic))
    cluster.kill(4)
    cluster.wait_until_fenced(4)
    bootstrap = cluster.nodes[1].bootstrap
    watch = subprocess.Popen(
        [
            *(sys.executable, "-m", "ottla", "balance", "run", "--self-heal", "--grace", "1", *QUICK),
            *("--bootstrap", bootstrap),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_mended() -> bool:
        found = [cluster.partition(topic, index, of=1) for index in range(PARTITIONS)]
        return all(4 not in one.replica_nodes for one in found)

    try:
        cluster.eventually(is_mended, "the dead broker holds nothing")
        assert watch.poll() is None
    finally:
        watch.send_signal(signal.SIGINT)
        watch.wait(60)
    run = ottla(bootstrap, "balance", "fix-offline", "--yes", "--json", *QUICK)
    assert run.code == 0, run
    found = [cluster.partition(topic, index, of=1) for index in range(PARTITIONS)]
    assert all(one.leader_id in (1, 2, 3) for one in found)
