"""Lists the groups that the brokers of a cluster coordinate (ListGroups; filters KIP-518, KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from ottla.client.cluster_requests import COORDINATOR_MOVED, ClusterRequests, refusal
from ottla.client.errors import ClusterError
from ottla.client.groups.model import GroupType, ListedGroup
from ottla.client.kafka_requests import RequestByVersion
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.list_groups_response import ListGroupsResponse

TYPES_SINCE: Final = 5
STATES_SINCE: Final = 4
PAUSE_SECONDS: Final = 0.2


async def list_groups(
    client: ClusterRequests, states: Collection[str] = (), types: Collection[GroupType] = ()
) -> list[ListedGroup]:
    """The groups of all brokers, sorted by id. Raises ClusterError if one broker does not answer.

    states: Kafka's words, in any case; no states or types means all of them.
    """
    found: list[ListedGroup] = []
    for groups in (await groups_by_broker(client, states, types)).values():
        if isinstance(groups, ClusterError):
            raise groups
        found += groups
    return sorted({one.group_id: one for one in found}.values(), key=lambda one: one.group_id)


async def groups_by_broker(
    client: ClusterRequests, states: Collection[str] = (), types: Collection[GroupType] = ()
) -> dict[int, list[ListedGroup] | ClusterError]:
    """The groups that each broker coordinates, or its error; states and types as for `list_groups`."""

    def request(version: int) -> ListGroupsRequest:
        return ListGroupsRequest(
            states_filter=list(states) if version >= STATES_SINCE else [],
            types_filter=[one.value for one in types] if version >= TYPES_SINCE else [],
        )

    loop = asyncio.get_running_loop()
    deadline = loop.time() + client.timeout_seconds
    while True:
        answers = await client.ask_all(RequestByVersion(ApiKey.LIST_GROUPS, request), ListGroupsResponse)
        loading = any(
            not isinstance(answer, ClusterError) and answer.error_code in COORDINATOR_MOVED
            for answer in answers.values()
        )
        if not loading or loop.time() >= deadline:
            break
        await asyncio.sleep(PAUSE_SECONDS)
    wanted = {state.lower() for state in states}
    found: dict[int, list[ListedGroup] | ClusterError] = {}
    for node_id, answer in answers.items():
        if isinstance(answer, ClusterError):
            found[node_id] = answer
        elif answer.error_code:
            found[node_id] = refusal(answer.error_code, None, f"broker {node_id}")
        else:
            groups = [
                ListedGroup(
                    group.group_id,
                    group_type(group.group_type),
                    group.protocol_type,
                    group.group_state or None,
                    node_id,
                )
                for group in answer.groups
            ]
            found[node_id] = [one for one in groups if _is_wanted(one, wanted, types)]
    return found


def _is_wanted(group: ListedGroup, states: Collection[str], types: Collection[GroupType]) -> bool:
    if states and (group.state or "").lower() not in states:
        return False
    return not types or group.type in types or group.type is GroupType.UNKNOWN


def group_type(name: str) -> GroupType:
    """The type by Kafka's word; UNKNOWN for none, which brokers before 3.8 say, and for newer ones."""
    try:
        return GroupType(name.lower())
    except ValueError:
        return GroupType.UNKNOWN
