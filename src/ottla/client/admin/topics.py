"""Topics created, grown and deleted, and awaited until all brokers know."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ottla.client.cluster_requests import ClusterRequests, refusal, topic_error
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic

V = TypeVar("V")

BROKERS_CHOICE: Final = -1
"""As a number of partitions or replicas: num.partitions, default.replication.factor."""
SETTLE_SECONDS: Final = 5.0
SETTLE_PAUSE_SECONDS: Final = 0.02

_NOT_YET: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. assignments: partition -> its brokers, in place of both numbers."""

    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was created, or would be. The numbers are -1 for a client who may not see them."""

    name: str
    topic_id: Any
    partitions: int
    replication_factor: int


async def create_topics(
    requests: ClusterRequests, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | ClusterError]:
    """Create topics, or with `validate_only` find out whether they could be. Raises ClusterError."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=BROKERS_CHOICE if topic.assignments else topic.partitions,
                replication_factor=BROKERS_CHOICE if topic.assignments else topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
                    for partition, brokers in topic.assignments.items()
                ],
                configs=[
                    CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=requests.timeout_ms,
        validate_only=validate_only,
    )
    answer = await requests.ask_controller(request, CreateTopicsResponse)
    found: dict[str, CreatedTopic | ClusterError] = {
        one.name: refusal(one.error_code, one.error_message, f"topic {one.name}")
        if one.error_code
        else CreatedTopic(one.name, one.topic_id, one.num_partitions, one.replication_factor)
        for one in answer.topics
    }
    return _in_order([topic.name for topic in topics], found)


async def grow_topics(
    requests: ClusterRequests,
    partitions: Mapping[str, int],
    assignments: Sequence[Sequence[int]] | None = None,
    *,
    validate_only: bool = False,
) -> dict[str, ClusterError | None]:
    """Give topics more partitions: the number of each afterwards. None, or the error, of each.

    assignments: the brokers of each new partition. Raises ClusterError.
    """
    new = (
        None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(one)) for one in assignments]
    )
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=name, count=count, assignments=new)
            for name, count in partitions.items()
        ],
        timeout_ms=requests.timeout_ms,
        validate_only=validate_only,
    )
    answer = await requests.ask_controller(request, CreatePartitionsResponse)
    found = {
        one.name: refusal(one.error_code, one.error_message, f"topic {one.name}") if one.error_code else None
        for one in answer.results
    }
    return _in_order(partitions, found)


async def delete_topics(requests: ClusterRequests, names: Sequence[str]) -> dict[str, ClusterError | None]:
    """Delete topics with all their records. None, or the error, of each. Raises ClusterError."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=requests.timeout_ms,
    )
    answer = await requests.ask_controller(request, DeleteTopicsResponse)
    found = {
        one.name or "": _deletion_error(one.name or "", one.error_code, one.error_message)
        for one in answer.responses
    }
    return _in_order(names, found)


def _in_order(names: Iterable[str], found: Mapping[str, V | ClusterError]) -> dict[str, V | ClusterError]:
    """The outcomes in the order of the request: Apache Kafka answers in another."""
    return {
        name: found.get(name, ClusterError(f"topic {name}: the answer says nothing about it"))
        for name in names
    }


def _deletion_error(name: str, error_code: int, message: str | None) -> ClusterError | None:
    if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return topic_error(name, error_code)
    return refusal(error_code, message, f"topic {name}") if error_code else None


async def settled(requests: ClusterRequests, partitions: Mapping[str, int]) -> None:
    """Wait a few seconds at most until all brokers know of a change.

    partitions: of each topic, 0 for one that is gone.

    The change is made already; waiting lets the next command see it, whichever broker it asks.
    """
    names = list(partitions)

    async def knows(node_id: int) -> bool:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        answer = await requests.ask_node(node_id, request, MetadataResponse)
        return all(_knows(topic, partitions.get(topic.name or "", 0)) for topic in answer.topics)

    if names:
        brokers = (await requests.cluster()).brokers
        await asyncio.gather(*(_until(functools.partial(knows, node_id)) for node_id in brokers))


def _knows(topic: MetadataResponseTopic, partitions: int) -> bool:
    """Whether a broker knows a topic as it now is, with leaders, or does not tell this user."""
    if topic.error_code not in (ErrorCode.NONE, *_NOT_YET):
        return True
    if partitions == 0:
        return topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return len(topic.partitions) >= partitions and all(one.leader_id >= 0 for one in topic.partitions)


async def _until(test: Callable[[], Awaitable[bool]]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLE_SECONDS
    try:
        while not await test() and loop.time() < end:  # noqa: ASYNC110 - the change is at the brokers
            await asyncio.sleep(SETTLE_PAUSE_SECONDS)
    except ClusterError:
        return  # the change is made; the next command says what is wrong with the broker
