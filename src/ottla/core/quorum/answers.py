"""Builds the answers to the quorum's requests, with the fields that each version has."""

from __future__ import annotations

from typing import NamedTuple

from ottla.core.quorum.api import NO_NODE, Address, SnapshotId
from ottla.core.quorum.positions import Divergence
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    begin_quorum_epoch_response,
    describe_quorum_response,
    end_quorum_epoch_response,
    fetch_response,
    fetch_snapshot_response,
    vote_response,
)
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.messages.vote_response import VoteResponse
from ottla.protocol.schema import Message

FETCH_ENDPOINTS_SINCE = 16
FETCH_TOPIC_IDS_SINCE = 13
FETCH_LEADER_SINCE = 12


class KnownLeader(NamedTuple):
    """The leader as an answer names it: its id and epoch, and its address if known."""

    leader_id: int
    epoch: int
    address: Address | None


def vote(topic: str, error: ErrorCode, leader: KnownLeader, granted: bool, version: int) -> VoteResponse:
    """An answer to Vote."""
    partition = vote_response.PartitionData(
        partition_index=0,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        vote_granted=granted,
    )
    return VoteResponse(
        topics=[vote_response.TopicData(topic_name=topic, partitions=[partition])],
        node_endpoints=[
            vote_response.NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, host, port in _endpoints(leader, version >= 1)
        ],
    )


def begin_epoch(topic: str, error: ErrorCode, leader: KnownLeader, version: int) -> BeginQuorumEpochResponse:
    """An answer to BeginQuorumEpoch."""
    partition = begin_quorum_epoch_response.PartitionData(
        partition_index=0, error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch
    )
    return BeginQuorumEpochResponse(
        topics=[begin_quorum_epoch_response.TopicData(topic_name=topic, partitions=[partition])],
        node_endpoints=[
            begin_quorum_epoch_response.NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, host, port in _endpoints(leader, version >= 1)
        ],
    )


def end_epoch(topic: str, error: ErrorCode, leader: KnownLeader, version: int) -> EndQuorumEpochResponse:
    """An answer to EndQuorumEpoch."""
    partition = end_quorum_epoch_response.PartitionData(
        partition_index=0, error_code=error, leader_id=leader.leader_id, leader_epoch=leader.epoch
    )
    return EndQuorumEpochResponse(
        topics=[end_quorum_epoch_response.TopicData(topic_name=topic, partitions=[partition])],
        node_endpoints=[
            end_quorum_epoch_response.NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, host, port in _endpoints(leader, version >= 1)
        ],
    )


def fetch(
    request: FetchRequest,
    version: int,
    error: ErrorCode,
    leader: KnownLeader,
    offsets: tuple[int, int],
    elsewhere: Divergence | SnapshotId | None = None,
) -> FetchResponse:
    """An answer to Fetch without records; `offsets` are the high watermark and the log's start offset."""
    partition = fetch_response.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=offsets[0],
        log_start_offset=offsets[1],
        records=b"",
    )
    if version >= FETCH_LEADER_SINCE:
        partition.current_leader = fetch_response.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        )
        if isinstance(elsewhere, Divergence):
            partition.diverging_epoch = fetch_response.EpochEndOffset(
                epoch=elsewhere.epoch, end_offset=elsewhere.end_offset
            )
        elif elsewhere is not None:
            partition.snapshot_id = fetch_response.SnapshotId(
                end_offset=elsewhere.end_offset, epoch=elsewhere.epoch
            )
    topic = fetch_response.FetchableTopicResponse(partitions=[partition])
    if version >= FETCH_TOPIC_IDS_SINCE:
        topic.topic_id = request.topics[0].topic_id
    else:
        topic.topic = request.topics[0].topic
    return FetchResponse(
        responses=[topic],
        node_endpoints=[
            fetch_response.NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, host, port in _endpoints(leader, version >= FETCH_ENDPOINTS_SINCE)
        ],
    )


def fetch_snapshot(
    topic: str,
    partition_index: int,
    version: int,
    error: ErrorCode,
    leader: KnownLeader,
    snapshot: SnapshotId,
    position: int,
) -> FetchSnapshotResponse:
    """An answer to FetchSnapshot without bytes."""
    partition = fetch_snapshot_response.PartitionSnapshot(
        index=partition_index,
        error_code=error,
        snapshot_id=fetch_snapshot_response.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        current_leader=fetch_snapshot_response.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        ),
        position=position,
        unaligned_records=b"",
    )
    return FetchSnapshotResponse(
        topics=[fetch_snapshot_response.TopicSnapshot(name=topic, partitions=[partition])],
        node_endpoints=[
            fetch_snapshot_response.NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, host, port in _endpoints(leader, version >= 1)
        ],
    )


def change_of_voters(
    added: bool, error: ErrorCode, text: str | None
) -> AddRaftVoterResponse | RemoveRaftVoterResponse:
    """An answer to AddRaftVoter or RemoveRaftVoter."""
    message = None if error is ErrorCode.NONE else text or error.message
    if added:
        return AddRaftVoterResponse(error_code=error, error_message=message)
    return RemoveRaftVoterResponse(error_code=error, error_message=message)


def update_voter(error: ErrorCode, leader: KnownLeader) -> UpdateRaftVoterResponse:
    """An answer to UpdateRaftVoter."""
    host, port = leader.address or ("", 0)
    return UpdateRaftVoterResponse(
        error_code=error,
        current_leader=CurrentLeader(
            leader_id=leader.leader_id, leader_epoch=leader.epoch, host=host, port=port
        ),
    )


def describe_error(topic: str, partition_index: int, error: ErrorCode) -> DescribeQuorumResponse:
    """An answer to DescribeQuorum about a partition other than the metadata's."""
    partition = describe_quorum_response.PartitionData(
        partition_index=partition_index, error_code=error, error_message=error.message
    )
    return DescribeQuorumResponse(
        topics=[describe_quorum_response.TopicData(topic_name=topic, partitions=[partition])]
    )


def refusal(request: Message, error: ErrorCode, text: str | None = None) -> Message:
    """An answer that refuses a whole request."""
    match request:
        case VoteRequest():
            return VoteResponse(error_code=error)
        case BeginQuorumEpochRequest():
            return BeginQuorumEpochResponse(error_code=error)
        case EndQuorumEpochRequest():
            return EndQuorumEpochResponse(error_code=error)
        case FetchRequest():
            return FetchResponse(error_code=error)
        case FetchSnapshotRequest():
            return FetchSnapshotResponse(error_code=error)
        case DescribeQuorumRequest():
            return DescribeQuorumResponse(error_code=error, error_message=text or error.message)
        case AddRaftVoterRequest():
            return AddRaftVoterResponse(error_code=error, error_message=text or error.message)
        case RemoveRaftVoterRequest():
            return RemoveRaftVoterResponse(error_code=error, error_message=text or error.message)
        case UpdateRaftVoterRequest():
            return UpdateRaftVoterResponse(error_code=error)
        case _:
            raise TypeError(f"{type(request).__name__} is not a request of the quorum")


def _endpoints(leader: KnownLeader, carried: bool) -> list[tuple[int, str, int]]:
    if not carried or leader.leader_id == NO_NODE or leader.address is None:
        return []
    return [(leader.leader_id, leader.address.host, leader.address.port)]
