"""Answers DescribeQuorum: the quorum as its leader sees it."""

from __future__ import annotations

from ottla.core.quorum import answers
from ottla.core.quorum.api import Reply
from ottla.core.quorum.leader import Leader, Progress
from ottla.core.quorum.node import Node
from ottla.core.quorum.requests import METADATA_TOPIC
from ottla.core.quorum.validation import leader_request_error
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import describe_quorum_response
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState
from ottla.protocol.schema import ZERO_UUID

NODES_SINCE = 2
"""The first version whose answers have directory ids and the voters' listeners."""


def on_describe(
    node: Node, token: int, request: DescribeQuorumRequest, version: int, wall_offset_ms: int
) -> None:
    """Answer with the voters and observers, their log end offsets and fetch times."""
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        node.emit(Reply(token, answers.refusal(request, ErrorCode.INVALID_REQUEST)))
        return
    topic, partition = topics[0].topic_name, topics[0].partitions[0].partition_index
    if topic != METADATA_TOPIC or partition != 0:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.emit(Reply(token, answers.describe_error(topic, partition, error)))
        return
    error = leader_request_error(node, node.epoch)
    if error is not ErrorCode.NONE or not isinstance(node.role, Leader):
        node.emit(Reply(token, answers.refusal(request, error)))
        return
    node.emit(Reply(token, _description(node, node.role, version, wall_offset_ms)))


def _description(node: Node, leader: Leader, version: int, wall_offset_ms: int) -> DescribeQuorumResponse:
    leader.expire_observers(node.now_ms)
    states = [leader.voters[node_id] for node_id in sorted(leader.voters)]
    partition = describe_quorum_response.PartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=node.local.node_id,
        leader_epoch=node.epoch,
        high_watermark=node.high_watermark,
        current_voters=[_replica(node, leader, each, wall_offset_ms) for each in states],
        observers=[_replica(node, leader, each, wall_offset_ms) for each in leader.observers.values()],
    )
    if not leader.is_voter:
        own = Progress(node.local)
        partition.observers.append(_replica(node, leader, own, wall_offset_ms))
    if version < NODES_SINCE:
        for each in (*partition.current_voters, *partition.observers):
            each.replica_directory_id = ZERO_UUID
    topic = describe_quorum_response.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    nodes = [
        describe_quorum_response.Node(
            node_id=voter.key.node_id,
            listeners=[
                describe_quorum_response.Listener(name=end.name, host=end.host, port=end.port)
                for end in voter.endpoints
            ],
        )
        for voter in sorted(node.voters.voters, key=lambda each: each.key.node_id)
    ]
    return DescribeQuorumResponse(topics=[topic], nodes=nodes if version >= NODES_SINCE else [])


def _replica(node: Node, leader: Leader, progress: Progress, wall_offset_ms: int) -> ReplicaState:
    itself = progress.key.node_id == node.local.node_id and (leader.is_voter or progress.key == node.local)
    if itself:
        end_offset, fetched_ms, caught_up_ms = node.log.end_offset, node.now_ms, node.now_ms
    else:
        end_offset = progress.end_offset
        fetched_ms, caught_up_ms = progress.last_fetch_ms, progress.caught_up_ms
    return ReplicaState(
        replica_id=progress.key.node_id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=-1 if fetched_ms < 0 else fetched_ms + wall_offset_ms,
        last_caught_up_timestamp=-1 if caught_up_ms < 0 else caught_up_ms + wall_offset_ms,
    )
