"""Creates topics that no client created: those of coordinators, and those that clients ask the metadata of.

A topic is used here as soon as it is made, so an answer waits until this node's own metadata has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.broker.config import AUDIT_LOG_REPLICATION_FACTOR
from ottla.config.setting import Setting
from ottla.core.decisions.topic_names import AUDIT_TOPIC, GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode, KafkaError, RequestTimedOut, error_class
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.controller.node import TopicCreator

log = logging.getLogger("ottla.broker")

#: A topic of many partitions by default must not make the topics of one request too much for one batch.
AUTO_CREATED_AT_ONCE: Final = 100
#: The wait for a controller while a client waits: short, as the client asks again.
CONTROLLER_TIMEOUT_MS: Final = 5_000
#: Longer than a follower of the metadata lags behind, shorter than clients wait.
APPLIED_TIMEOUT_SECONDS: Final = 5.0

#: topic -> settings of its partitions (None: one), replication factor and segment size (None: the default).
INTERNAL_TOPIC_SIZES: Final[Mapping[str, tuple[Setting[int] | None, Setting[int], Setting[int] | None]]] = {
    GROUP_TOPIC: (
        broker_settings.OFFSETS_TOPIC_NUM_PARTITIONS,
        broker_settings.OFFSETS_TOPIC_REPLICATION_FACTOR,
        broker_settings.OFFSETS_TOPIC_SEGMENT_BYTES,
    ),
    TRANSACTION_TOPIC: (
        broker_settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS,
        broker_settings.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
        broker_settings.TRANSACTION_STATE_LOG_SEGMENT_BYTES,
    ),
    SHARE_TOPIC: (
        broker_settings.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
        broker_settings.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
        broker_settings.SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES,
    ),
    AUDIT_TOPIC: (None, AUDIT_LOG_REPLICATION_FACTOR, None),
}
INTERNAL_TOPIC_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    GROUP_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    AUDIT_TOPIC: {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "message.timestamp.type": "CreateTime",
        # A node whose clock is wrong is heard too.
        "message.timestamp.after.max.ms": str(2**63 - 1),
        "message.timestamp.before.max.ms": str(2**63 - 1),
        "retention.bytes": "-1",
        "retention.ms": str(365 * 24 * 3_600_000),
        "unclean.leader.election.enable": "false",
    },
}
INTERNAL_TOPIC_MIN_ISR: Final[Mapping[str, Setting[int] | int]] = {
    AUDIT_TOPIC: 2,
    TRANSACTION_TOPIC: broker_settings.TRANSACTION_STATE_LOG_MIN_ISR,
    SHARE_TOPIC: broker_settings.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR,
}


async def create_topics(node: TopicCreator, topics: Sequence[CreatableTopic]) -> CreateTopicsResponse:
    """The controller's answer, topic by topic, once the topics that it made are known here.

    Raises KafkaError.
    """
    request = CreateTopicsRequest(topics=list(topics))
    answer = await node.controller_channel.ask(request, timeout_ms=CONTROLLER_TIMEOUT_MS)
    assert isinstance(answer, CreateTopicsResponse)
    known = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    await _applied(node, [each.name for each in answer.topics if each.error_code in known])
    return answer


async def _applied(node: TopicCreator, names: Sequence[str]) -> None:
    """Wait until this node's metadata has the topics; one that was deleted meanwhile costs the whole time."""
    try:
        async with asyncio.timeout(APPLIED_TIMEOUT_SECONDS):
            while any(name not in node.image.topics for name in names):
                await node.controller.wait_for(node.image.last_offset + 1)
    except TimeoutError:
        raise RequestTimedOut("the new topics are not known to this broker yet") from None


async def auto_create_topics(node: TopicCreator, names: Sequence[str]) -> dict[str, ErrorCode]:
    """Create topics with the defaults, unless they exist (by now).

    Returns the errors of those that failed.
    """
    failed: dict[str, ErrorCode] = {}
    for name in INTERNAL_TOPIC_SIZES:
        if name in names:
            try:
                await create_internal_topic(node, name)
            except KafkaError as error:
                failed[name] = _told(error)
    wanted = [name for name in dict.fromkeys(names) if name not in INTERNAL_TOPIC_SIZES]
    for first in range(0, len(wanted), AUTO_CREATED_AT_ONCE):
        topics = [
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
            for name in wanted[first : first + AUTO_CREATED_AT_ONCE]
        ]
        try:
            answer = await create_topics(node, topics)
        except KafkaError as error:
            failed |= dict.fromkeys((topic.name for topic in topics), _told(error))
            continue
        for result in answer.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                failed[result.name] = ErrorCode(result.error_code)
    return failed


def _told(error: KafkaError) -> ErrorCode:
    """The error for clients: a topic that no controller has made yet does not exist yet."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(error, RequestTimedOut) else error.code


async def create_internal_topic(node: TopicCreator, name: str) -> None:
    """Create a coordinator's topic with the sizes of its settings, unless it exists (by now). Raises
    KafkaError.

    The replication factor is at most the number of brokers: a small cluster works, a grown one can be given
    more replicas later. A factor that was set for a cluster of several nodes holds as it is: a request that
    comes before the other brokers have registered must wait, or the topic would stay with too few replicas.
    """
    partitions, factor, segment_bytes = INTERNAL_TOPIC_SIZES[name]
    config = node.config
    replicas = config[factor]
    if config.quorum_alone or factor.name not in config.static:
        replicas = min(replicas, max(1, len(node.image.brokers)))
    configs = dict(INTERNAL_TOPIC_CONFIGS[name])
    if segment_bytes is not None:
        configs["segment.bytes"] = str(config[segment_bytes])
    min_isr = INTERNAL_TOPIC_MIN_ISR.get(name)
    if min_isr is not None:
        wanted = min_isr if isinstance(min_isr, int) else config[min_isr]
        configs["min.insync.replicas"] = str(min(wanted, replicas))
    topic = CreatableTopic(
        name=name,
        num_partitions=1 if partitions is None else config[partitions],
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    result = (await create_topics(node, [topic])).topics[0]
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise error_class(result.error_code)(result.error_message or "")
