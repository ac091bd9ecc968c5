"""Replicas move between brokers: added, removed, throttled, cancelled, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode
from support.clients.cluster_wire import (
    TOPIC_RESOURCE,
    Ongoing,
    alter_configs,
    consumer_fetch,
    ongoing_reassignments,
    produce_to_leader,
    reassign,
)
from support.clients.confluent import read_all
from support.clients.wire import batch
from support.java.java_tools import run_java
from support.servers.clusters import NodeCluster

TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
# so slow that the reassignment stays under way
THROTTLE = {
    "leader.replication.throttled.replicas": "*",
    "follower.replication.throttled.replicas": "*",
}
BROKERS = ("1", "2", "3")


def wait_for_replicas(cluster: NodeCluster, topic: str, index: int, replicas: list[int]) -> None:
    """The partition has these replicas, all in sync, and nothing is under way."""

    def done() -> bool:
        partition = cluster.partition(topic, index)
        with cluster.wire() as client:
            going_on = (topic, index) in ongoing_reassignments(client)
        return (
            not going_on
            and list(partition.replica_nodes) == replicas
            and sorted(partition.isr_nodes) == sorted(replicas)
        )

    cluster.eventually(done, f"{topic}-{index} is on {replicas}")


def throttle(cluster: NodeCluster, bytes_per_second: int | None) -> None:
    """Set or take away the rate of throttled replicas on every broker."""
    rate = None if bytes_per_second is None else str(bytes_per_second)
    for name in BROKERS:
        with cluster.wire(int(name)) as client:
            values = dict.fromkeys(
                ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), rate
            )
            assert alter_configs(client, 4, name, values) is ErrorCode.NONE


def fill(cluster: NodeCluster, topic: str, batches: int = 20) -> None:
    """Some 100 KiB a batch."""
    for _ in range(batches):
        assert produce_to_leader(cluster, topic, 0, batch(10, b"x" * 10_000)).error_code == ErrorCode.NONE


def test_a_replica_is_added_and_removed(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1]])
    fill(three_nodes, topic, 3)
    with three_nodes.wire() as client:
        assert reassign(client, topic, {0: [1, 2, 3]}) == {0: ErrorCode.NONE}
    wait_for_replicas(three_nodes, topic, 0, [1, 2, 3])
    with three_nodes.wire() as client:
        assert reassign(client, topic, {0: [2, 3]}) == {0: ErrorCode.NONE}
    wait_for_replicas(three_nodes, topic, 0, [2, 3])
    assert three_nodes.partition(topic).leader_id in (2, 3)
    assert produce_to_leader(three_nodes, topic, 0, batch(1)).base_offset == 30
    assert len(read_all(three_nodes.bootstrap, topic, 31)) == 31
    directory = three_nodes.nodes[1].log_directory / f"{topic}-0"
    three_nodes.eventually(lambda: not directory.exists(), "the first broker has deleted its replica")


def test_a_leader_hands_over_to_the_new_replicas(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2], [2, 3]])
    fill(three_nodes, topic, 2)
    with three_nodes.wire(3) as client:
        assert reassign(client, topic, {0: [3, 2], 1: [1, 3]}) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    wait_for_replicas(three_nodes, topic, 0, [3, 2])
    wait_for_replicas(three_nodes, topic, 1, [1, 3])
    assert three_nodes.partition(topic, 0).leader_id in (2, 3)
    assert three_nodes.partition(topic, 1).leader_id in (1, 3)
    assert len(read_all(three_nodes.bootstrap, topic, 20)) == 20


def test_impossible_reassignments_are_refused(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]])
    invalid = {0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    with three_nodes.wire() as client:
        assert reassign(client, topic, {0: [1, 9]}) == invalid
        assert reassign(client, topic, {0: [1, 1]}) == invalid
        assert reassign(client, topic, {0: [-1]}) == invalid
        assert reassign(client, topic, {0: []}) == invalid
        assert reassign(client, topic, {7: [1]}) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert reassign(client, "no-such-topic", {0: [1]}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert reassign(client, topic, {0: None}) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        assert (topic, 0) not in ongoing_reassignments(client)
    assert list(three_nodes.partition(topic).replica_nodes) == [1, 2]


def test_a_throttled_move_is_listed_and_cancelled(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]], config=THROTTLE)
    fill(three_nodes, topic)
    throttle(three_nodes, 1_000)
    try:
        with three_nodes.wire() as client:
            assert reassign(client, topic, {0: [3, 2]}) == {0: ErrorCode.NONE}
            assert ongoing_reassignments(client)[topic, 0] == Ongoing([3, 2, 1], [3], [1])
            # it is read and written meanwhile
            assert produce_to_leader(three_nodes, topic, 0, batch(1)).base_offset == 200
            partition = three_nodes.partition(topic)
            assert (list(partition.replica_nodes), partition.leader_id) == ([3, 2, 1], 1)
            # when
            assert reassign(client, topic, {0: None}) == {0: ErrorCode.NONE}
            # then
            assert (topic, 0) not in ongoing_reassignments(client)
        wait_for_replicas(three_nodes, topic, 0, [2, 1])
        directory = three_nodes.nodes[3].log_directory / f"{topic}-0"
        three_nodes.eventually(lambda: not directory.exists(), "the third broker has deleted its replica")
    finally:
        throttle(three_nodes, None)


def test_a_throttled_move_ends_when_it_may(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]], config=THROTTLE)
    fill(three_nodes, topic)
    throttle(three_nodes, 1_000)
    try:
        with three_nodes.wire() as client:
            assert reassign(client, topic, {0: [1, 3]}) == {0: ErrorCode.NONE}
            assert ongoing_reassignments(client)[topic, 0] == Ongoing([1, 3, 2], [3], [2])
            # another target in its place
            assert reassign(client, topic, {0: [2, 3]}) == {0: ErrorCode.NONE}
            listed = ongoing_reassignments(client)[topic, 0]
            assert (listed.adding, listed.removing) == ([3], [1])
    finally:
        throttle(three_nodes, None)
    wait_for_replicas(three_nodes, topic, 0, [2, 3])
    with three_nodes.wire(3) as client:
        three_nodes.eventually(lambda: consumer_fetch(client, topic).high_watermark == 200, "3 has all")


@pytest.mark.java
@pytest.mark.long
def test_kafkas_own_tool_moves_replicas(three_nodes: NodeCluster, unique_name: str, tmp_path: Path) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2], [2, 3]])
    fill(three_nodes, topic)

    def tool(*arguments: str) -> str:
        done = run_java(TOOL, "--bootstrap-server", three_nodes.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # given: a plan by the tool
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generated = tool("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,3")
    proposed = json.loads(generated.split("Proposed partition reassignment configuration")[1])
    assert all(set(each["replicas"]) <= {1, 3} for each in proposed["partitions"])
    # when: one of ours, throttled
    move = tmp_path / "move.json"
    partitions = [{"topic": topic, "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"]}]
    move.write_text(json.dumps({"version": 1, "partitions": partitions}))
    executed = tool("--execute", "--reassignment-json-file", str(move), "--throttle", "1000")
    assert "Successfully started partition reassignment" in executed
    assert "throttle limit was set to 1000 B/s" in executed
    # then
    assert f"{topic}-0: replicas: 3,2,1. adding: 3. removing: 1." in tool("--list")
    assert "still in progress" in tool("--verify", "--reassignment-json-file", str(move))
    # when
    assert "Successfully cancelled" in tool("--cancel", "--reassignment-json-file", str(move))
    wait_for_replicas(three_nodes, topic, 0, [2, 1])
    # and once more, without a limit
    tool("--execute", "--reassignment-json-file", str(move))
    wait_for_replicas(three_nodes, topic, 0, [3, 2])
    verified = tool("--verify", "--reassignment-json-file", str(move))
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "Clearing broker-level throttles" in verified
    with three_nodes.wire() as client:
        assert alter_configs(client, TOPIC_RESOURCE, topic, {"retention.ms": None}) is ErrorCode.NONE
