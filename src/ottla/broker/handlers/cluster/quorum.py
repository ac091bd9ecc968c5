"""The quorum's requests, whose rules are in core/quorum; here is which of them each listener serves.

At a controller's listeners: Vote (API key 52) 0-2, BeginQuorumEpoch (53) 0-1, EndQuorumEpoch (54) 0-1,
DescribeQuorum (55) 0-2, Fetch (1) of the metadata, FetchSnapshot (59) 0-1, AddRaftVoter (80) 0-1,
RemoveRaftVoter (81) 0 and UpdateRaftVoter (82) 0 (KIP-595, KIP-630, KIP-853, KIP-996). At a broker's
listeners DescribeQuorum, AddRaftVoter and RemoveRaftVoter, which go on to the leader, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import RequestContext
from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


#: What a client needs on the cluster for them; the others are of nodes among themselves.
_OF_ADMINISTRATORS = {
    ApiKey.DESCRIBE_QUORUM: AclOperation.DESCRIBE,
    ApiKey.ADD_RAFT_VOTER: AclOperation.ALTER,
    ApiKey.REMOVE_RAFT_VOTER: AclOperation.ALTER,
}


async def answer(node: Node, context: RequestContext, request: Message) -> Message:
    """This node's own answer."""
    operation = _OF_ADMINISTRATORS.get(ApiKey(context.api_key), AclOperation.CLUSTER_ACTION)
    node.authorization.require_on_cluster(context, operation)
    return await node.quorum.handle(context.api_version, request)


HANDLERS = {
    ApiKey.DESCRIBE_QUORUM: forward,
    ApiKey.ADD_RAFT_VOTER: forward,
    ApiKey.REMOVE_RAFT_VOTER: forward,
}
CONTROLLER_HANDLERS = {
    ApiKey.FETCH: answer,
    ApiKey.VOTE: answer,
    ApiKey.BEGIN_QUORUM_EPOCH: answer,
    ApiKey.END_QUORUM_EPOCH: answer,
    ApiKey.DESCRIBE_QUORUM: answer,
    ApiKey.FETCH_SNAPSHOT: answer,
    ApiKey.ADD_RAFT_VOTER: answer,
    ApiKey.REMOVE_RAFT_VOTER: answer,
    ApiKey.UPDATE_RAFT_VOTER: answer,
}
