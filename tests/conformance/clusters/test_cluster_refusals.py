"""Refusals of the active controller of three nodes, with the same messages as Apache Kafka's."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from support.clients.wire import WireClient
from support.servers.clusters import NodeCluster

PREFERRED, UNCLEAN = 0, 1
Answer = tuple[ErrorCode, str | None]


def reassign(
    client: WireClient, topic: str, index: int, replicas: list[int] | None, *, may_change_factor: bool = True
) -> Answer:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000,
        allow_replication_factor_change=may_change_factor,
        topics=[
            ReassignableTopic(
                name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
            )
        ],
    )
    response = client.call(request, 1)
    assert response.error_code == ErrorCode.NONE
    answer = response.responses[0].partitions[0]
    return ErrorCode(answer.error_code), answer.error_message


def elect(client: WireClient, kind: int, topic: str, index: int) -> ErrorCode:
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=topic, partitions=[index])],
        timeout_ms=30_000,
    )
    response = client.call(request, 2)
    assert response.error_code == ErrorCode.NONE
    return ErrorCode(response.replica_election_results[0].partition_result[0].error_code)


def create(client: WireClient, topic: CreatableTopic) -> Answer:
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=True)
    answer = client.call(request, 7).topics[0]
    return ErrorCode(answer.error_code), answer.error_message


def test_reassignments(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]])
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    with three_nodes.wire() as client:
        assert reassign(client, "no-such-topic", 0, [1]) == (
            unknown,
            "Unable to find a topic named no-such-topic.",
        )
        assert reassign(client, topic, 7, [1]) == (unknown, f"Unable to find partition {topic}:7.")
        assert reassign(client, topic, 0, []) == (
            invalid,
            "The manual partition assignment includes an empty replica list.",
        )
        assert reassign(client, topic, 0, [1, 9]) == (
            invalid,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        )
        assert reassign(client, topic, 0, [1, 1]) == (
            invalid,
            "The manual partition assignment includes the broker 1 more than once.",
        )
        assert reassign(client, topic, 0, [1], may_change_factor=False) == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor is changed from 2 to 1",
        )
        assert reassign(client, topic, 0, None)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert reassign(client, topic, 0, [1, 2]) == (ErrorCode.NONE, None)


def test_elections(three_nodes: NodeCluster, unique_name: str) -> None:
    topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]])
    with three_nodes.wire() as client:
        for kind in (PREFERRED, UNCLEAN):
            assert elect(client, kind, topic, 0) is ErrorCode.ELECTION_NOT_NEEDED
            assert elect(client, kind, topic, 7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert elect(client, kind, "no-such-topic", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_is_not_registered(three_nodes: NodeCluster) -> None:
    with three_nodes.wire() as client:
        answer = client.call(UnregisterBrokerRequest(broker_id=99))
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        "Broker ID 99 is not currently registered",
    )


def test_more_replicas_than_brokers(three_nodes: NodeCluster, unique_name: str) -> None:
    too_few = (
        "The target replication factor of 4 cannot be reached because only 3 broker(s) are registered or "
        "some brokers have all their log directories cordoned."
    )
    with three_nodes.wire() as client:
        assert create(client, CreatableTopic(name=unique_name, num_partitions=1, replication_factor=4)) == (
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition 4 time(s): {too_few}",
        )
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 9])
        assert create(
            client,
            CreatableTopic(
                name=unique_name, num_partitions=-1, replication_factor=-1, assignments=[assignment]
            ),
        ) == (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        )
        topic = three_nodes.create_topic(unique_name, assignments=[[1, 2]])
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=1, assignments=None)], timeout_ms=30_000
        )
        answer = client.call(request, 3).results[0]
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.INVALID_PARTITIONS,
            "Topic already has 1 partition(s).",
        )
