"""Administration of a cluster with dead brokers in it, and Kafka's own tools on clusters of several nodes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from support.clients.cluster_wire import UNCLEAN, describe_partitions, elect, list_offset, produce_to_leader
from support.clients.wire import batch
from support.java.java_tools import java_process, run_java
from support.servers.clusters import ClusterPlan, NodeCluster, combined, separate

TOOLS = "org.apache.kafka.tools"
NODES = [1, 2, 3]
StartNodes = Callable[[ClusterPlan], AbstractContextManager[NodeCluster]]


def tool(cluster: NodeCluster, name: str, *arguments: str, succeeds: bool = True) -> str:
    """Run one of Kafka's tools against all brokers; its output."""
    done: subprocess.CompletedProcess[str] = run_java(
        f"{TOOLS}.{name}", "--bootstrap-server", cluster.bootstrap, *arguments
    )
    assert (done.returncode == 0) == succeeds, f"{name} {arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout + ("" if succeeds else done.stderr)


def metadata_records(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """The metadata records of a file by DumpLogSegments, each with its offset."""
    done = run_java(f"{TOOLS}.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(file))
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"isvalid: (\w+)", done.stdout)) == {"true"}
    found = re.findall(r"offset: (\d+) .*payload: (\{.*\})", done.stdout)
    return [(int(offset), json.loads(payload)) for offset, payload in found]


# --- with a dead broker -------------------------------------------------------------------------------------


def test_a_topic_is_deleted_while_a_broker_is_away(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3]])
    assert produce_to_leader(three_nodes, topic, 0, batch(3)).error_code == ErrorCode.NONE
    directories = [three_nodes.nodes[node_id].log_directory / f"{topic}-0" for node_id in NODES]
    assert all(directory.exists() for directory in directories)
    # when
    three_nodes.stop(3)
    with three_nodes.wire() as client:
        answer = client.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    # then
    assert answer.responses[0].error_code == ErrorCode.NONE
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    three_nodes.eventually(
        lambda: three_nodes.metadata(topic).topics[0].error_code == gone, "the topic is gone"
    )
    three_nodes.eventually(lambda: not any(each.exists() for each in directories[:2]), "and its files")
    # when the third comes back, it learns of it
    three_nodes.start(3)
    three_nodes.eventually(lambda: not directories[2].exists(), "the third broker's files are gone")
    assert three_nodes.metadata(topic, of=3).topics[0].error_code == gone


def test_a_dead_broker_is_unregistered(three_nodes: NodeCluster) -> None:
    def registered() -> dict[int, bool]:
        brokers = three_nodes.describe(include_fenced=True).brokers
        return {each.broker_id: each.is_fenced for each in brokers}

    three_nodes.stop(2)
    assert registered() == {1: False, 2: True, 3: False}
    with three_nodes.wire() as client:
        refused = client.call(UnregisterBrokerRequest(broker_id=77))
        assert refused.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert client.call(UnregisterBrokerRequest(broker_id=2)).error_code == ErrorCode.NONE
    three_nodes.eventually(lambda: registered() == {1: False, 3: False}, "2 is forgotten")
    three_nodes.start(2)
    three_nodes.eventually(lambda: registered() == dict.fromkeys(NODES, False), "2 is known again")


