"""Changes topics: creates, grows and deletes them (or validates a creation); lists reassignments."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.schema import Message
from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.admin.model import ConfigEntry, ConfigSource, CreatedTopic, NewTopic, Reassignment
from ottla.rest.kafka_errors import raise_for
from ottla.web.errors import ApiError

SETTLE_TRIES: Final = 100
SETTLE_POLL_SECONDS: Final = 0.02
TRIES: Final = 3
"""How often a request for the controller is sent while brokers disagree on which node that is."""


async def create_topic(admin: ClusterAdmin, topic: NewTopic, validate_only: bool = False) -> CreatedTopic:
    """Create a topic, or with `validate_only` find out how it would be created. Raises ApiError."""
    creatable = CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.assignments
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
    request = CreateTopicsRequest(
        topics=[creatable], timeout_ms=admin.timeout_ms, validate_only=validate_only
    )
    (result,) = (await _ask_controller(admin, request, lambda response: response.topics[0].error_code)).topics
    raise_for(result.error_code, result.error_message)
    configs = tuple(
        ConfigEntry(
            config.name,
            None if config.is_sensitive else config.value,
            ConfigSource(config.config_source),
            config.read_only,
            config.is_sensitive,
        )
        for config in result.configs or ()
    )
    return CreatedTopic(result.name, result.num_partitions, result.replication_factor, configs)


async def settled(admin: ClusterAdmin, name: str, partitions: int) -> None:
    """Wait a few seconds at most until brokers know of a change: `partitions` of the topic, 0 for no topic.

    The change is made already; waiting lets a client read its own write.
    """
    with contextlib.suppress(ApiError):
        for _ in range(SETTLE_TRIES):
            if sum(len(topic.partitions) for topic in await admin.topics([name])) == partitions:
                return
            await asyncio.sleep(SETTLE_POLL_SECONDS)


async def grow_topic(admin: ClusterAdmin, name: str, partitions: int) -> None:
    """Give a topic more partitions, so that it has `partitions`. Raises ApiError."""
    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=admin.timeout_ms, validate_only=False)
    (result,) = (
        await _ask_controller(admin, request, lambda response: response.results[0].error_code)
    ).results
    raise_for(result.error_code, result.error_message)


async def delete_topic(admin: ClusterAdmin, name: str) -> None:
    """Delete a topic and its records. Raises ApiError."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=admin.timeout_ms
    )
    response = await _ask_controller(admin, request, lambda response: response.responses[0].error_code)
    (result,) = response.responses
    raise_for(result.error_code, result.error_message)


async def reassignments(
    admin: ClusterAdmin, topic: str | None = None, partitions: Sequence[int] = ()
) -> list[Reassignment]:
    """The partitions whose replicas move now: of the cluster, or of one topic. Raises ApiError."""
    topics = None
    if topic is not None:
        topics = [ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(partitions))]
    request = ListPartitionReassignmentsRequest(timeout_ms=admin.timeout_ms, topics=topics)
    response = await _ask_controller(admin, request, lambda response: response.error_code)
    raise_for(response.error_code, response.error_message)
    return sorted(
        (
            Reassignment(
                topic.name,
                partition.partition_index,
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in response.topics
            for partition in topic.partitions
        ),
        key=lambda moved: (moved.topic, moved.partition),
    )


async def _ask_controller(admin: ClusterAdmin, request: Message, code_of: Any) -> Any:
    """The controller's response; sent again while brokers disagree on which node that is."""
    for _ in range(TRIES - 1):
        response = await admin.ask_controller(request)
        if code_of(response) != ErrorCode.NOT_CONTROLLER:
            return response
    return await admin.ask_controller(request)
