"""The group APIs: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups.

    JoinGroup 0-9       0: the session timeout stands for the rebalance timeout too
    SyncGroup 0-5, Heartbeat 0-4
    LeaveGroup 0-5      0-2: one member, named in the request itself, whose error is the answer's
    DescribeGroups 0-6  3: authorized operations; 6: GROUP_ID_NOT_FOUND instead of a Dead group (KIP-1043)
    ListGroups 0-5      4: filter by state (KIP-518); 5: by type (KIP-848)
    DeleteGroups 0-2

The answers are decided in core/groups; here requests of several groups are split by coordinator partition and
old versions are brought to the newest shape. While a partition loads its groups, heartbeats are answered
NONE: the members' sessions have not begun again, and an error would make them rejoin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.network.context import RequestContext
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.join_group_request import JoinGroupRequest
from ottla.protocol.messages.join_group_response import JoinGroupResponse
from ottla.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.leave_group_response import LeaveGroupResponse
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from ottla.protocol.messages.sync_group_request import SyncGroupRequest
from ottla.protocol.messages.sync_group_response import SyncGroupResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

NO_GENERATION = -1
FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5
FIRST_LEAVE_VERSION_WITH_MEMBERS = 3


async def join_group(node: Node, context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
    if not may_read_group(node, context, request.group_id):
        names_none = context.api_version >= FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL
        return JoinGroupResponse(
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
            generation_id=NO_GENERATION,
            protocol_name=None if names_none else "",
        )
    if context.api_version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    assert isinstance(answer, JoinGroupResponse)
    if answer.error_code and context.api_version >= FIRST_JOIN_VERSION_WITH_NULL_PROTOCOL:
        answer.protocol_name = None
    return answer


def sync_group(
    node: Node, context: RequestContext, request: SyncGroupRequest
) -> Message | Awaitable[Message]:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and not names_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not may_read_group(node, context, request.group_id):
        return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return node.groups.request(request.group_id, request, context)


async def heartbeat(node: Node, context: RequestContext, request: HeartbeatRequest) -> Message:
    if not may_read_group(node, context, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    if isinstance(answer, HeartbeatResponse) and answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        answer.error_code = ErrorCode.NONE
    return answer


async def leave_group(node: Node, context: RequestContext, request: LeaveGroupRequest) -> Message:
    if not may_read_group(node, context, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    has_members = context.api_version >= FIRST_LEAVE_VERSION_WITH_MEMBERS
    if not has_members:
        request.members = [MemberIdentity(member_id=request.member_id)]
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    assert isinstance(answer, LeaveGroupResponse)
    if not has_members:
        if not answer.error_code and answer.members:
            answer.error_code = answer.members[0].error_code
        answer.members = []
    return answer


async def describe_groups(
    node: Node, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    refused = node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)
    described = {
        group_id: DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in request.groups
        if group_id in refused
    }
    for partition, group_ids in by_partition(node, (each for each in request.groups if each not in refused)):
        part = DescribeGroupsRequest(groups=group_ids)
        answer = await answer_of(node.groups.request_of_partition(partition, part, context))
        assert isinstance(answer, DescribeGroupsResponse)
        described.update((group.group_id, group) for group in answer.groups)
    if request.include_authorized_operations:
        for group in described.values():
            if not group.error_code:
                group.authorized_operations = node.authorization.operations(
                    context, ResourceType.GROUP, group.group_id
                )
    return DescribeGroupsResponse(groups=list(described.values()))


async def list_groups(node: Node, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates and the client may know of: a client asks every broker."""
    may = node.authorization.allows_unnamed
    sees_all = may(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    listed: list[ListedGroup] = []
    for partition in node.groups.partitions():
        answer = await answer_of(node.groups.request_of_partition(partition, request, context))
        assert isinstance(answer, ListGroupsResponse)
        if answer.error_code == ErrorCode.NOT_COORDINATOR:
            continue  # Lost while the other partitions answered.
        if answer.error_code:
            return ListGroupsResponse(error_code=answer.error_code)
        listed += [
            group
            for group in answer.groups
            if sees_all or may(context, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
    return ListGroupsResponse(groups=listed)


async def delete_groups(
    node: Node, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse:
    names = request.groups_names
    refused = node.authorization.refused(context, AclOperation.DELETE, ResourceType.GROUP, names)
    results: list[DeletableGroupResult] = []
    for partition, group_ids in by_partition(node, (name for name in names if name not in refused)):
        part = DeleteGroupsRequest(groups_names=group_ids)
        answer = await answer_of(node.groups.request_of_partition(partition, part, context))
        assert isinstance(answer, DeleteGroupsResponse)
        results += answer.results
    results += [
        DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in dict.fromkeys(names)
        if name in refused
    ]
    return DeleteGroupsResponse(results=results)


def may_read_group(node: Node, context: RequestContext, group_id: str) -> bool:
    """Whether the client may be a member of the group, and commit its offsets."""
    return node.authorization.allows(context, AclOperation.READ, ResourceType.GROUP, group_id)


def by_partition(node: Node, group_ids: Iterable[str]) -> list[tuple[int, list[str]]]:
    """Group ids (each once) by the coordinator partition they belong to."""
    split: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(group_ids):
        split.setdefault(node.groups.partition_for(group_id), []).append(group_id)
    return list(split.items())


HANDLERS = {
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
}
