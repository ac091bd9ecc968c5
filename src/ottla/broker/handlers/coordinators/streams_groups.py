"""The streams group APIs: StreamsGroupHeartbeat 0-1, StreamsGroupDescribe 0-1 (KIP-1071),
StreamsGroupTopologyDescriptionUpdate 0 (KIP-1331).

Served while `streams.version` is finalized at 1 and group.coordinator.rebalance.protocols has `streams`; else
UNSUPPORTED_VERSION, and the application falls back to the classic protocol's error. Which topics a topology
may name is checked here; the answers are decided in core/groups/streams.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.handlers.coordinators.groups import by_partition, may_read_group
from ottla.broker.network.context import RequestContext
from ottla.core.decisions.topic_names import is_internal, topic_name_problem
from ottla.core.image.features import STREAMS_VERSION
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
)
from ottla.protocol.messages.streams_group_describe_response import Topology as DescribedTopology
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from ottla.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from ottla.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ottla.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

STREAMS_PROTOCOL = "streams"


def heartbeat(
    node: Node, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> Message | Awaitable[Message]:
    if not _is_served(node):
        return StreamsGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=ErrorCode.UNSUPPORTED_VERSION.message
        )
    if not may_read_group(node, context, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is not None:
        problem = _topic_problem(request.topology)
        if problem is not None:
            return StreamsGroupHeartbeatResponse(
                error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=problem
            )
        names = _topic_names(request.topology)
        if node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names):
            return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return node.groups.request(request.group_id, request, context)


async def describe(
    node: Node, context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    group_ids = list(dict.fromkeys(request.group_ids))
    if not _is_served(node):
        return StreamsGroupDescribeResponse(
            groups=[
                _error(group_id, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION.message)
                for group_id in group_ids
            ]
        )
    authorization = node.authorization
    refused = authorization.refused(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_ids)
    described = [
        _error(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for group_id in group_ids
        if group_id in refused
    ]
    allowed = [group_id for group_id in group_ids if group_id not in refused]
    if "" in allowed:
        described.append(_error("", ErrorCode.INVALID_GROUP_ID))
    for partition, ids in by_partition(node, filter(None, allowed)):
        part = StreamsGroupDescribeRequest(
            group_ids=ids, include_topology_description=request.include_topology_description
        )
        answer = await answer_of(node.groups.request_of_partition(partition, part, context))
        assert isinstance(answer, StreamsGroupDescribeResponse)
        described += answer.groups
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = authorization.operations(
                    context, ResourceType.GROUP, group.group_id
                )
    if authorization.enforced:
        described = [_without_hidden_topics(node, context, group) for group in described]
    return StreamsGroupDescribeResponse(groups=described)


def _without_hidden_topics(node: Node, context: RequestContext, group: DescribedGroup) -> DescribedGroup:
    """The group, or an error in its place if its topology has topics that the client may not describe."""
    topology = group.topology
    if topology is None or not node.authorization.refused(
        context, AclOperation.DESCRIBE, ResourceType.TOPIC, _topic_names(topology)
    ):
        return group
    return _error(
        group.group_id,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "the group uses topics that the client may not describe",
    )


def update_topology_description(
    node: Node, context: RequestContext, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> Message | Awaitable[Message]:
    """Take the description of a group's topology from one of its members."""
    if not _is_served(node):
        return StreamsGroupTopologyDescriptionUpdateResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=ErrorCode.UNSUPPORTED_VERSION.message
        )
    if not may_read_group(node, context, request.group_id):
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return node.groups.request(request.group_id, request, context)


def _is_served(node: Node) -> bool:
    protocols = node.config[broker_settings.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    return node.image.features.get(STREAMS_VERSION, 0) > 0 and STREAMS_PROTOCOL in protocols


def _topic_problem(topology: Topology) -> str | None:
    """The problem with the names of the topology's topics; None if they are right."""
    names = list(dict.fromkeys(_topic_names(topology)))
    prohibited = [name for name in names if is_internal(name)]
    if prohibited:
        listed = ",".join(prohibited)
        return f"Use of Kafka internal topics {listed} in a Kafka Streams topology is prohibited."
    invalid = [name for name in names if topic_name_problem(name) is not None]
    if invalid:
        return f"Topic names {','.join(invalid)} are not valid topic names."
    return None


def _topic_names(topology: Topology | DescribedTopology) -> Iterator[str]:
    for subtopology in topology.subtopologies or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield topic.name


def _error(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error, error_message=message)


HANDLERS = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: describe,
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: update_topology_description,
}
