"""The member's own data in a StreamsGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ottla.core.coordination.api import Client
from ottla.core.groups.streams.checks import JOIN_EPOCH, Refused
from ottla.core.groups.streams.group import Endpoint, ReportedOffsets, StreamsMember
from ottla.core.groups.streams.tasks import TargetTasks, TaskId, tasks_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    TaskOffset,
)


def updated_member(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client
) -> StreamsMember:
    """The member with the fields that the heartbeat has; null fields stay, but for the endpoint of a member
    that joins.
    """
    tags, topology, endpoint = request.client_tags, request.topology, member.user_endpoint
    if request.user_endpoint is not None:
        endpoint = Endpoint(request.user_endpoint.host, request.user_endpoint.port)
    elif request.member_epoch == JOIN_EPOCH:
        endpoint = None
    return replace(
        member,
        client_id=client.client_id,
        client_host=client.client_host,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=endpoint,
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


def needs_assignment(before: StreamsMember, after: StreamsMember) -> bool:
    """Whether a change of the member's metadata makes the group assign its tasks anew.

    A static member that comes back under another name, host or endpoint gets its tasks back.
    """
    if after.instance_id is None:
        return before != after
    return (before.topology_epoch, before.rack_id, before.client_tags, before.process_id) != (
        after.topology_epoch,
        after.rack_id,
        after.client_tags,
        after.process_id,
    )


def reported_offsets(known: ReportedOffsets, request: StreamsGroupHeartbeatRequest) -> ReportedOffsets:
    """The offsets that the member has told, with those of this heartbeat. Raises Refused for a task twice."""
    offsets, ends = request.task_offsets, request.task_end_offsets
    return ReportedOffsets(
        known.offsets if offsets is None else _by_task(offsets),
        known.end_offsets if ends is None else _by_task(ends),
    )


def _by_task(told: Sequence[TaskOffset]) -> dict[TaskId, int]:
    by_task: dict[TaskId, int] = {}
    for each in told:
        task = TaskId(each.subtopology_id, each.partition)
        if task in by_task:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {each.subtopology_id} and partition "
                f"{each.partition}.",
            )
        by_task[task] = each.offset
    return by_task


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> TargetTasks | None:
    """The tasks that the heartbeat names as the member's; None if it names none, so they are unchanged."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return TargetTasks(
        tasks_of(request.active_tasks), tasks_of(request.standby_tasks), tasks_of(request.warmup_tasks)
    )


def has_only_assigned(request: StreamsGroupHeartbeatRequest, member: StreamsMember) -> bool:
    """Whether all tasks that the heartbeat names are assigned: then it only lacks the new epoch."""
    owned, assigned = owned_tasks(request), member.assigned
    if owned is None:
        return False
    return (
        all(partitions <= set(assigned.active.get(name, ())) for name, partitions in owned.active.items())
        and all(
            partitions <= assigned.standby.get(name, frozenset())
            for name, partitions in owned.standby.items()
        )
        and all(
            partitions <= assigned.warmup.get(name, frozenset()) for name, partitions in owned.warmup.items()
        )
    )
