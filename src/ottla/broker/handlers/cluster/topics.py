"""CreateTopics (API key 19), versions 2-7, and DeleteTopics (20), versions 1-6.

The rules, and the versions that brought them, are in `ottla.core.decisions.topics`. A broker passes them on.
The request's timeout is not used: the answer comes when the change is durable on a majority.

Partitions count against the client's quota (KIP-599): CreateTopics refuses those beyond it from v6 on,
DeleteTopics from v5 on; older versions make them and throttle the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import RequestContext
from ottla.broker.system_randomness import SystemRandomness
from ottla.core.decisions.decision import MayTopic, anyone_may
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import InvalidRequest, KafkaError, TopicDeletionDisabled
from ottla.protocol.messages.create_topics_request import CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics_response import DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

FIRST_VERSION_WITH_DELETION_DISABLED = 3


async def create_topics(
    node: Node, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Errors are told topic by topic."""
    # Imported at the first use, as below: a start must not wait for it.
    from ottla.core.decisions.topics import TopicDefaults
    from ottla.core.decisions.topics import create_topics as decide

    config = node.config
    defaults = TopicDefaults(
        config[broker_settings.NUM_PARTITIONS], config[broker_settings.DEFAULT_REPLICATION_FACTOR]
    )
    mutations = node.client_quotas.mutations_of(context, strict_since=6)
    answer = await node.controller.submit(
        lambda image: decide(
            image,
            request,
            defaults,
            config.layers,
            SystemRandomness(),
            mutations.charge,
            _may(node, context, AclOperation.CREATE),
            _may_quietly(node, context, AclOperation.DESCRIBE_CONFIGS),
        )
    )
    answer.throttle_time_ms = mutations.throttle_ms
    return answer


async def delete_topics(
    node: Node, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Errors are told topic by topic."""
    from ottla.core.decisions.topics import delete_topics as decide

    refused: KafkaError | None = None
    if not node.config[broker_settings.DELETE_TOPIC_ENABLE]:
        told = context.api_version >= FIRST_VERSION_WITH_DELETION_DISABLED
        refused = TopicDeletionDisabled() if told else InvalidRequest()
    mutations = node.client_quotas.mutations_of(context, strict_since=5)
    answer = await node.controller.submit(
        lambda image: decide(
            image,
            request,
            refused,
            mutations.charge,
            _may(node, context, AclOperation.DESCRIBE, on_cluster=AclOperation.DELETE),
            _may(node, context, AclOperation.DELETE),
        )
    )
    answer.throttle_time_ms = mutations.throttle_ms
    return answer


def _may(
    node: Node, context: RequestContext, operation: AclOperation, on_cluster: AclOperation | None = None
) -> MayTopic:
    """May the client do the operation on topics? On all of them, if it may do `on_cluster` on the cluster."""
    may = node.authorization
    wider = on_cluster or operation
    if may.allows_unnamed(context, wider, ResourceType.CLUSTER, CLUSTER_NAME):
        return anyone_may
    return lambda name: may.allows(context, operation, ResourceType.TOPIC, name)


def _may_quietly(node: Node, context: RequestContext, operation: AclOperation) -> MayTopic:
    return lambda name: node.authorization.allows_unnamed(context, operation, ResourceType.TOPIC, name)


HANDLERS = {ApiKey.CREATE_TOPICS: forward, ApiKey.DELETE_TOPICS: forward}
CONTROLLER_HANDLERS = {ApiKey.CREATE_TOPICS: create_topics, ApiKey.DELETE_TOPICS: delete_topics}
