"""Metadata while a broker is away: live brokers, offline replicas, partitions without a leader."""

from __future__ import annotations

from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from support.servers.clusters import NodeCluster

AWAY = 3


def partitions_of(topics: list[Any]) -> list[Any]:
    """All partitions, in the order of their topics and numbers."""
    by_name = sorted(topics, key=lambda topic: topic.name)
    return [
        each
        for topic in by_name
        for each in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    ]


def described(cluster: NodeCluster, topics: list[str]) -> list[Any]:
    """The partitions that DescribeTopicPartitions answers."""
    asked = [TopicRequest(name=topic) for topic in topics]
    with cluster.wire(1) as client:
        answer = client.call(DescribeTopicPartitionsRequest(topics=asked, cursor=None))
    return partitions_of(answer.topics)


def told(cluster: NodeCluster, topics: list[str], version: int) -> Any:
    asked = [MetadataRequestTopic(name=topic) for topic in topics]
    with cluster.wire(1) as client:
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=version < 4)
        return client.call(request, version)


def test_a_broker_that_is_away(three_nodes: NodeCluster, unique_name: str) -> None:
    topics = [
        three_nodes.create_topic(f"{unique_name}-a", assignments=[[AWAY]]),
        three_nodes.create_topic(f"{unique_name}-b", assignments=[[1, AWAY], [AWAY, 2]]),
    ]
    # when
    three_nodes.stop(AWAY)
    three_nodes.eventually(
        lambda: AWAY not in [each.node_id for each in told(three_nodes, topics, 12).brokers], "it is gone"
    )
    # then
    answer = told(three_nodes, topics, 12)
    assert [each.node_id for each in answer.brokers] == [1, 2]
    assert answer.controller_id in (1, 2)
    partitions = partitions_of(answer.topics)
    assert [each.error_code for each in partitions] == [
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert [each.leader_id for each in partitions] == [-1, 1, 2]
    assert [list(each.offline_replicas) for each in partitions] == [[AWAY]] * 3
    assert [list(each.replica_nodes) for each in partitions] == [[AWAY], [1, AWAY], [AWAY, 2]]
    assert [list(each.isr_nodes) for each in partitions] == [[], [1], [2]]
    # the same in other words
    again = described(three_nodes, topics)
    assert [each.error_code for each in again] == [ErrorCode.NONE] * 3
    assert [each.leader_id for each in again] == [-1, 1, 2]
    assert [list(each.offline_replicas) for each in again] == [[AWAY]] * 3
    assert list(again[0].eligible_leader_replicas or []) == [AWAY]
    # and to the oldest clients
    oldest = partitions_of(told(three_nodes, topics, 0).topics)
    assert [each.error_code for each in oldest] == [
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    ]
    assert [list(each.replica_nodes) for each in oldest] == [[], [1], [2]]
    # and which brokers there are, with those that are not there
    with_fenced = {
        each.broker_id: each.is_fenced for each in three_nodes.describe(include_fenced=True, of=1).brokers
    }
    assert with_fenced == {1: False, 2: False, AWAY: True}
    assert [each.broker_id for each in three_nodes.describe(of=1).brokers] == [1, 2]
