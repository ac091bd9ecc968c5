"""Makes the internal topics that a streams group misses, and tells the group's shard how that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.controller.topic_creation import create_topics
from ottla.core.groups.streams.api import CreateInternalTopics, InternalTopicsCreated
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_shard import ShardRunner
    from ottla.broker.coordinators.node import StreamsTopicsNode

BROKER_DEFAULT = -1


def create_internal_topics(
    node: StreamsTopicsNode, runner: ShardRunner, effect: CreateInternalTopics
) -> None:
    """Begin to make the topics; the shard hears of the end, unless it has ended itself."""
    node.supervisor.spawn(f"streams-topics-{effect.group_id}", _create(node, runner, effect))


async def _create(node: StreamsTopicsNode, runner: ShardRunner, effect: CreateInternalTopics) -> None:
    topics = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partition_count,
            replication_factor=topic.replication_factor or BROKER_DEFAULT,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
        )
        for topic in effect.topics
    ]
    names = tuple(topic.name for topic in effect.topics)
    errors: dict[str, str] = {}
    try:
        answer = await create_topics(node, topics)
    except KafkaError as failure:
        errors = dict.fromkeys(names, str(failure))
    else:
        for result in answer.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                errors[result.name] = result.error_message or ErrorCode(result.error_code).message
    runner.tell(lambda at: InternalTopicsCreated(at, effect.group_id, names, errors))
