"""Checks of requests; each check returns the error code that Kafka answers."""

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
    """The error with this code; an unknown code is UNKNOWN_SERVER_ERROR."""
    return ErrorCode(code)


def cluster_error(node: Node, cluster_id: str | None) -> ErrorCode:
    """INCONSISTENT_CLUSTER_ID for another cluster's id; a request without an id is accepted."""
    if cluster_id is None or cluster_id == node.cluster_id:
        return ErrorCode.NONE
    return ErrorCode.INCONSISTENT_CLUSTER_ID


def is_for_metadata(request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest) -> bool:
    """Whether a request names exactly the metadata partition."""
    topics = request.topics
    return (
        len(topics) == 1
        and topics[0].topic_name == METADATA_TOPIC
        and len(topics[0].partitions) == 1
        and topics[0].partitions[0].partition_index == 0
    )


def fetch_is_for_metadata(request: FetchRequest, by_topic_id: bool) -> bool:
    """Whether a Fetch, by topic name or topic id, names exactly the metadata partition."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return False
    topic = request.topics[0]
    named = topic.topic_id == METADATA_TOPIC_ID if by_topic_id else topic.topic == METADATA_TOPIC
    return named and topic.partitions[0].partition == 0


def voter_request_error(node: Node, replica_id: int, epoch: int) -> ErrorCode:
    """The error of a request from voter to voter: an older epoch is fenced."""
    if node.is_over(epoch):
        return ErrorCode.FENCED_LEADER_EPOCH
    if replica_id < 0:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def leader_request_error(node: Node, epoch: int) -> ErrorCode:
    """The error of a request that only the epoch's leader serves."""
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
    """Whether a request's receiver is this node with this metadata directory, or not named."""
    if addressed.node_id < 0:
        return True
    return addressed.node_id == node.local.node_id and (
        addressed.directory_id in (ZERO_UUID, node.local.directory_id)
    )
