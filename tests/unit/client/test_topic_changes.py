"""Changes of topics and settings: outcomes in the order that was asked for, waits that end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.admin import configs, topics
from ottla.client.admin.configs import Change, Operation, Resource, ResourceType, alter_configs
from ottla.client.admin.topics import CreatedTopic, NewTopic, create_topics, delete_topics, grow_topics
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError, NoSuchTopic
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ottla.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from support.clients.scripted_cluster import ScriptedCluster, scripted_cluster

NAMES = [f"topic-{number}" for number in range(20)]
BAD = ErrorCode.INVALID_TOPIC_EXCEPTION


def run(story: Callable[[ScriptedCluster, ClusterRequests], Awaitable[None]], nodes: int = 1) -> None:
    async def told() -> None:
        async with scripted_cluster(nodes) as cluster:
            requests = ClusterRequests(cluster.access)
            try:
                await story(cluster, requests)
            finally:
                await requests.close()

    asyncio.run(told())


def answered() -> list[tuple[str, int]]:
    """Names with error codes as a broker may answer: in any order, and not all."""
    codes = [(name, BAD if name.endswith("3") else ErrorCode.NONE) for name in NAMES if name != "topic-7"]
    random.shuffle(codes)
    return codes


def check(found: dict[str, Any], done: type | None) -> None:
    assert list(found) == NAMES
    for name, outcome in found.items():
        if name == "topic-7":
            assert str(outcome) == "topic topic-7: the answer says nothing about it"
        elif name.endswith("3"):
            assert isinstance(outcome, ClusterError)
            assert outcome.code == BAD
        else:
            assert outcome is None if done is None else isinstance(outcome, done)


def test_outcomes_are_told_in_the_order_of_the_request() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        cluster.handlers[ApiKey.CREATE_TOPICS] = lambda node, body: CreateTopicsResponse(
            topics=[CreatableTopicResult(name=name, error_code=code) for name, code in answered()]
        )
        check(await create_topics(requests, [NewTopic(name) for name in NAMES]), CreatedTopic)
        cluster.handlers[ApiKey.DELETE_TOPICS] = lambda node, body: DeleteTopicsResponse(
            responses=[DeletableTopicResult(name=name, error_code=code) for name, code in answered()]
        )
        check(await delete_topics(requests, NAMES), None)
        cluster.handlers[ApiKey.CREATE_PARTITIONS] = lambda node, body: CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name=name, error_code=code) for name, code in answered()]
        )
        check(await grow_topics(requests, dict.fromkeys(NAMES, 5)), None)

    run(story)


def test_a_topic_that_does_not_exist_is_told_as_that() -> None:
    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.handlers[ApiKey.DELETE_TOPICS] = lambda node, body: DeleteTopicsResponse(
            responses=[DeletableTopicResult(name="a", error_code=code)]
        )
        assert isinstance((await delete_topics(requests, ["a"]))["a"], NoSuchTopic)

    run(story)


def test_a_creation_is_awaited_until_every_broker_has_leaders_for_it() -> None:
    answers: Counter[int] = Counter()

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        def metadata(node: int, body: Any) -> Any:
            answers[node] += bool(body.topics)
            known = answers[node] > node  # the second and third broker come to know later
            partitions = [MetadataResponsePartition(partition_index=0, leader_id=1 if known else -1)]
            shown = [MetadataResponseTopic(name=topic.name, partitions=partitions) for topic in body.topics]
            return cluster.metadata(topics=shown)

        cluster.handlers[ApiKey.METADATA] = metadata
        await topics.settled(requests, {"a": 1})
        assert answers == {1: 2, 2: 3, 3: 4}

    run(story, nodes=3)


@pytest.mark.parametrize("partitions", [0, 5])
def test_a_change_that_no_broker_shows_is_awaited_for_a_moment(
    monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(topics, "SETTLE_SECONDS", 0.1)

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        shown = [MetadataResponseTopic(name="a", partitions=[MetadataResponsePartition(leader_id=1)])]
        cluster.handlers[ApiKey.METADATA] = lambda node, body: cluster.metadata(topics=shown)
        await topics.settled(requests, {"a": partitions})

    run(story)


@pytest.mark.parametrize(
    ("change", "values"),
    [
        (Change("retention.ms", Operation.SET, "5"), [None, "7", "5"]),
        (Change("cleanup.policy", Operation.SET, "Compact, delete"), ["delete", "compact,delete"]),
        (Change("cleanup.policy", Operation.APPEND, "compact"), ["delete", "delete,compact"]),
        (Change("cleanup.policy", Operation.SUBTRACT, "delete"), ["compact,delete", "compact"]),
        (Change("retention.ms", Operation.DELETE), ["5", None]),
    ],
)
def test_a_change_of_a_setting_is_awaited_until_it_is_shown(change: Change, values: list[str | None]) -> None:
    left = list(values)

    async def story(cluster: ScriptedCluster, requests: ClusterRequests) -> None:
        def describe(node: int, body: Any) -> DescribeConfigsResponse:
            value = left.pop(0)
            source = configs.ConfigSource.DEFAULT if value is None else configs.ConfigSource.TOPIC
            shown = DescribeConfigsResourceResult(
                name=change.name, value=value or "default", config_source=source
            )
            result = DescribeConfigsResult(resource_type=2, resource_name="a", configs=[shown])
            return DescribeConfigsResponse(results=[result])

        cluster.handlers[ApiKey.DESCRIBE_CONFIGS] = describe
        cluster.handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda node, body: (
            IncrementalAlterConfigsResponse(
                responses=[AlterConfigsResourceResponse(resource_type=2, resource_name="a")]
            )
        )
        resource = Resource(ResourceType.TOPIC, "a")
        assert await alter_configs(requests, {resource: [change]}) == {resource: None}
        await configs.settled(requests, {resource: [change]})
        assert left == []

    run(story)