@pytest.mark.long
def test_only_an_unclean_election_makes_a_replica_leader_that_was_out_of_sync(
    start_nodes: StartNodes, unique_name: str
) -> None:
    with start_nodes(ClusterPlan(separate(1, 3))) as cluster:
        by_hand = cluster.create_topic(f"{unique_name}-by-hand", assignments=[[1, 2]])
        by_itself = cluster.create_topic(
            f"{unique_name}-by-itself",
            assignments=[[1, 2]],
            config={"unclean.leader.election.enable": "true"},
        )
        topics = (by_hand, by_itself)
        for topic in topics:
            assert produce_to_leader(cluster, topic, 0, batch(3)).error_code == ErrorCode.NONE
        # given: 2 leaves, 1 goes on alone and dies
        cluster.stop(2)
        for topic in topics:
            cluster.wait_for_isr(topic, 0, [1])
            assert produce_to_leader(cluster, topic, 0, batch(4)).base_offset == 3
        cluster.kill(1)
        cluster.wait_until_fenced(1)
        cluster.eventually(
            lambda: all(cluster.partition(topic).leader_id == -1 for topic in topics), "nobody leads"
        )
        # when: only the one that was out of sync is back
        cluster.start(2)
        # then
        cluster.eventually(
            lambda: cluster.partition(by_itself).leader_id == 2, "it leads where that is allowed"
        )
        with cluster.wire(2) as client:
            cluster.eventually(lambda: list_offset(client, by_itself).offset == 3, "with what it has")
        assert cluster.partition(by_hand).leader_id == -1
        with cluster.wire() as client:
            (described,) = describe_partitions(client, [by_hand]).topics[0].partitions
            assert 1 in {*described.isr_nodes, *(described.eligible_leader_replicas or ())}
            assert 2 not in {*described.isr_nodes, *(described.eligible_leader_replicas or ())}
            # when: it is asked for
            assert elect(client, UNCLEAN, by_hand, 0) == {0: ErrorCode.NONE}
        # then
        cluster.eventually(lambda: cluster.partition(by_hand).leader_id == 2, "it leads")
        for topic in topics:
            assert produce_to_leader(cluster, topic, 0, batch(2, b"later")).base_offset == 3
        # and the old leader gives up the records that no other replica has
        cluster.start(1)
        for topic in topics:
            cluster.wait_for_isr(topic, 0, [1, 2])
            cluster.kill(2)
            assert cluster.wait_for_leader(topic, other_than=2) == 1
            with cluster.wire(1) as client:
                cluster.eventually(
                    lambda client=client, topic=topic: list_offset(client, topic).offset == 5, "5"
                )
                values = [header.record_count for header, _ in client.read_batches(topic, 0)]
            assert values == [3, 2]
            cluster.start(2)
            cluster.wait_for_isr(topic, 0, [1, 2])


@pytest.mark.long
def test_replicas_land_in_all_racks(start_nodes: StartNodes, unique_name: str) -> None:
    plan = ClusterPlan(combined(3, racks=("left", "left", "right")))
    with start_nodes(plan) as cluster:
        cluster.create_topic(unique_name, partitions=12, replication_factor=2)
        (topic,) = cluster.metadata(unique_name).topics
        assert all(3 in each.replica_nodes for each in topic.partitions)
        assert {each.leader_id for each in topic.partitions} == {1, 2, 3}


# --- Kafka's tools ------------------------------------------------------------------------------------------


@pytest.mark.java
@pytest.mark.long
def test_topic_command_with_a_broker_away(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3], [2, 3, 1]])
    alone = three_nodes.create_topic(f"{unique_name}-alone", assignments=[[3]])
    three_nodes.stop(3)
    described = tool(three_nodes, "TopicCommand", "--describe", "--topic", topic)
    assert re.search(r"Partition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\t", described)
    lacking = tool(three_nodes, "TopicCommand", "--describe", "--under-replicated-partitions")
    assert lacking.count(f"Topic: {topic}\t") == 2
    leaderless = tool(three_nodes, "TopicCommand", "--describe", "--unavailable-partitions")
    assert f"Topic: {alone}\t" in leaderless
    assert f"Topic: {topic}\t" not in leaderless


@pytest.mark.java
@pytest.mark.long
def test_leader_election_command(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[3, 1, 2]])
    three_nodes.restart(3)
    three_nodes.wait_for_isr(topic, 0, NODES)
    assert three_nodes.partition(topic).leader_id != 3
    arguments = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    printed = tool(three_nodes, "LeaderElectionCommand", *arguments)
    assert f"Successfully completed leader election (PREFERRED) for partitions {topic}-0" in printed
    printed = tool(three_nodes, "LeaderElectionCommand", *arguments)
    assert f"Valid replica already elected for partitions {topic}-0" in printed
    three_nodes.wait_for_leader(topic, other_than=1)
    assert three_nodes.partition(topic).leader_id == 3


