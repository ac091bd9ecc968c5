"""A cluster as its nodes describe it: brokers, racks, leaders, replicas, coordinators, the quorum."""

from __future__ import annotations

from collections import Counter

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from support.clients.cluster_wire import (
    BROKER_RESOURCE,
    GROUP_KEY,
    TRANSACTION_KEY,
    alter_configs,
    consumer_fetch,
    coordinator_of,
    describe_config,
    describe_partitions,
    end_offset_of_epoch,
    find_coordinator,
    list_offset,
    produce_to_leader,
)
from support.clients.wire import WireClient, batch
from support.servers.clusters import NodeCluster

NODES = [1, 2, 3]
RACKS = {1: "rack-1", 2: "rack-2", 3: "rack-3"}
CONTROLLERS = 2


def test_every_broker_names_all_brokers_alike(three_nodes: NodeCluster) -> None:
    answers = [three_nodes.metadata("", of=node_id) for node_id in NODES]
    expected = [
        (node.node_id, node.host, node.port, RACKS[node.node_id]) for node in three_nodes.nodes.values()
    ]
    for answer in answers:
        assert sorted((each.node_id, each.host, each.port, each.rack) for each in answer.brokers) == expected
        assert answer.controller_id in NODES
    assert len({answer.cluster_id for answer in answers}) == 1


def test_describe_cluster(three_nodes: NodeCluster) -> None:
    for node_id in NODES:
        answer = three_nodes.describe(include_fenced=True, of=node_id)
        assert answer.error_code == ErrorCode.NONE
        assert answer.cluster_id == three_nodes.metadata("").cluster_id
        assert sorted((each.broker_id, each.port, each.rack, each.is_fenced) for each in answer.brokers) == [
            (node.node_id, node.port, RACKS[node.node_id], False) for node in three_nodes.nodes.values()
        ]


def test_describe_cluster_of_a_controller(three_nodes: NodeCluster) -> None:
    active = three_nodes.active_controller()
    for node in three_nodes.nodes.values():
        with WireClient.connect(node.controller_bootstrap) as client:
            answer = client.call(DescribeClusterRequest(endpoint_type=CONTROLLERS), 1)
        assert answer.error_code == ErrorCode.NONE, answer
        assert answer.endpoint_type == CONTROLLERS
        assert answer.cluster_id == three_nodes.metadata("").cluster_id
        assert answer.controller_id == active
        assert sorted((each.broker_id, each.host, each.port) for each in answer.brokers) == [
            (other.node_id, other.host, other.controller_port) for other in three_nodes.nodes.values()
        ]


def test_a_broker_is_no_controller_and_says_so(three_nodes: NodeCluster) -> None:
    node = three_nodes.nodes[1]
    with WireClient.connect(node.bootstrap) as client:
        answer = client.call(DescribeClusterRequest(endpoint_type=CONTROLLERS), 1)
        assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    with WireClient.connect(node.controller_bootstrap) as client:
        answer = client.call(DescribeClusterRequest(endpoint_type=1), 1)
        assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_describe_quorum(three_nodes: NodeCluster) -> None:
    asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
    for node_id in NODES:
        with three_nodes.wire(node_id) as client:
            answer = client.call(DescribeQuorumRequest(topics=[asked]))
        assert answer.error_code == ErrorCode.NONE
        (partition,) = answer.topics[0].partitions
        assert partition.error_code == ErrorCode.NONE
        assert partition.leader_id in NODES
        assert partition.leader_epoch > 0
        assert sorted(each.replica_id for each in partition.current_voters) == NODES
        assert partition.observers == []
        assert all(each.log_end_offset >= 0 for each in partition.current_voters)
        leader = next(each for each in partition.current_voters if each.replica_id == partition.leader_id)
        assert leader.log_end_offset >= partition.high_watermark > 0
        ports = {
            each.node_id: (listener.name, listener.port)
            for each in answer.nodes
            for listener in each.listeners
        }
        assert ports == {
            node.node_id: ("CONTROLLER", node.controller_port) for node in three_nodes.nodes.values()
        }


