"""Descriptions of streams groups: StreamsGroupDescribe 0-1, and their entries in ListGroups.

v1 gives the name of the assignor (KIP-1357) and, where it is asked for and held, the description of the
topology (KIP-1331).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from ottla.core.coordination.api import RequestReceived
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.streams.group import NO_OFFSETS, StreamsGroup, StreamsMember
from ottla.core.groups.streams.tasks import HeldTasks, TargetTasks, TaskId, task_ids_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_groups_response import ListedGroup
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    TaskIds,
    TaskOffset,
    Topology,
)

PROTOCOL_TYPE = "streams"


class DescriptionStatus(enum.IntEnum):
    """Whether the answer has the description of a group's topology."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


def describe(context: ShardContext, event: RequestReceived, request: StreamsGroupDescribeRequest) -> None:
    """Answer for all groups of the request."""
    groups = [
        _described(context, group_id, request.include_topology_description) for group_id in request.group_ids
    ]
    context.outbox.reply(event.request_id, StreamsGroupDescribeResponse(groups=groups))


def listed(group: StreamsGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=PROTOCOL_TYPE,
        group_state=group.state.value,
        group_type=GroupKind.STREAMS.value,
    )


def _described(context: ShardContext, group_id: str, with_description: bool) -> DescribedGroup:
    group = context.streams.get(group_id)
    if group is None or not group.is_in_log:
        known = context.kind_of(group_id) not in (None, GroupKind.STREAMS)
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is not a streams group."
            if known
            else f"Group {group_id} not found.",
        )
    held = group.description
    if held is not None and (group.topology is None or held.topology_epoch != group.topology.epoch):
        held = None
    status = DescriptionStatus.NOT_REQUESTED
    if with_description:
        status = DescriptionStatus.NOT_STORED if held is None else DescriptionStatus.AVAILABLE
    return DescribedGroup(
        group_id=group_id,
        topology_description=held.description if held is not None and with_description else None,
        topology_description_status=status,
        assignor_name=context.settings.of(group_id).streams_assignor,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology | None:
    """The topology, with the partition counts on the cluster's topics if those are known."""
    if group.configured is not None and group.configured.is_ready:
        return group.configured.described()
    return None if group.topology is None else group.topology.described()


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    endpoint, target = member.user_endpoint, group.targets.get(member.member_id)
    reported = group.reported_offsets.get(member.member_id, NO_OFFSETS)
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=_offsets(reported.offsets),
        task_end_offsets=_offsets(reported.end_offsets),
        assignment=_assignment(member.assigned),
        target_assignment=Assignment() if target is None else _assignment(target),
    )


def _offsets(by_task: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=task.subtopology_id, partition=task.partition, offset=offset)
        for task, offset in by_task.items()
    ]


def _assignment(tasks: HeldTasks | TargetTasks) -> Assignment:
    return Assignment(
        active_tasks=task_ids_of(TaskIds, tasks.active),
        standby_tasks=task_ids_of(TaskIds, tasks.standby),
        warmup_tasks=task_ids_of(TaskIds, tasks.warmup),
    )
