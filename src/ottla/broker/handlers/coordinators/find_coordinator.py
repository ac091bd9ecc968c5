"""FindCoordinator (API key 10): versions 0 to 6.

0: a group's coordinator; 1: key types, 0 for a group, 1 for a transactional id; 4: several keys at once
(KIP-699); 6: key type 2 for a share group's partition, "group:topic id:partition" (KIP-932).

The first question for a key of a type makes the coordinator's topic, once, and is answered when the topic is
there: clients that ask at the same time need not ask again.
"""

from __future__ import annotations

import base64
import enum
import logging
from typing import TYPE_CHECKING

from ottla.broker.controller.topic_creation import create_internal_topic
from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
    from ottla.broker.handlers.node import Node

log = logging.getLogger("ottla.broker.coordinators")

NO_NODE = -1
NO_PORT = -1
UUID_BYTES = 16
FIRST_VERSION_WITH_SEVERAL_KEYS = 4
FIRST_VERSION_WITH_SHARE_KEYS = 6


class KeyType(enum.IntEnum):
    """The kinds of coordinators' keys."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


async def find_coordinator(
    node: Node, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if request.key_type == KeyType.SHARE and context.api_version >= FIRST_VERSION_WITH_SHARE_KEYS:
        node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    if context.api_version >= FIRST_VERSION_WITH_SEVERAL_KEYS:
        found = [
            await _find(node, context, request.key_type, key)
            async for key in in_turns(request.coordinator_keys)
        ]
        return FindCoordinatorResponse(coordinators=found)
    one = await _find(node, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        # Kafka's message for "no error" in these versions.
        error_message=one.error_message or ErrorCode.NONE.name,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _find(node: Node, context: RequestContext, key_type: int, key: str) -> Coordinator:
    match key_type:
        case KeyType.GROUP if not _may_describe(node, context, ResourceType.GROUP, key):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return _not_found(key, code, code.message)
        case KeyType.TRANSACTION if not _may_describe(node, context, ResourceType.TRANSACTIONAL_ID, key):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return _not_found(key, code, code.message)
        case KeyType.GROUP:
            return await _find_leader(node, context, key, node.groups.shards)
        case KeyType.TRANSACTION:
            return await _find_leader(node, context, key, node.transactions.shards)
        case KeyType.SHARE if context.api_version < FIRST_VERSION_WITH_SHARE_KEYS:
            return _not_found(key, ErrorCode.INVALID_REQUEST, "Key type 2 needs version 6 or later.")
        case KeyType.SHARE if not _is_share_key(key):
            return _not_found(key, ErrorCode.INVALID_REQUEST, "A share key is group:topic-id:partition.")
        case KeyType.SHARE:
            return await _find_leader(node, context, key, node.share_coordinator.shards)
        case _:
            return _not_found(key, ErrorCode.INVALID_REQUEST, f"There is no key type {key_type}.")


def _may_describe(node: Node, context: RequestContext, resource_type: ResourceType, key: str) -> bool:
    return node.authorization.allows(context, AclOperation.DESCRIBE, resource_type, key)


async def _find_leader(
    node: Node, context: RequestContext, key: str, shards: CoordinatorRouting
) -> Coordinator:
    """The broker that leads the key's partition of the coordinator's topic."""
    if shards.topic not in node.image.topics:
        try:
            await create_internal_topic(node, shards.topic)
        except KafkaError as problem:
            log.warning("topic %s could not be created: %s", shards.topic, problem)
            return _not_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(problem))
    topic = node.image.topics.get(shards.topic)
    partition = topic and topic.partitions.get(shards.partition_for(key))
    leader = partition and node.image.brokers.get(partition.leader)
    endpoint = leader and not leader.fenced and leader.endpoint(context.session.listener_name)
    if not leader or not endpoint:
        return _not_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    return Coordinator(key=key, node_id=leader.broker_id, host=endpoint.host, port=endpoint.port)


def _not_found(key: str, error: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, host="", port=NO_PORT, error_code=error, error_message=message
    )


def _is_share_key(key: str) -> bool:
    """Whether the key reads "group:topic id:partition", the id in Kafka's base 64."""
    parts = key.split(":")
    if len(parts) != 3 or not parts[0] or not parts[2].isdecimal():
        return False
    try:
        return len(base64.urlsafe_b64decode(parts[1] + "==")) == UUID_BYTES
    except ValueError:
        return False


HANDLERS = {ApiKey.FIND_COORDINATOR: find_coordinator}
