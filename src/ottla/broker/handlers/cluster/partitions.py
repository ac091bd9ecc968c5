"""CreatePartitions (API key 37) 0-3, ElectLeaders (43) 0-2, AlterPartitionReassignments (45) 0-1,
ListPartitionReassignments (46) 0.

A broker passes them on. The rules are those of `ottla.core.decisions`: `partitions`, `elections`,
`reassignments`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import RequestContext
from ottla.broker.system_randomness import SystemRandomness
from ottla.core.decisions import reassignments
from ottla.core.decisions.elections import elect_leaders as decide_elections
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import NotController
from ottla.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ottla.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


async def create_partitions(
    node: Node, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Errors are told topic by topic."""
    from ottla.core.decisions.partitions import create_partitions as decide

    def may_alter(name: str) -> bool:
        return node.authorization.allows(context, AclOperation.ALTER, ResourceType.TOPIC, name)

    mutations = node.client_quotas.mutations_of(context, strict_since=3)
    answer = await node.controller.submit(
        lambda image: decide(image, request, SystemRandomness(), mutations.charge, may_alter)
    )
    answer.throttle_time_ms = mutations.throttle_ms
    return answer


async def elect_leaders(
    node: Node, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Errors are told partition by partition."""
    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    work = node.controller_work
    return await node.controller.submit(lambda image: decide_elections(image, request, work.rules(image)))


async def alter_partition_reassignments(
    node: Node, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Errors are told partition by partition."""
    node.authorization.require_on_cluster(context, AclOperation.ALTER)
    work = node.controller_work
    return await node.controller.submit(
        lambda image: reassignments.alter_partition_reassignments(image, request, work.rules(image))
    )


def list_partition_reassignments(
    node: Node, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The partitions of the request that are being reassigned; others, and unknown ones, are left out."""
    node.authorization.require_on_cluster(context, AclOperation.DESCRIBE)
    if not node.controller.active:
        raise NotController()
    return reassignments.list_partition_reassignments(node.image, request)


HANDLERS = dict.fromkeys(
    (
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ),
    forward,
)
CONTROLLER_HANDLERS = {
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
}
