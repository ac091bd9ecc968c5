"""Share groups (KIP-932): the APIs of membership and of positions, for members and administrators.

    ShareGroupHeartbeat 1, ShareGroupDescribe 1
    DescribeShareGroupOffsets 0-1   1: lag (KIP-1226); all of a group's partitions with null
    AlterShareGroupOffsets 0, DeleteShareGroupOffsets 0

The answers are decided in core/groups/share; positions come from the share coordinator, and a lag is the
distance from a position to the high watermark. Where there is no position, -1 is no error, as with
OffsetFetch. Without share.version in the cluster's features every answer is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Collection, Sequence
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.handlers.coordinators.groups import may_read_group
from ottla.broker.network.context import RequestContext
from ottla.core.groups.share.responses import share_group_error
from ottla.core.image.features import SHARE_VERSION
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.read_share_group_state_summary_request import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from ottla.protocol.messages.read_share_group_state_summary_response import PartitionResult
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

LONGEST_MEMBER_ID = 36
"""The canonical text of a UUID."""
NO_OFFSET = -1
NO_LAG = -1
NO_COUNT = -1


def share_group_heartbeat(
    node: Node, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Message | Awaitable[Message]:
    if not _is_enabled(node):
        return share_group_error(request, ErrorCode.UNSUPPORTED_VERSION)
    if not may_read_group(node, context, request.group_id):
        return share_group_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        return share_group_error(request, ErrorCode.INVALID_REQUEST)
    names = request.subscribed_topic_names or ()
    if node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return share_group_error(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return node.groups.request(request.group_id, request, context)


async def share_group_describe(
    node: Node, context: RequestContext, request: ShareGroupDescribeRequest
) -> Message:
    if not _is_enabled(node):
        return share_group_error(request, ErrorCode.UNSUPPORTED_VERSION)
    authorization = node.authorization
    refused = authorization.refused(context, AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    described = [
        DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            if group_id in refused
            else ErrorCode.INVALID_GROUP_ID,
        )
        for group_id in request.group_ids
        if not group_id or group_id in refused
    ]
    for group_id in dict.fromkeys(request.group_ids):
        if group_id and group_id not in refused:
            part = ShareGroupDescribeRequest(group_ids=[group_id])
            answer = await answer_of(node.groups.request(group_id, part, context))
            assert isinstance(answer, ShareGroupDescribeResponse)
            described += answer.groups
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = authorization.operations(
                    context, ResourceType.GROUP, group.group_id
                )
    if authorization.enforced:
        described = [_without_hidden_topics(node, context, group) for group in described]
    return ShareGroupDescribeResponse(groups=described)


def _without_hidden_topics(node: Node, context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    """The group, or an error in its place if it has topics that the client may not describe."""
    topics = (each.topic_name for member in group.members for each in member.assignment.topic_partitions)
    if not node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="the group has topics that the client may not describe",
    )


async def describe_share_group_offsets(
    node: Node, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Message:
    if not _is_enabled(node):
        return share_group_error(request, ErrorCode.UNSUPPORTED_VERSION)
    groups = [await _offsets_of(node, context, wanted) for wanted in request.groups]
    return DescribeShareGroupOffsetsResponse(groups=groups)


async def _offsets_of(
    node: Node, context: RequestContext, wanted: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    authorization = node.authorization
    if not authorization.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, wanted.group_id):
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=wanted.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
    hidden: list[DescribeShareGroupOffsetsResponseTopic] = []
    if wanted.topics is not None:
        refused = authorization.refused(
            context,
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            (topic.topic_name for topic in wanted.topics),
        )
        hidden = [_hidden(topic) for topic in wanted.topics if topic.topic_name in refused]
        topics = [
            _without_positions(node, topic) for topic in wanted.topics if topic.topic_name not in refused
        ]
    else:
        request = DescribeShareGroupOffsetsRequest(groups=[wanted])
        answer = await answer_of(node.groups.request(wanted.group_id, request, context))
        assert isinstance(answer, DescribeShareGroupOffsetsResponse)
        if answer.groups[0].error_code:
            return answer.groups[0]
        topics = [
            topic
            for topic in answer.groups[0].topics
            if authorization.allows_unnamed(
                context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic_name
            )
        ]
    await _add_positions(node, wanted.group_id, topics)
    # Topics that do not exist come last, as in Kafka.
    topics.sort(key=lambda topic: topic.topic_id.int == 0)
    return DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id, topics=topics + hidden)


def _hidden(wanted: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=wanted.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, error_code=code, error_message=code.message
            )
            for index in wanted.partitions
        ],
    )


def _without_positions(
    node: Node, wanted: DescribeShareGroupOffsetsRequestTopic
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = node.image.topics.get(wanted.topic_name)
    described = DescribeShareGroupOffsetsResponseTopic(
        topic_name=wanted.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET)
            for index in wanted.partitions
        ],
    )
    if topic is not None:
        described.topic_id = topic.topic_id
    return described


async def _add_positions(
    node: Node, group_id: str, topics: Sequence[DescribeShareGroupOffsetsResponseTopic]
) -> None:
    """Fill in the positions that the share coordinator has of these partitions, and their lags."""
    asked = [
        ReadStateSummaryData(
            topic_id=topic.topic_id,
            partitions=[PartitionData(partition=each.partition_index) for each in topic.partitions],
        )
        for topic in topics
        if topic.topic_id.int and topic.partitions
    ]
    if not asked:
        return
    answer = await node.share_state.read_summary(
        ReadShareGroupStateSummaryRequest(group_id=group_id, topics=asked)
    )
    found: dict[tuple[uuid.UUID, int], PartitionResult] = {
        (topic.topic_id, each.partition): each for topic in answer.results for each in topic.partitions
    }
    for topic in topics:
        for partition in topic.partitions:
            position = found.get((topic.topic_id, partition.partition_index))
            if position is not None and not position.error_code:
                _add_position(node, topic.topic_name, partition, position)


def _add_position(
    node: Node,
    topic: str,
    partition: DescribeShareGroupOffsetsResponsePartition,
    position: PartitionResult,
) -> None:
    if position.start_offset != NO_OFFSET and position.delivery_complete_count != NO_COUNT:
        try:
            end_offset = node.partitions.partition(topic, partition.partition_index).high_watermark
        except KafkaError as error:
            partition.start_offset = 0
            partition.error_code, partition.error_message = error.code, error.code.message
            return
        partition.lag = end_offset - position.start_offset - position.delivery_complete_count
    partition.start_offset, partition.leader_epoch = position.start_offset, position.leader_epoch


async def alter_share_group_offsets(
    node: Node, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Message:
    if not _is_enabled(node):
        return share_group_error(request, ErrorCode.UNSUPPORTED_VERSION)
    if not may_read_group(node, context, request.group_id):
        return share_group_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = _unreadable(node, context, [topic.topic_name for topic in request.topics])
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    unauthorized = [
        AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=each.partition_index, error_code=code, error_message=code.message
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.topic_name in refused
    ]
    request.topics = [topic for topic in request.topics if topic.topic_name not in refused]
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    if isinstance(answer, AlterShareGroupOffsetsResponse) and not answer.error_code:
        answer.responses += unauthorized
    return answer


async def delete_share_group_offsets(
    node: Node, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Message:
    if not _is_enabled(node):
        return share_group_error(request, ErrorCode.UNSUPPORTED_VERSION)
    if not node.authorization.allows(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return share_group_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = _unreadable(node, context, [topic.topic_name for topic in request.topics])
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    unauthorized = [
        DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, error_code=code, error_message=code.message
        )
        for topic in request.topics
        if topic.topic_name in refused
    ]
    request.topics = [topic for topic in request.topics if topic.topic_name not in refused]
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    if isinstance(answer, DeleteShareGroupOffsetsResponse) and not answer.error_code:
        answer.responses[:0] = unauthorized
    return answer


def _unreadable(node: Node, context: RequestContext, names: Sequence[str]) -> Collection[str]:
    return node.authorization.refused(context, AclOperation.READ, ResourceType.TOPIC, names)


def _is_enabled(node: Node) -> bool:
    return node.image.features.get(SHARE_VERSION, 0) > 0


HANDLERS = {
    ApiKey.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_group_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets,
}
