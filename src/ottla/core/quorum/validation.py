"""What makes a request one that this node may act on; each check names the error that Kafka answers."""

from __future__ import annotations

from ottla.core.quorum.api import ReplicaKey
from ottla.core.quorum.leader import Leader
from ottla.core.quorum.node import Node
from ottla.core.quorum.requests import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.schema import ZERO_UUID


def error_of(code: int) -> ErrorCode:
    """The error of an answer; a number that is none is an error all the same."""
    return ErrorCode(code)


def cluster_error(node: Node, cluster_id: str | None) -> ErrorCode:
    """A request that names no cluster is everybody's."""
    if cluster_id is None or cluster_id == node.cluster_id:
        return ErrorCode.NONE
    return ErrorCode.INCONSISTENT_CLUSTER_ID


def is_for_metadata(request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest) -> bool:
    """Whether exactly the metadata's partition is meant."""
    topics = request.topics
    return (
        len(topics) == 1
        and topics[0].topic_name == METADATA_TOPIC
        and len(topics[0].partitions) == 1
        and topics[0].partitions[0].partition_index == 0
    )


def fetch_is_for_metadata(request: FetchRequest, by_topic_id: bool) -> bool:
    """The same for a Fetch, which names topics or their ids."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    named = topic.topic_id == METADATA_TOPIC_ID if by_topic_id else topic.topic == METADATA_TOPIC
    return named and topic.partitions[0].partition == 0


def voter_request_error(node: Node, replica_id: int, epoch: int) -> ErrorCode:
    """Of what voters ask each other: old epochs are over."""
    if node.is_over(epoch):
        return ErrorCode.FENCED_LEADER_EPOCH
    if replica_id < 0:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def leader_request_error(node: Node, epoch: int) -> ErrorCode:
    """Of what only the epoch's leader may answer."""
    if node.stopping:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if node.is_over(epoch):
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(node.role, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def is_addressed_to(node: Node, addressed: ReplicaKey) -> bool:
    """Whether a request that names its receiver means this node, with this metadata directory."""
    if addressed.node_id < 0:
        return True
    return addressed.node_id == node.local.node_id and (
        addressed.directory_id in (ZERO_UUID, node.local.directory_id)
    )
