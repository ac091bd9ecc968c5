"""Reads consumer groups, their members and their offsets; their coordinators are asked.

Not by librdkafka: bytes that any member of a group may choose (its assignment, say) make it end the process.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ottla.protocol.consumer_embedded import MalformedEmbedded, parse_assignment
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.describe_groups_request import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.schema import Message
from ottla.rest.admin.model import Group, Member
from ottla.rest.kafka_errors import UNSUPPORTED, of_code, raise_for
from ottla.web.errors import ApiError

T = TypeVar("T")

Ask = Callable[[Message, int | None], Awaitable[Any]]
"""The response of the broker with an id, or of any broker. Raises ApiError."""

GROUPS_OF_A_PAGE: Final = 200
CONSUMER_PROTOCOLS: Final = ("consumer", "")
"""The protocol types of groups of consumers, and of groups that only have offsets."""
CLASSIC: Final = "CLASSIC"
CONSUMER: Final = "CONSUMER"
DEAD: Final = "DEAD"
"""The state of a group that does not exist."""
COORDINATOR_TRIES: Final = 50
COORDINATOR_POLL_SECONDS: Final = 0.1
NO_COORDINATOR_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


async def all_groups(ask: Ask, node_ids: Iterable[int]) -> list[Group]:
    """The consumer groups that these brokers coordinate, sorted by id. Raises ApiError."""
    found = await asyncio.gather(*(_groups_of(ask, node_id) for node_id in node_ids))
    groups = {group.id: group for of_node in found for group in of_node if group.state != DEAD}
    return [groups[group_id] for group_id in sorted(groups)]


async def find_group(ask: Ask, group_id: str) -> Group:
    """One consumer group; state DEAD when there is none. Raises ApiError."""

    async def describe(node_id: int) -> tuple[Group, int]:
        group, code = (await _described(ask, node_id, CONSUMER, [group_id]))[0]
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            group, code = (await _described(ask, node_id, CLASSIC, [group_id]))[0]
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            return _missing(group_id, CLASSIC), ErrorCode.NONE
        return group, code

    return await _at_coordinator(ask, group_id, describe)


async def committed_offsets(ask: Ask, group_id: str) -> dict[tuple[str, int], int]:
    """The offsets that a group has committed, by topic and partition. Raises ApiError."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])

    async def fetch(node_id: int) -> tuple[Any, int]:
        (found,) = (await ask(request, node_id)).groups
        return found, found.error_code

    group = await _at_coordinator(ask, group_id, fetch)
    offsets = {}
    for topic in group.topics:
        for partition in topic.partitions:
            raise_for(partition.error_code, None)
            if partition.committed_offset >= 0:
                offsets[topic.name, partition.partition_index] = partition.committed_offset
    return offsets


async def _at_coordinator(ask: Ask, group_id: str, call: Callable[[int], Awaitable[tuple[T, int]]]) -> T:
    """The successful answer of a group's coordinator; asked again while the group has no coordinator."""
    code: int = ErrorCode.NONE
    for _ in range(COORDINATOR_TRIES):
        node_id, code = await _coordinator(ask, group_id)
        if code == ErrorCode.NONE:
            found, code = await call(node_id)
            if code == ErrorCode.NONE:
                return found
        if code not in NO_COORDINATOR_YET:
            break
        # the topic of the groups may have to be made first, and a new coordinator loads its log
        await asyncio.sleep(COORDINATOR_POLL_SECONDS)
    raise of_code(code)


async def _groups_of(ask: Ask, node_id: int) -> list[Group]:
    listed = await ask(ListGroupsRequest(), node_id)
    raise_for(listed.error_code, None)
    by_type: dict[str, list[str]] = {CLASSIC: [], CONSUMER: []}
    for one in listed.groups:
        if one.protocol_type in CONSUMER_PROTOCOLS:
            by_type[CONSUMER if one.group_type.upper() == CONSUMER else CLASSIC].append(one.group_id)
    groups = []
    for group_type, group_ids in by_type.items():
        for start in range(0, len(group_ids), GROUPS_OF_A_PAGE):
            page = group_ids[start : start + GROUPS_OF_A_PAGE]
            for group, code in await _described(ask, node_id, group_type, page):
                # since it was listed, the group has ended or moved to another broker
                if code not in (ErrorCode.GROUP_ID_NOT_FOUND, *NO_COORDINATOR_YET):
                    raise_for(code, None)
                    groups.append(group)
    return groups


async def _coordinator(ask: Ask, group_id: str) -> tuple[int, int]:
    """The broker that coordinates a group, and an error code."""
    response = await ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]), None)
    (found,) = response.coordinators
    return found.node_id, found.error_code


async def _described(
    ask: Ask, node_id: int, group_type: str, group_ids: Sequence[str]
) -> list[tuple[Group, int]]:
    """Groups of one type, each with an error code, in the order of `group_ids`."""
    if group_type == CLASSIC:
        response = await ask(DescribeGroupsRequest(groups=list(group_ids)), node_id)
        found = {one.group_id: (_classic(one, node_id), one.error_code) for one in response.groups}
    else:
        try:
            response = await ask(ConsumerGroupDescribeRequest(group_ids=list(group_ids)), node_id)
        except ApiError as problem:
            if (problem.status, problem.error_code) != UNSUPPORTED:
                raise
            response = None  # a broker that has classic groups only
        groups = () if response is None else response.groups
        found = {one.group_id: (_consumer(one, node_id), one.error_code) for one in groups}
    return [
        found.get(group_id, (_missing(group_id, group_type), ErrorCode.GROUP_ID_NOT_FOUND))
        for group_id in group_ids
    ]


def _missing(group_id: str, group_type: str) -> Group:
    return Group(group_id, False, "", DEAD, group_type, None, ())


def _classic(one: Any, node_id: int) -> Group:
    members = tuple(
        Member(
            member.member_id, member.group_instance_id, member.client_id, _assigned(member.member_assignment)
        )
        for member in one.members
    )
    simple = not one.protocol_type
    return Group(one.group_id, simple, one.protocol_data, _state(one.group_state), CLASSIC, node_id, members)


def _consumer(one: Any, node_id: int) -> Group:
    members = tuple(
        Member(
            member.member_id,
            member.instance_id,
            member.client_id,
            tuple(
                (topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            ),
        )
        for member in one.members
    )
    return Group(one.group_id, False, one.assignor_name, _state(one.group_state), CONSUMER, node_id, members)


def _assigned(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """A member's partitions, in the protocol `consumer`; none if the assignment is not in that protocol."""
    try:
        found = parse_assignment(assignment)
    except MalformedEmbedded:
        return ()
    return tuple(
        (topic.topic, partition) for topic in found.assigned_partitions for partition in topic.partitions
    )


def _state(name: str) -> str:
    """Kafka's name of a state as the API has it: PreparingRebalance is PREPARING_REBALANCE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
