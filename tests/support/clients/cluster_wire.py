"""Requests about a cluster of several nodes in a few words, over `support.clients.wire`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.clients.wire import WireClient
from support.servers.clusters import NodeCluster

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
LATEST, EARLIEST = -1, -2
GROUP_KEY, TRANSACTION_KEY = 0, 1


class Ongoing(NamedTuple):
    """A reassignment that goes on."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


def reassign(
    client: WireClient, topic: str, targets: Mapping[int, Sequence[int] | None]
) -> dict[int, ErrorCode]:
    """AlterPartitionReassignments; None cancels. The errors by partition."""
    partitions = [
        ReassignablePartition(partition_index=index, replicas=None if target is None else list(target))
        for index, target in targets.items()
    ]
    answer = client.call(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)])
    )
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        each.partition_index: ErrorCode(each.error_code)
        for found in answer.responses
        for each in found.partitions
    }


def ongoing_reassignments(client: WireClient) -> dict[tuple[str, int], Ongoing]:
    """ListPartitionReassignments of everything."""
    answer = client.call(ListPartitionReassignmentsRequest(topics=None))
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        (topic.name, each.partition_index): Ongoing(
            each.replicas, sorted(each.adding_replicas), sorted(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def elect(client: WireClient, election_type: int, topic: str, *partitions: int) -> dict[int, ErrorCode]:
    """ElectLeaders; the errors by partition."""
    asked = [TopicPartitions(topic=topic, partitions=list(partitions))]
    answer = client.call(
        ElectLeadersRequest(election_type=election_type, topic_partitions=asked, timeout_ms=10_000)
    )
    assert answer.error_code == ErrorCode.NONE, answer
    return {
        each.partition_id: ErrorCode(each.error_code)
        for result in answer.replica_election_results
        for each in result.partition_result
    }


def alter_configs(
    client: WireClient, resource_type: int, name: str, values: Mapping[str, str | None]
) -> ErrorCode:
    """IncrementalAlterConfigs of one resource; None deletes."""
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    return ErrorCode(answer.responses[0].error_code)


def describe_config(client: WireClient, resource_type: int, name: str, key: str) -> Any:
    """DescribeConfigs of one key: the resource's part of the answer."""
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=[key]
    )
    return client.call(DescribeConfigsRequest(resources=[resource])).results[0]


def describe_partitions(
    client: WireClient, topics: Sequence[str], *, limit: int = 2000, after: tuple[str, int] | None = None
) -> Any:
    """DescribeTopicPartitions, from a cursor on."""
    cursor = None if after is None else Cursor(topic_name=after[0], partition_index=after[1])
    return client.call(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in topics],
            response_partition_limit=limit,
            cursor=cursor,
        )
    )


def consumer_fetch(
    client: WireClient,
    topic: str,
    index: int = 0,
    offset: int = 0,
    *,
    rack: str = "",
    current_leader_epoch: int = -1,
    version: int = 12,
) -> Any:
    """A consumer's Fetch of one partition: the partition's part of the answer."""
    partition = FetchPartition(
        partition=index,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    answer = client.call(
        FetchRequest(
            max_wait_ms=100,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[
                FetchTopic(topic=topic, partitions=[partition])
                if version < 13
                else FetchTopic(topic_id=client.topic_id(topic), partitions=[partition])
            ],
            rack_id=rack,
        ),
        version,
    )
    assert answer.error_code == ErrorCode.NONE, answer
    return answer.responses[0].partitions[0]


def list_offset(client: WireClient, topic: str, index: int = 0, timestamp: int = LATEST) -> Any:
    """ListOffsets of one partition."""
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    answer = client.call(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]), 7
    )
    return answer.topics[0].partitions[0]


def end_offset_of_epoch(
    client: WireClient, topic: str, index: int, epoch: int, *, current_leader_epoch: int = -1
) -> Any:
    """OffsetForLeaderEpoch of one partition, as a consumer asks."""
    partition = OffsetForLeaderPartition(
        partition=index, current_leader_epoch=current_leader_epoch, leader_epoch=epoch
    )
    answer = client.call(
        OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[partition])]
        )
    )
    return answer.topics[0].partitions[0]


def find_coordinator(client: WireClient, key: str, key_type: int = GROUP_KEY) -> Any:
    """FindCoordinator of one key."""
    answer = client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
    return answer.coordinators[0]


def coordinator_of(cluster: NodeCluster, key: str, key_type: int = GROUP_KEY) -> int:
    """The node that coordinates, waited for."""
    found: list[int] = []

    def known() -> bool:
        with cluster.wire() as client:
            answer = find_coordinator(client, key, key_type)
        found[:] = [answer.node_id]
        return bool(answer.error_code == ErrorCode.NONE and cluster.nodes[answer.node_id].serving)

    cluster.eventually(known, f"a coordinator of {key}")
    return found[0]


def produce_to_leader(cluster: NodeCluster, topic: str, index: int, records: bytes, acks: int = -1) -> Any:
    """Produce to the leader, again and again while leadership moves; the first answer without NOT_LEADER."""
    moving = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    found: list[Any] = []

    def answered() -> bool:
        leader = cluster.partition(topic, index).leader_id
        if leader < 0 or not cluster.nodes[leader].serving:
            return False
        with cluster.wire(leader) as client:
            found[:] = [client.produce(topic, index, records, acks)]
        return found[0].error_code not in moving

    cluster.eventually(answered, f"the leader of {topic}-{index} answers")
    return found[0]
