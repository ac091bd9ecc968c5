"""OffsetForLeaderEpoch (API key 23): versions 2 to 4, where a leader epoch ended (KIP-101, KIP-320).

Leaders answer consumers and followers alike; a debugging consumer (replica id -2) is answered by any replica.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from ottla.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


DEBUGGING_CONSUMER = -2
NO_EPOCH = -1
NO_OFFSET = -1


async def offset_for_leader_epoch(
    node: Node, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """The end offset of the largest epoch at or below each epoch of the request."""
    may = node.authorization
    refused: Collection[str] = ()
    if not may.allows_unnamed(context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        names = (topic.topic for topic in request.topics)
        refused = may.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    results = []
    async for topic in in_turns(request.topics):
        if topic.topic in refused:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            unauthorized = [
                EpochEndOffset(
                    error_code=code, partition=each.partition, leader_epoch=NO_EPOCH, end_offset=NO_OFFSET
                )
                for each in topic.partitions
            ]
            results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=unauthorized))
            continue
        partitions = [
            _answer(node, request.replica_id, topic.topic, wanted)
            async for wanted in in_turns(topic.partitions)
        ]
        results.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=results)


def _answer(node: Node, replica_id: int, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        if replica_id == DEBUGGING_CONSUMER:
            partition = node.partitions.replica(topic, wanted.partition)
        else:
            partition = node.partitions.partition(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(
            error_code=error.code, partition=wanted.partition, leader_epoch=-1, end_offset=-1
        )
    epoch, end_offset = partition.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(error_code=0, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


HANDLERS = {ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch}
