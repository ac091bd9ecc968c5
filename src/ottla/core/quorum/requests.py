"""Builds the requests that a node of the quorum sends to others."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ottla.core.quorum.api import ListenerEndpoint, ReplicaKey, SnapshotId, Voter
from ottla.protocol.messages import (
    add_raft_voter_request,
    begin_quorum_epoch_request,
    end_quorum_epoch_request,
    fetch_request,
    fetch_snapshot_request,
    update_raft_voter_request,
    vote_request,
)
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.vote_request import VoteRequest

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)


def vote(
    cluster_id: str,
    epoch: int,
    local: ReplicaKey,
    voter: ReplicaKey,
    log_end: tuple[int, int],
    pre_vote: bool,
) -> VoteRequest:
    """Ask for a vote for `local`, whose log ends with (epoch, offset)."""
    partition = vote_request.PartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=local.node_id,
        replica_directory_id=local.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=log_end[0],
        last_offset=log_end[1],
        pre_vote=pre_vote,
    )
    return VoteRequest(
        cluster_id=cluster_id,
        voter_id=voter.node_id,
        topics=[vote_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def begin_epoch(
    cluster_id: str,
    epoch: int,
    leader_id: int,
    listeners: Sequence[ListenerEndpoint],
    voter: ReplicaKey,
) -> BeginQuorumEpochRequest:
    """Tell a voter that this node leads the epoch."""
    partition = begin_quorum_epoch_request.PartitionData(
        partition_index=0, voter_directory_id=voter.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    return BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.node_id,
        topics=[begin_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch_request.LeaderEndpoint(name=end.name, host=end.host, port=end.port)
            for end in listeners
        ],
    )


def end_epoch(
    cluster_id: str,
    epoch: int,
    leader_id: int,
    listeners: Sequence[ListenerEndpoint],
    successors: Sequence[ReplicaKey],
) -> EndQuorumEpochRequest:
    """Tell a voter that this node no longer leads the epoch."""
    partition = end_quorum_epoch_request.PartitionData(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_candidates=[
            end_quorum_epoch_request.ReplicaInfo(
                candidate_id=each.node_id, candidate_directory_id=each.directory_id
            )
            for each in successors
        ],
    )
    return EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end_quorum_epoch_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            end_quorum_epoch_request.LeaderEndpoint(name=end.name, host=end.host, port=end.port)
            for end in listeners
        ],
    )


def fetch(
    cluster_id: str,
    epoch: int,
    local: ReplicaKey,
    log_end: tuple[int, int],
    high_watermark: int,
    limits: tuple[int, int],
) -> FetchRequest:
    """Fetch the records after (epoch, offset); `limits` are the longest wait in ms and the most bytes."""
    partition = fetch_request.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=log_end[1],
        last_fetched_epoch=log_end[0],
        partition_max_bytes=limits[1],
        replica_directory_id=local.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=local.node_id),
        max_wait_ms=limits[0],
        max_bytes=limits[1],
        topics=[
            fetch_request.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        ],
    )


def fetch_snapshot(
    cluster_id: str,
    epoch: int,
    local: ReplicaKey,
    snapshot: SnapshotId,
    position: int,
    max_bytes: int,
) -> FetchSnapshotRequest:
    """Fetch the bytes of a snapshot from a position on."""
    partition = fetch_snapshot_request.PartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot_request.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=local.directory_id,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=local.node_id,
        max_bytes=max_bytes,
        topics=[fetch_snapshot_request.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def update_voter(cluster_id: str, epoch: int, voter: Voter) -> UpdateRaftVoterRequest:
    """Register a voter's listeners and versions with the leader."""
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.key.node_id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            update_raft_voter_request.Listener(name=end.name, host=end.host, port=end.port)
            for end in voter.endpoints
        ],
        kraft_version_feature=update_raft_voter_request.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def add_voter(cluster_id: str, voter: Voter, timeout_ms: int) -> AddRaftVoterRequest:
    """Ask to become a voter (KIP-1186). Not acknowledged on commit: the node sees the change in its log."""
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=voter.key.node_id,
        voter_directory_id=voter.key.directory_id,
        listeners=[
            add_raft_voter_request.Listener(name=end.name, host=end.host, port=end.port)
            for end in voter.endpoints
        ],
        ack_when_committed=False,
    )


def remove_voter(cluster_id: str, key: ReplicaKey) -> RemoveRaftVoterRequest:
    """Ask to remove the voter that this node was with a directory that it has lost."""
    return RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=key.node_id, voter_directory_id=key.directory_id
    )
