"""What clients are told of a cluster of several brokers: who is there for them, who leads, who is offline."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.authorization import OpenAuthorization
from ottla.broker.config import BrokerConfig
from ottla.broker.handlers.cluster.cluster import describe_cluster
from ottla.broker.handlers.cluster.metadata import describe_topic_partitions, metadata
from ottla.broker.handlers.coordinators.find_coordinator import find_coordinator
from ottla.broker.network.context import RequestContext, Session
from ottla.core.image.image import BrokerImage, EndpointImage, MetadataImage, PartitionImage, TopicImage
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

INSIDE, OUTSIDE = "INSIDE", "OUTSIDE"
HERE, FENCED, INSIDE_ONLY, MOVED = 1, 2, 3, 4
DIRECTORY, LOST_DIRECTORY = uuid.UUID(int=500), uuid.UUID(int=501)
TOPIC_ID = uuid.UUID(int=77)


def broker_image(broker_id: int, *listeners: str, fenced: bool = False) -> BrokerImage:
    return BrokerImage(
        broker_id=broker_id,
        broker_epoch=1,
        incarnation_id=uuid.UUID(int=broker_id),
        endpoints=tuple(EndpointImage(name, f"{name.lower()}-{broker_id}", 9092) for name in listeners),
        rack=f"rack-{broker_id}",
        fenced=fenced,
        log_dirs=(DIRECTORY,),
    )


def partition(index: int, leader: int, **other: Any) -> PartitionImage:
    return PartitionImage(
        partition_id=index,
        replicas=(HERE, FENCED, INSIDE_ONLY),
        isr=(HERE, INSIDE_ONLY),
        leader=leader,
        leader_epoch=3,
        partition_epoch=5,
        directories=(DIRECTORY,) * 3,
        **other,
    )


def cluster(node_id: int = HERE) -> Any:
    """A broker that sees four: itself, a fenced one, one without the outer listener, one more."""
    image = MetadataImage()
    image.brokers = {
        HERE: broker_image(HERE, INSIDE, OUTSIDE),
        FENCED: broker_image(FENCED, INSIDE, OUTSIDE, fenced=True),
        INSIDE_ONLY: broker_image(INSIDE_ONLY, INSIDE),
        MOVED: broker_image(MOVED, INSIDE, OUTSIDE),
    }
    topic = TopicImage(
        "t",
        TOPIC_ID,
        {
            0: partition(0, HERE, elr=(FENCED,), last_known_elr=(MOVED,)),
            1: partition(1, INSIDE_ONLY),
            2: partition(2, -1),
            3: partition(3, HERE)._replace(directories=(LOST_DIRECTORY, DIRECTORY, DIRECTORY)),
        },
    )
    image.topics["t"] = image.topics_by_id[TOPIC_ID] = topic
    return SimpleNamespace(
        image=image,
        node_id=node_id,
        cluster_id="c",
        config=BrokerConfig.from_mapping({}),
        authorization=OpenAuthorization(),
        **dict.fromkeys(("transactions", "share_coordinator")),
        groups=SimpleNamespace(shards=SimpleNamespace(topic="t", partition_for=int)),
    )


def context(api: ApiKey, version: int, listener: str) -> RequestContext:
    return RequestContext(int(api), version, 0, "test", Session("127.0.0.1", listener))


def ask(listener: str, version: int = 12, node_id: int = HERE) -> Any:
    answer = metadata(
        cluster(node_id),
        context(ApiKey.METADATA, version, listener),
        MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False),
    )
    assert not inspect.isawaitable(answer)
    return answer


def test_fenced_brokers_and_those_without_the_listener_are_left_out() -> None:
    inside, outside = ask(INSIDE), ask(OUTSIDE)
    assert [(each.node_id, each.host, each.rack) for each in inside.brokers] == [
        (1, "inside-1", "rack-1"),
        (3, "inside-3", "rack-3"),
        (4, "inside-4", "rack-4"),
    ]
    assert [(each.node_id, each.host) for each in outside.brokers] == [(1, "outside-1"), (4, "outside-4")]


@pytest.mark.parametrize(
    ("listener", "version", "errors"),
    [
        (INSIDE, 12, [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE]),
        (OUTSIDE, 12, [ErrorCode.NONE, ErrorCode.LISTENER_NOT_FOUND, ErrorCode.LEADER_NOT_AVAILABLE]),
        (OUTSIDE, 5, [ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE]),
        (INSIDE, 0, [ErrorCode.REPLICA_NOT_AVAILABLE] * 2 + [ErrorCode.LEADER_NOT_AVAILABLE]),
    ],
)
def test_partitions_say_why_they_have_no_leader(listener: str, version: int, errors: list[ErrorCode]) -> None:
    partitions = ask(listener, version).topics[0].partitions
    assert [each.error_code for each in partitions[:3]] == errors


def test_leaders_replicas_and_who_of_them_is_offline() -> None:
    inside = ask(INSIDE).topics[0].partitions
    outside = ask(OUTSIDE).topics[0].partitions
    assert [each.leader_id for each in inside] == [1, 3, -1, 1]
    assert [each.leader_id for each in outside] == [1, -1, -1, 1]
    assert (inside[0].replica_nodes, inside[0].isr_nodes, inside[0].leader_epoch) == ([1, 2, 3], [1, 3], 3)
    assert [each.offline_replicas for each in inside] == [[2], [2], [2], [1, 2]]
    assert [each.offline_replicas for each in outside] == [[2, 3], [2, 3], [2, 3], [1, 2, 3]]


@pytest.mark.parametrize(("node_id", "listener", "told"), [(1, INSIDE, 1), (4, INSIDE, 4), (3, OUTSIDE, 1)])
def test_the_controller_is_a_broker_that_is_there(node_id: int, listener: str, told: int) -> None:
    assert ask(listener, node_id=node_id).controller_id == told
    described = describe_cluster(
        cluster(node_id), context(ApiKey.DESCRIBE_CLUSTER, 1, listener), DescribeClusterRequest()
    )
    assert described.controller_id == told


def test_describe_cluster_can_list_fenced_brokers() -> None:
    asked = DescribeClusterRequest(include_fenced_brokers=True)
    answer = describe_cluster(cluster(), context(ApiKey.DESCRIBE_CLUSTER, 2, INSIDE), asked)
    assert [(each.broker_id, each.is_fenced) for each in answer.brokers] == [
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]


def test_describe_topic_partitions_tells_eligible_leaders_and_no_errors() -> None:
    asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], cursor=None)
    answer = describe_topic_partitions(
        cluster(), context(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, OUTSIDE), asked
    )
    first, second, third, _ = answer.topics[0].partitions
    assert (first.eligible_leader_replicas, first.last_known_elr) == ([2], [4])
    assert [each.leader_id for each in (first, second, third)] == [1, -1, -1]
    assert [each.error_code for each in (first, second, third)] == [ErrorCode.NONE] * 3
    assert first.offline_replicas == [2, 3]


@pytest.mark.parametrize(
    ("listener", "key", "found"),
    [
        (INSIDE, "1", (3, "inside-3", ErrorCode.NONE)),
        (OUTSIDE, "1", (-1, "", ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        (INSIDE, "2", (-1, "", ErrorCode.COORDINATOR_NOT_AVAILABLE)),
    ],
)
def test_a_coordinator_is_the_leader_wherever_it_is(
    listener: str, key: str, found: tuple[int, str, ErrorCode]
) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[key])
    answer = asyncio.run(find_coordinator(cluster(), context(ApiKey.FIND_COORDINATOR, 4, listener), request))
    (one,) = answer.coordinators
    assert (one.node_id, one.host, one.error_code) == found
