"""Brokers' news of their replicas for the active controller: AlterPartition (API key 56) 2-3 and
AssignReplicasToDirs (73) 0.

The rules are those of `ottla.core.decisions`: `in_sync` and `directories`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.core.decisions import directories, in_sync
from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.protocol.messages.alter_partition_response import AlterPartitionResponse
from ottla.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ottla.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


async def alter_partition(
    node: Node, context: RequestContext, request: AlterPartitionRequest
) -> AlterPartitionResponse:
    """Take new in-sync sets from the leaders."""
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    work = node.controller_work
    return await node.controller.submit(
        lambda image: in_sync.alter_partition(image, request, work.rules(image))
    )


async def assign_replicas_to_dirs(
    node: Node, context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Note the data directory of the broker that each replica lies in."""
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    work = node.controller_work
    return await node.controller.submit(
        lambda image: directories.assign_replicas_to_dirs(image, request, work.rules(image))
    )


CONTROLLER_HANDLERS = {
    ApiKey.ALTER_PARTITION: alter_partition,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs,
}
