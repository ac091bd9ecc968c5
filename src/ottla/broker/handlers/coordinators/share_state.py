"""The share coordinator's APIs, which brokers call (KIP-932).

    83 InitializeShareGroupState       86 DeleteShareGroupState
    84 ReadShareGroupState             87 ReadShareGroupStateSummary; v1: delivery-complete count
    85 WriteShareGroupState; v1: delivery-complete count

A request without a group or without share partitions has an empty answer. Everything else is answered for
each share partition: INVALID_REQUEST for one whose state was never initialised or whose index is negative,
FENCED_LEADER_EPOCH and FENCED_STATE_EPOCH for writers of the past, UNKNOWN_TOPIC_OR_PARTITION for a partition
that is not there, NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.core.share.responses import StateRequest, merge, refusal
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


async def share_state(node: Node, context: RequestContext, request: StateRequest) -> Message:
    """Answer a request of one of the five APIs."""
    if not node.authorization.allows(
        context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return refusal(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not request.group_id or not _names_partitions(request):
        return merge(request, ())
    return await node.share_coordinator.request(request)


def _names_partitions(request: StateRequest) -> bool:
    if isinstance(request, InitializeShareGroupStateRequest):  # a topic without partitions is passed over
        return bool(request.topics)
    return bool(request.topics) and all(topic.partitions for topic in request.topics)


HANDLERS = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: share_state,
    ApiKey.READ_SHARE_GROUP_STATE: share_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: share_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: share_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: share_state,
}
