"""Describes groups of all kinds: their state, members, assignments, and a streams group's topology.

Each kind has a request of its own: DescribeGroups, ConsumerGroupDescribe (KIP-848), ShareGroupDescribe
(KIP-932) and StreamsGroupDescribe (KIP-1071). The coordinators are asked side by side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.client.cluster_requests import Broker, ClusterRequests, CoordinatorType, TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.client.groups.model import GroupDescription, GroupMember, GroupType, Tasks
from ottla.protocol.consumer_embedded import MalformedEmbedded, parse_assignment
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_json import message_json
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.describe_groups_response import DescribeGroupsResponse
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from ottla.protocol.schema import Message

DEAD: Final = "Dead"
CONSUMER_PROTOCOL: Final = "consumer"
MEMBER_TYPES: Final = {0: "classic", 1: "consumer"}
"""The protocol that a member of a consumer group speaks (ConsumerGroupDescribe 1)."""
TOPOLOGY_VERSION: Final = 1

Described = dict[str, "GroupDescription | ClusterError"]


async def describe_groups(client: ClusterRequests, types: Mapping[str, GroupType]) -> Described:
    """Each group of `types`, or its error: GROUP_ID_NOT_FOUND for one that is not there as that type."""
    by_request: dict[GroupType, list[str]] = {}
    for group_id, one in types.items():
        by_request.setdefault(GroupType.CLASSIC if one is GroupType.UNKNOWN else one, []).append(group_id)
    found = await asyncio.gather(*(_describe(client, one, ids) for one, ids in by_request.items()))
    merged = {group_id: answer for described in found for group_id, answer in described.items()}
    return {group_id: merged[group_id] for group_id in types}


async def _describe(client: ClusterRequests, one: GroupType, group_ids: Sequence[str]) -> Described:
    request, answer, read = _REQUESTS[one]

    def parts(response: Any) -> Iterable[tuple[str, int, GroupDescription | ClusterError]]:
        for group in response.groups:
            yield group.group_id, group.error_code, _read(group, read)

    described = await client.ask_coordinators(CoordinatorType.GROUP, group_ids, request, answer, parts)
    coordinators = await client.coordinators(CoordinatorType.GROUP, list(group_ids))
    return {
        group_id: _at(found, coordinators[group_id]) if isinstance(found, GroupDescription) else found
        for group_id, found in described.items()
    }


def _at(group: GroupDescription, coordinator: Broker | ClusterError) -> GroupDescription:
    return group if isinstance(coordinator, ClusterError) else replace(group, coordinator=coordinator)


def _read(group: Any, read: Callable[[Any], GroupDescription]) -> GroupDescription | ClusterError:
    if group.error_code:
        return refusal(group.error_code, group.error_message, f"group {group.group_id}")
    described = read(group)
    if described.state == DEAD:
        return refusal(ErrorCode.GROUP_ID_NOT_FOUND, None, f"group {group.group_id}")
    return described


# -- the kinds ---------------------------------------------------------------------------------------------


def _classic(group: Any) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        protocol_type=group.protocol_type,
        state=group.group_state,
        assignor=group.protocol_data,
        coordinator=None,
        members=tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                assigned=_embedded(group.protocol_type, member.member_assignment),
            )
            for member in group.members
        ),
    )


def _embedded(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions of a member's assignment; None for bytes of another protocol."""
    if not assignment:
        return ()
    if protocol_type != CONSUMER_PROTOCOL:
        return None
    try:
        found = parse_assignment(assignment)
    except MalformedEmbedded:
        return None
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in found.assigned_partitions
        for partition in topic.partitions
    )


def _consumer(group: Any) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        protocol_type=CONSUMER_PROTOCOL,
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=None,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                rack_id=member.rack_id,
                epoch=member.member_epoch,
                assigned=_partitions(member.assignment),
                target=_partitions(member.target_assignment),
                subscribed=tuple(member.subscribed_topic_names),
                regex=member.subscribed_topic_regex or None,
                protocol=MEMBER_TYPES.get(member.member_type),
            )
            for member in group.members
        ),
    )


def _share(group: Any) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.SHARE,
        protocol_type="share",
        state=group.group_state,
        assignor=group.assignor_name,
        coordinator=None,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            GroupMember(
                member.member_id,
                None,
                member.client_id,
                member.client_host,
                rack_id=member.rack_id,
                epoch=member.member_epoch,
                assigned=_partitions(member.assignment),
                subscribed=tuple(member.subscribed_topic_names),
            )
            for member in group.members
        ),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _streams(group: Any) -> GroupDescription:
    sources = {
        one.subtopology_id: (*one.source_topics, *(topic.name for topic in one.repartition_source_topics))
        for one in (group.topology.subtopologies or () if group.topology else ())
    }
    return GroupDescription(
        group_id=group.group_id,
        type=GroupType.STREAMS,
        protocol_type="streams",
        state=group.group_state,
        assignor=group.assignor_name or "",
        coordinator=None,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=tuple(_streams_member(member, sources) for member in group.members),
    )


def _streams_member(member: Any, sources: Mapping[str, Sequence[str]]) -> GroupMember:
    tasks = _tasks(member.assignment)
    endpoint = member.user_endpoint
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        rack_id=member.rack_id,
        epoch=member.member_epoch,
        # a task reads its partition of each source topic of its subtopology
        assigned=tuple(
            TopicPartition(topic, partition)
            for subtopology, partition in tasks.active
            for topic in sources.get(subtopology, ())
        ),
        protocol="classic" if member.is_classic else "streams",
        tasks=tasks,
        target_tasks=_tasks(member.target_assignment),
        process_id=member.process_id,
        endpoint=None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        topology_epoch=member.topology_epoch,
        tags={tag.key: tag.value for tag in member.client_tags},
    )


def _tasks(assignment: Any) -> Tasks:
    return Tasks(
        *(
            tuple((one.subtopology_id, partition) for one in tasks for partition in one.partitions)
            for tasks in (assignment.active_tasks, assignment.standby_tasks, assignment.warmup_tasks)
        )
    )


def _topology(group: Any) -> dict[str, Any] | None:
    if group.topology is None:
        return None
    shown = message_json(group.topology, TOPOLOGY_VERSION)
    if group.topology_description is not None:
        shown["description"] = message_json(group.topology_description, TOPOLOGY_VERSION)
    return shown


_Kind = tuple[Callable[[Sequence[str]], Message], type[Message], Callable[[Any], GroupDescription]]

_REQUESTS: Final[Mapping[GroupType, _Kind]] = {
    GroupType.CLASSIC: (
        lambda ids: DescribeGroupsRequest(groups=list(ids)),
        DescribeGroupsResponse,
        _classic,
    ),
    GroupType.CONSUMER: (
        lambda ids: ConsumerGroupDescribeRequest(group_ids=list(ids)),
        ConsumerGroupDescribeResponse,
        _consumer,
    ),
    GroupType.SHARE: (
        lambda ids: ShareGroupDescribeRequest(group_ids=list(ids)),
        ShareGroupDescribeResponse,
        _share,
    ),
    GroupType.STREAMS: (
        lambda ids: StreamsGroupDescribeRequest(group_ids=list(ids)),
        StreamsGroupDescribeResponse,
        _streams,
    ),
}
