"""The member's own data in a StreamsGroupHeartbeat."""

from __future__ import annotations

from dataclasses import replace

from ottla.core.coordination.api import Client
from ottla.core.groups.streams.group import Endpoint, StreamsMember
from ottla.core.groups.streams.tasks import TargetTasks, tasks_of
from ottla.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest


def updated_member(
    member: StreamsMember, request: StreamsGroupHeartbeatRequest, client: Client
) -> StreamsMember:
    """The member with the fields that the heartbeat has; null fields stay."""
    endpoint, tags, topology = request.user_endpoint, request.client_tags, request.topology
    return replace(
        member,
        client_id=client.client_id,
        client_host=client.client_host,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms
        if request.rebalance_timeout_ms == -1
        else request.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if topology is None else topology.epoch,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


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