@pytest.mark.java
@pytest.mark.long
def test_metadata_quorum_command(three_nodes: NodeCluster) -> None:
    leader = three_nodes.active_controller()
    status = tool(three_nodes, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"^LeaderId: +{leader}$", status, re.MULTILINE)
    assert re.search(r"^HighWatermark: +\d+$", status, re.MULTILINE)
    assert re.search(r"^ClusterId: +\S+$", status, re.MULTILINE)
    for node in three_nodes.nodes.values():
        assert f'"id": {node.node_id}' in status
    replication = tool(three_nodes, "MetadataQuorumCommand", "describe", "--replication")
    rows = [line.split() for line in replication.splitlines()[1:] if line.strip()]
    assert sorted(int(row[0]) for row in rows) == NODES
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]
    # the controllers answer too
    done = run_java(
        f"{TOOLS}.MetadataQuorumCommand",
        *("--bootstrap-controller", three_nodes.controller_bootstrap, "describe", "--status"),
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^LeaderId: +{leader}$", done.stdout, re.MULTILINE)


@pytest.mark.java
@pytest.mark.long
def test_feature_command(three_nodes: NodeCluster) -> None:
    described = tool(three_nodes, "FeatureCommand", "describe")
    levels = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+(?: \d+)?)", described))
    assert levels["metadata.version"] == "UNKNOWN 33"  # 4.4-IV2, to a tool of 4.3
    # a level that no node knows
    refused = tool(three_nodes, "FeatureCommand", "upgrade", "--feature", "group.version=99", succeeds=False)
    assert "group.version" in refused
    # every node says so, and that goes for the other way too
    downgraded = tool(three_nodes, "FeatureCommand", "downgrade", "--feature", "share.version=0")
    assert "share.version was downgraded to 0" in downgraded
    upgraded = tool(three_nodes, "FeatureCommand", "upgrade", "--feature", "share.version=2")
    assert "share.version was upgraded to 2" in upgraded


@pytest.mark.java
@pytest.mark.long
def test_replica_verification_tool(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3], [2, 3, 1]])
    for index in (0, 1):
        assert produce_to_leader(three_nodes, topic, index, batch(50)).error_code == ErrorCode.NONE
    arguments = ("--broker-list", three_nodes.bootstrap, "--topics-include", topic)
    with java_process(
        f"{TOOLS}.ReplicaVerificationTool", *arguments, "--report-interval-ms", "300"
    ) as process:
        assert process.stdout is not None
        reports = []
        for line in process.stdout:
            if "max lag is" in line:
                reports.append(line)
            if len(reports) == 2:
                break
    assert "max lag is 0" in reports[-1]


@pytest.mark.java
@pytest.mark.long
def test_dump_log_segments_reads_every_nodes_metadata(start_nodes: StartNodes, unique_name: str) -> None:
    with start_nodes(ClusterPlan(combined(3))) as cluster:
        for number in range(3):
            cluster.create_topic(f"{unique_name}-{number}", partitions=4)
        cluster.kill(cluster.active_controller())
        cluster.create_topic(f"{unique_name}-later", partitions=2)
        cluster.heal()
        high_watermark = cluster.quorum().high_watermark
        cluster.eventually(
            lambda: all(each.log_end_offset >= high_watermark for each in cluster.quorum().current_voters),
            "every node has all metadata",
        )
        cluster.stop(*cluster.nodes)
        logs = []
        for node in cluster.nodes.values():
            (segment,) = (node.log_directory / "__cluster_metadata-0").glob("*.log")
            logs.append([each for each in metadata_records(segment) if each[0] < high_watermark])
        assert logs[0] == logs[1] == logs[2]
        kinds = [record["type"] for _, record in logs[0]]
        assert kinds.count("TOPIC_RECORD") == 4
        assert kinds.count("PARTITION_RECORD") == 14
        assert kinds.count("REGISTER_CONTROLLER_RECORD") >= 4
        assert kinds.count("REGISTER_BROKER_RECORD") >= 4