def test_a_topic_of_three_replicas_is_spread(three_nodes: NodeCluster, unique_name: str) -> None:
    three_nodes.create_topic(unique_name, partitions=6)
    (topic,) = three_nodes.metadata(unique_name).topics
    assert all(sorted(each.replica_nodes) == NODES for each in topic.partitions)
    assert all(sorted(each.isr_nodes) == NODES for each in topic.partitions)
    assert all(each.leader_id == each.replica_nodes[0] for each in topic.partitions)
    assert Counter(each.leader_id for each in topic.partitions) == dict.fromkeys(NODES, 2)
    assert all(each.leader_epoch == 0 and each.offline_replicas == [] for each in topic.partitions)
    views = [three_nodes.metadata(unique_name, of=node_id).topics for node_id in NODES]
    assert views[0] == views[1] == views[2]


def new_topic(
    three_nodes: NodeCluster, name: str, replication_factor: int, *assignments: list[int]
) -> ErrorCode:
    """Try to create a topic; the error."""
    assigned = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
        for index, replicas in enumerate(assignments)
    ]
    new = CreatableTopic(
        name=name,
        num_partitions=-1 if assigned else 1,
        replication_factor=replication_factor,
        assignments=assigned,
    )
    with three_nodes.wire() as client:
        return ErrorCode(client.call(CreateTopicsRequest(topics=[new])).topics[0].error_code)


def test_replicas_that_cannot_be_placed_are_refused(three_nodes: NodeCluster, unique_name: str) -> None:
    assert new_topic(three_nodes, unique_name, 4) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert new_topic(three_nodes, unique_name, 0) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert new_topic(three_nodes, unique_name, -1, [1, 9]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert new_topic(three_nodes, unique_name, -1, [1, 1]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert new_topic(three_nodes, unique_name, -1, [1, 2], [3]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert new_topic(three_nodes, unique_name, -1, []) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_placement_by_hand(three_nodes: NodeCluster, unique_name: str) -> None:
    three_nodes.create_topic(unique_name, assignments=[[3, 1], [2, 3], [1, 2]])
    (topic,) = three_nodes.metadata(unique_name).topics
    found = {each.partition_index: (each.leader_id, each.replica_nodes) for each in topic.partitions}
    assert found == {0: (3, [3, 1]), 1: (2, [2, 3]), 2: (1, [1, 2])}


def test_partitions_are_added(three_nodes: NodeCluster, unique_name: str) -> None:
    three_nodes.create_topic(unique_name, assignments=[[3, 1]])

    def grow(count: int, *replicas: list[int]) -> ErrorCode:
        assignments = [CreatePartitionsAssignment(broker_ids=each) for each in replicas] or None
        topic = CreatePartitionsTopic(name=unique_name, count=count, assignments=assignments)
        with three_nodes.wire() as client:
            answer = client.call(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))
        return ErrorCode(answer.results[0].error_code)

    assert grow(2, [2, 9]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(2, [2]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(2, [2, 3]) is ErrorCode.NONE
    assert grow(4) is ErrorCode.NONE
    three_nodes.wait_for_leaders(unique_name, 4)
    (topic,) = three_nodes.metadata(unique_name).topics
    replicas = {each.partition_index: each.replica_nodes for each in topic.partitions}
    assert replicas[0] == [3, 1]
    assert replicas[1] == [2, 3]
    assert all(len(set(each)) == 2 for each in replicas.values())


def test_describe_topic_partitions(three_nodes: NodeCluster, unique_name: str) -> None:
    three_nodes.create_topic(unique_name, partitions=5, config={"min.insync.replicas": "2"})
    with three_nodes.wire(2) as client:
        answer = describe_partitions(client, [unique_name])
        (topic,) = answer.topics
        assert answer.next_cursor is None
        assert (topic.error_code, topic.name, topic.is_internal) == (0, unique_name, False)
        for each in topic.partitions:
            assert each.error_code == 0
            assert each.leader_id == each.replica_nodes[0]
            assert sorted(each.replica_nodes) == sorted(each.isr_nodes) == NODES
            assert (each.eligible_leader_replicas or []) == []
            assert (each.last_known_elr or []) == []
            assert each.offline_replicas == []
        first = describe_partitions(client, [unique_name], limit=3)
        assert [each.partition_index for each in first.topics[0].partitions] == [0, 1, 2]
        assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (unique_name, 3)
        rest = describe_partitions(client, [unique_name], after=(unique_name, 3))
        assert [each.partition_index for each in rest.topics[0].partitions] == [3, 4]


def test_a_broker_that_does_not_lead_a_partition_names_the_leader(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]])
    produce_to_leader(three_nodes, topic, 0, batch(3))
    for other in (2, 3):
        # 2 is a follower, 3 has no replica
        with three_nodes.wire(other) as client:
            three_nodes.eventually(
                lambda client=client: (
                    client.produce(topic, 0, batch(1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                ),
                "the topic is known",
            )
            refused = client.produce(topic, 0, batch(1))
            assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 0)
            assert list_offset(client, topic).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            end = end_offset_of_epoch(client, topic, 0, 0)
            assert end.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with three_nodes.wire(3) as client:
        refused = consumer_fetch(client, topic, version=16)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 0)


def test_leader_epochs_are_checked(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2, 3]])
    assert produce_to_leader(three_nodes, topic, 0, batch(5)).base_offset == 0
    with three_nodes.wire(1) as client:
        assert consumer_fetch(client, topic, current_leader_epoch=0).error_code == ErrorCode.NONE
        assert (
            consumer_fetch(client, topic, current_leader_epoch=9).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        )
        answer = end_offset_of_epoch(client, topic, 0, 0, current_leader_epoch=0)
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, 0, 5)
        answer = end_offset_of_epoch(client, topic, 0, 0, current_leader_epoch=7)
        assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        # an epoch that has not been
        answer = end_offset_of_epoch(client, topic, 0, 3)
        assert (answer.error_code, answer.end_offset) == (0, -1)


