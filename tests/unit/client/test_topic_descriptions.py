"""Descriptions of topics: pages put together, cursors that stand still, brokers without the request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.admin.descriptions import describe_topics
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from support.clients.scripted_cluster import ScriptedCluster, scripted_cluster


def run(story: Callable[[ScriptedCluster, ClusterRequests], Awaitable[None]], **versions: Any) -> None:
    async def told() -> None:
        given = {ApiKey[name]: each for name, each in versions.items()}
        async with scripted_cluster(1, given) as cluster:
            requests = ClusterRequests(cluster.access)
            try:
                await story(cluster, requests)
            finally:
                await requests.close()

    asyncio.run(told())


def paged(partitions: dict[str, int]) -> Callable[[int, Any], DescribeTopicPartitionsResponse]:
    """A broker that describes topics a few partitions at a time, as Kafka does: in the order of the names."""

    def describe(node: int, body: Any) -> DescribeTopicPartitionsResponse:
        names = sorted(topic.name for topic in body.topics)
        start = body.cursor.partition_index if body.cursor else 0
        if body.cursor:
            names = [name for name in names if name >= body.cursor.topic_name]
        room = random.randrange(1, 10)
        topics = []
        for name in names:
            if name not in partitions:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                topics.append(DescribeTopicPartitionsResponseTopic(name=name, error_code=code))
                continue
            first = start if body.cursor and name == body.cursor.topic_name else 0
            last = min(partitions[name], first + room)
            shown = [
                DescribeTopicPartitionsResponsePartition(partition_index=number)
                for number in range(first, last)
            ]
            topics.append(DescribeTopicPartitionsResponseTopic(name=name, partitions=shown))
            room -= len(shown)
            if last < partitions[name]:
                cursor = Cursor(topic_name=name, partition_index=last)
                return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)
        return DescribeTopicPartitionsResponse(topics=topics)

    return describe


@pytest.mark.parametrize("turn", range(10))
def test_pages_are_put_together(turn: int) -> None:
    partitions = {f"topic-{number}": random.randrange(1, 25) for number in range(random.randrange(1, 12))}
    missing = {"absent", "topic-00", "zzz"}

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = paged(partitions)
        wanted = [*partitions, *missing]
        random.shuffle(wanted)
        found = await describe_topics(requests, wanted)
        assert list(found) == sorted(wanted)
        for name, count in partitions.items():
            topic = found[name]
            assert not isinstance(topic, ClusterError)
            assert [one.partition_index for one in topic.partitions] == list(range(count))
        assert all(isinstance(found[name], NoSuchTopic) for name in missing)

    run(story)


def test_a_cursor_that_stands_still_ends_the_description() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = lambda node, body: (
            DescribeTopicPartitionsResponse(next_cursor=Cursor(topic_name="a", partition_index=3))
        )
        with pytest.raises(ClusterError, match="does not go on after a-3"):
            await describe_topics(requests, ["a", "b"])
        assert cluster.count(ApiKey.DESCRIBE_TOPIC_PARTITIONS) == 2

    run(story)


def test_a_broker_without_the_request_is_asked_for_metadata() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.METADATA] = lambda node, body: cluster.metadata(
            topics=[
                MetadataResponseTopic(name="a", partitions=[MetadataResponsePartition(leader_id=1)]),
                MetadataResponseTopic(name="b", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ]
        )
        found = await describe_topics(requests, ["a", "b"])
        assert isinstance(found["a"], MetadataResponseTopic)
        assert isinstance(found["b"], ClusterError)
        assert found["b"].code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(story, DESCRIBE_TOPIC_PARTITIONS=(100, 100))
