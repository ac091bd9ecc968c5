"""Consumer groups of KIP-848: ConsumerGroupHeartbeat and ConsumerGroupDescribe.

    ConsumerGroupHeartbeat 0-1   1: member ids made by clients (KIP-1082), regular expressions
    ConsumerGroupDescribe 0-1    1: each member's type (KIP-1099)

The answers are decided in core/groups/consumer. Without group.version in the cluster's features, or with
`consumer` left out of group.coordinator.rebalance.protocols, every answer is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.handlers.coordinators.groups import by_partition, may_read_group
from ottla.broker.network.context import RequestContext
from ottla.core.groups.responses import coordinator_error
from ottla.core.image.features import GROUP_VERSION
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


def consumer_group_heartbeat(
    node: Node, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Message | Awaitable[Message]:
    if not _is_enabled(node):
        return coordinator_error(request, ErrorCode.UNSUPPORTED_VERSION)
    if not may_read_group(node, context, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = request.subscribed_topic_names or ()
    if node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return node.groups.request(request.group_id, request, context)


async def consumer_group_describe(
    node: Node, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Message:
    if not _is_enabled(node):
        return coordinator_error(request, ErrorCode.UNSUPPORTED_VERSION)
    authorization = node.authorization
    refused = authorization.refused(context, AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    described = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.group_ids
        if group_id in refused
    ]
    allowed = [group_id for group_id in request.group_ids if group_id not in refused]
    if "" in allowed:
        described.append(DescribedGroup(group_id="", error_code=ErrorCode.INVALID_GROUP_ID))
    for partition, group_ids in by_partition(node, filter(None, allowed)):
        part = ConsumerGroupDescribeRequest(group_ids=group_ids)
        answer = await answer_of(node.groups.request_of_partition(partition, part, context))
        assert isinstance(answer, ConsumerGroupDescribeResponse)
        described += answer.groups
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = authorization.operations(
                    context, ResourceType.GROUP, group.group_id
                )
    if authorization.enforced:
        described = [_without_hidden_topics(node, context, group) for group in described]
    return ConsumerGroupDescribeResponse(groups=described)


def _without_hidden_topics(node: Node, context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    """The group, or an error in its place if it has topics that the client may not describe."""
    topics = (
        partitions.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for partitions in assignment.topic_partitions
    )
    if not node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="the group has topics that the client may not describe",
    )


def _is_enabled(node: Node) -> bool:
    protocols = node.config[broker_settings.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    return node.image.features.get(GROUP_VERSION, 0) > 0 and "consumer" in protocols


HANDLERS = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
}