@pytest.mark.parametrize("key_type", [GROUP_KEY, TRANSACTION_KEY], ids=["group", "transaction"])
def test_coordinators_are_spread_and_agreed_upon(
    three_nodes: NodeCluster, unique_name: str, key_type: int
) -> None:
    keys = [f"{unique_name}-{number}" for number in range(12)]
    coordinators = {key: coordinator_of(three_nodes, key, key_type) for key in keys}
    assert len(set(coordinators.values())) > 1
    for node_id in NODES:
        with three_nodes.wire(node_id) as client:
            for key, coordinator in coordinators.items():
                answer = find_coordinator(client, key, key_type)
                assert (answer.error_code, answer.node_id) == (0, coordinator)
                assert answer.port == three_nodes.nodes[coordinator].port


def test_a_brokers_settings_are_asked_of_itself(three_nodes: NodeCluster) -> None:
    setting = {"log.cleaner.backoff.ms": "12345"}
    with three_nodes.wire(2) as client:
        assert alter_configs(client, BROKER_RESOURCE, "2", setting) is ErrorCode.NONE
    with three_nodes.wire(1) as client:
        assert alter_configs(client, BROKER_RESOURCE, "2", setting) is ErrorCode.INVALID_REQUEST
        refused = describe_config(client, BROKER_RESOURCE, "2", "log.cleaner.backoff.ms")
        assert refused.error_code == ErrorCode.INVALID_REQUEST

    def value(node_id: int) -> str:
        with three_nodes.wire(node_id) as client:
            answer = describe_config(client, BROKER_RESOURCE, str(node_id), "log.cleaner.backoff.ms")
        assert answer.error_code == ErrorCode.NONE
        return str(answer.configs[0].value)

    three_nodes.eventually(lambda: value(2) == "12345", "broker 2 has the setting")
    assert value(3) == "15000"
    with three_nodes.wire(2) as client:
        alter_configs(client, BROKER_RESOURCE, "2", {"log.cleaner.backoff.ms": None})
    three_nodes.eventually(lambda: value(2) == "15000", "broker 2 has the default again")