@pytest.mark.java
@pytest.mark.long
def test_voters_are_added_and_removed(start_nodes: StartNodes, unique_name: str, tmp_path: Path) -> None:
    plan = ClusterPlan(separate(3, 1), {"default.replication.factor": "1"}, dynamic=True, heap="300m")
    with start_nodes(plan) as cluster:

        def voters() -> dict[int, str]:
            return {
                each.replica_id: str(each.replica_directory_id) for each in cluster.quorum().current_voters
            }

        def observers() -> set[int]:
            return {each.replica_id for each in cluster.quorum().observers}

        def quorum_tool(*arguments: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
            command = ("--command-config", str(config)) if config is not None else ()
            return run_java(
                f"{TOOLS}.MetadataQuorumCommand",
                *("--bootstrap-server", cluster.bootstrap, *command, *arguments),
            )

        # given: one voter, the other controllers observe
        assert set(voters()) == {101}
        cluster.eventually(lambda: observers() >= {102, 103, 1}, "the others observe")
        # when
        for added in (102, 103):
            done = quorum_tool("add-controller", config=cluster.nodes[added].properties)
            assert done.returncode == 0, done.stdout + done.stderr
            cluster.eventually(lambda added=added: added in voters(), f"{added} votes")
        # then
        known = voters()
        assert set(known) == {101, 102, 103}
        assert cluster.create_topic(unique_name, 2, 1)
        again = quorum_tool("add-controller", config=cluster.nodes[102].properties)
        assert again.returncode != 0
        assert "DuplicateVoter" in again.stdout + again.stderr
        # when: the first voter goes
        meta = (cluster.nodes[101].log_directory / "meta.properties").read_text()
        directory_id = re.search(r"directory.id=(\S+)", meta)
        assert directory_id is not None
        remove = ("remove-controller", "--controller-id", "101", "--controller-directory-id")
        done = quorum_tool(*remove, directory_id[1])
        assert done.returncode == 0, done.stdout + done.stderr
        # then
        cluster.eventually(lambda: set(voters()) == {102, 103}, "101 votes no more")
        cluster.eventually(lambda: cluster.quorum().leader_id in (102, 103), "another leads")
        done = quorum_tool(*remove, directory_id[1])
        assert done.returncode != 0
        assert "VoterNotFound" in done.stdout + done.stderr
        assert cluster.create_topic(f"{unique_name}-2", 2, 1)


@pytest.mark.long
def test_separate_controllers_and_brokers(start_nodes: StartNodes, unique_name: str) -> None:
    with start_nodes(ClusterPlan(separate(3, 3), heap="300m")) as cluster:
        topic = cluster.create_topic(unique_name, partitions=3)
        assert produce_to_leader(cluster, topic, 0, batch(3)).error_code == ErrorCode.NONE
        assert sorted(each.replica_id for each in cluster.quorum().current_voters) == [101, 102, 103]
        cluster.eventually(
            lambda: sorted(each.replica_id for each in cluster.quorum().observers) == NODES, "brokers observe"
        )
        described = cluster.describe(include_fenced=True)
        assert sorted(each.broker_id for each in described.brokers) == NODES
        # when: the active controller dies, the brokers go on with another
        active = cluster.active_controller()
        cluster.kill(active)
        assert cluster.create_topic(f"{unique_name}-2", partitions=3)
        assert cluster.active_controller() != active
        assert produce_to_leader(cluster, topic, 0, batch(3)).error_code == ErrorCode.NONE
        # when: a broker dies
        cluster.kill(2)
        cluster.wait_until_fenced(2)
        assert all(each.leader_id in (1, 3) for each in cluster.metadata(topic).topics[0].partitions)
        cluster.heal()
