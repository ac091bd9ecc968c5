"""Lists the groups that the brokers of a cluster coordinate (ListGroups; filters KIP-518, KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from ottla.client.cluster_requests import COORDINATOR_MOVED, ClusterRequests, require_success
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
    found: dict[str, ListedGroup] = {}
    for node_id, answer in answers.items():
        if isinstance(answer, ClusterError):
            raise answer
        require_success(answer.error_code, None, f"broker {node_id}")
        for group in answer.groups:
            found[group.group_id] = ListedGroup(
                group.group_id,
                group_type(group.group_type),
                group.protocol_type,
                group.group_state or None,
                node_id,
            )
    wanted = {state.lower() for state in states}
    return [
        found[group_id]
        for group_id in sorted(found)
        if (not wanted or (found[group_id].state or "").lower() in wanted)
        and (not types or found[group_id].type in types or found[group_id].type is GroupType.UNKNOWN)
    ]


def group_type(name: str) -> GroupType:
    """The type by Kafka's word; UNKNOWN for none, which brokers before 3.8 say, and for newer ones."""
    try:
        return GroupType(name.lower())
    except ValueError:
        return GroupType.UNKNOWN
