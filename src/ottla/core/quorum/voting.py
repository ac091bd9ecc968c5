"""Elections: gives votes, asks for votes, and follows the beginning and end of epochs.

Theory of operation. A node votes once an epoch, for a candidate whose log is at least as new as its own, and
saves its vote before it answers. So two leaders of one epoch would need the vote of the same voter, and a
leader has all committed records. A pre-vote binds no node: a node that still hears from a leader refuses it,
so a node that was cut off does not disturb the others when it returns.
"""

from __future__ import annotations

from typing import cast

from ottla.core.quorum import answers, requests
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    ElectionState,
    ListenerEndpoint,
    ReplicaKey,
    Reply,
    Trouble,
)
from ottla.core.quorum.connections import Sent
from ottla.core.quorum.election import log_is_up_to_date, may_vote_for, successor_delay_ms
from ottla.core.quorum.leader import Leader
from ottla.core.quorum.node import Node
from ottla.core.quorum.roles import Candidate, Follower, Prospective, Resigned, Unattached
from ottla.core.quorum.validation import (
    cluster_error,
    error_of,
    is_addressed_to,
    is_for_metadata,
    voter_request_error,
)
from ottla.core.quorum.voters import address_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.protocol.messages.vote_request import PartitionData, VoteRequest
from ottla.protocol.messages.vote_response import VoteResponse


class Voting:
    """A node's part in elections."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- requests -------------------------------------------------------------------------------------

    def on_vote(self, token: int, request: VoteRequest, version: int) -> None:
        """Grant or refuse a vote or pre-vote."""
        node = self._node
        if self._refused(token, request):
            return
        error, granted = self._decide(request, request.topics[0].partitions[0])
        topic = request.topics[0].topic_name
        node.emit(Reply(token, answers.vote(topic, error, node.known_leader, granted, version)))

    def _refused(
        self, token: int, request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest
    ) -> bool:
        """Refuse a request that names another cluster or another partition. Whether it was refused."""
        error = cluster_error(self._node, request.cluster_id)
        if error is ErrorCode.NONE and not is_for_metadata(request):
            error = ErrorCode.INVALID_REQUEST
        if error is ErrorCode.NONE:
            return False
        self._node.emit(Reply(token, answers.refusal(request, error)))
        return True

    def _decide(self, request: VoteRequest, asked: PartitionData) -> tuple[ErrorCode, bool]:
        node = self._node
        newest = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
        if asked.last_offset < 0 or not 0 <= asked.last_offset_epoch <= newest:
            return ErrorCode.INVALID_REQUEST, False
        error = voter_request_error(node, asked.replica_id, asked.replica_epoch)
        if error is not ErrorCode.NONE:
            return error, False
        node.hear_of_leader(NO_NODE, asked.replica_epoch, None)
        if not is_addressed_to(node, ReplicaKey(request.voter_id, asked.voter_directory_id)):
            return ErrorCode.INVALID_VOTER_KEY, False
        candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        if candidate.node_id == node.local.node_id:
            node.report(Trouble.DUPLICATE_NODE_ID, candidate.node_id, None)
            return ErrorCode.NONE, False
        up_to_date = log_is_up_to_date(node.log, asked.last_offset_epoch, asked.last_offset)
        if asked.pre_vote:
            return ErrorCode.NONE, up_to_date and self._grants_pre_vote()
        granted = (
            up_to_date
            and isinstance(node.role, Unattached | Prospective)
            and may_vote_for(node.election, candidate)
        )
        if granted:
            node.grant(candidate)
            if isinstance(node.role, Unattached):
                node.become_unattached(node.election)
        return ErrorCode.NONE, granted

    def _grants_pre_vote(self) -> bool:
        """Whether this node's role allows a pre-vote: not while it hears from a working leader."""
        match self._node.role:
            case Follower() as follower:
                return not follower.has_fetched or follower.leader_resigned
            case Leader() as leader:
                return not leader.has_high_watermark
            case _:
                return True

    def on_begin_epoch(self, token: int, request: BeginQuorumEpochRequest, version: int) -> None:
        """A leader announces its epoch."""
        node = self._node
        if self._refused(token, request):
            return
        asked = request.topics[0].partitions[0]
        error = voter_request_error(node, asked.leader_id, asked.leader_epoch)
        if error is ErrorCode.NONE:
            address = self._address_in(request)
            node.hear_of_leader(asked.leader_id, asked.leader_epoch, address, itself=True)
            if not is_addressed_to(node, ReplicaKey(request.voter_id, asked.voter_directory_id)):
                error = ErrorCode.INVALID_VOTER_KEY
            elif asked.leader_id == node.local.node_id:
                node.report(Trouble.DUPLICATE_NODE_ID, asked.leader_id, address)
                error = ErrorCode.INVALID_REQUEST
        topic = request.topics[0].topic_name
        node.emit(Reply(token, answers.begin_epoch(topic, error, node.known_leader, version)))

    def on_end_epoch(self, token: int, request: EndQuorumEpochRequest, version: int) -> None:
        """A leader announces its resignation, and its preferred successors."""
        node = self._node
        if self._refused(token, request):
            return
        asked = request.topics[0].partitions[0]
        error = voter_request_error(node, asked.leader_id, asked.leader_epoch)
        if error is ErrorCode.NONE:
            address = self._address_in(request)
            node.hear_of_leader(asked.leader_id, asked.leader_epoch, address)
            role = node.role
            if isinstance(role, Follower) and role.leader_id == asked.leader_id:
                if version >= 1:
                    ids = [each.candidate_id for each in asked.preferred_candidates]
                else:
                    ids = list(asked.preferred_successors)
                position = ids.index(node.local.node_id) if node.local.node_id in ids else len(ids)
                delay_ms = successor_delay_ms(node.settings, position)
                role.leader_resigned = True
                role.fetch_deadline_ms = min(role.fetch_deadline_ms, node.now_ms + delay_ms)
        topic = request.topics[0].topic_name
        node.emit(Reply(token, answers.end_epoch(topic, error, node.known_leader, version)))

    def _address_in(self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> Address | None:
        listeners = self._node.local_listeners
        endpoints = [ListenerEndpoint(each.name, each.host, each.port) for each in request.leader_endpoints]
        return address_of(endpoints, listeners[0].name if listeners else None)

    # -- answers --------------------------------------------------------------------------------------

    def on_vote_answer(self, sent: Sent, response: VoteResponse) -> bool:
        """Count a vote. False if the answer makes no sense."""
        node = self._node
        partition = response.topics[0].partitions[0] if _has_partition(response) else None
        if response.error_code or partition is None:
            return False
        address = hinted_address(response, partition.leader_id)
        error = error_of(partition.error_code)
        if partition.leader_epoch > node.epoch or partition.leader_id != NO_NODE:
            node.hear_of_leader(partition.leader_id, partition.leader_epoch, address)
        role = node.role
        if node.epoch != sent.epoch or not isinstance(role, Prospective | Candidate):
            return True
        pre_vote = cast(VoteRequest, sent.request).topics[0].partitions[0].pre_vote
        if pre_vote != isinstance(role, Prospective):
            return True
        if error is not ErrorCode.NONE:
            return error is ErrorCode.FENCED_LEADER_EPOCH
        role.tally.record(sent.node_id, partition.vote_granted)
        if role.tally.won:
            if isinstance(role, Prospective):
                node.stand_for_election(role.losses)
            else:
                node.lead(tuple(sorted(role.tally.granted)))
        elif role.tally.lost:
            node.lose_election(role)
        return True

    def on_epoch_answer(
        self, sent: Sent, response: BeginQuorumEpochResponse | EndQuorumEpochResponse
    ) -> bool:
        """A voter has acknowledged the epoch's beginning or end. False if the answer makes no sense."""
        node = self._node
        if response.error_code or not _has_partition(response):
            return False
        partition = response.topics[0].partitions[0]
        node.hear_of_leader(
            partition.leader_id, partition.leader_epoch, hinted_address(response, partition.leader_id)
        )
        if node.epoch != sent.epoch or partition.error_code:
            return not partition.error_code
        match node.role:
            case Leader() as leader if sent.node_id in leader.begin_due_ms:
                leader.begin_due_ms[sent.node_id] = node.now_ms + node.settings.fetch_timeout_ms // 2
            case Resigned() as resigned:
                resigned.unacknowledged.discard(sent.node_id)
            case _:
                pass
        return True

    # -- time -----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Ask for votes and announce the end of an epoch, as far as due; act on deadlines."""
        node = self._node
        match node.role:
            case Prospective() as role:
                self._ask(role, pre_vote=True)
                if node.now_ms >= role.deadline_ms:
                    node.give_up_pre_vote()
                else:
                    node.wake_at(role.deadline_ms)
            case Candidate() as role:
                if node.now_ms >= role.deadline_ms:
                    if node.may_stand:
                        node.ask_for_votes_first(role.losses + 1)
                    else:
                        node.become_unattached(node.election)
                    return
                self._ask(role, pre_vote=False)
                node.wake_at(role.deadline_ms)
            case Resigned() as role:
                self._end_epoch(role)
            case _:
                pass

    def _ask(self, role: Prospective | Candidate, *, pre_vote: bool) -> None:
        node = self._node
        if role.tally.lost:
            return
        log_end = (node.log.last_epoch, node.log.end_offset)
        for node_id in sorted(role.tally.unanswered):
            voter = node.voters.get(node_id)
            address = node.address_of_voter(node_id)
            if voter is not None and address is not None and ready(node, address):
                request = requests.vote(node.cluster_id, node.epoch, node.local, voter.key, log_end, pre_vote)
                node.send(address, request, node_id=node_id)

    def _end_epoch(self, role: Resigned) -> None:
        node = self._node
        if node.now_ms >= role.deadline_ms and not node.stopping:
            # This node led the epoch, so no other node ever will: it begins the next one.
            epoch = node.epoch + 1 if node.may_stand else node.epoch
            leader_id = NO_NODE if node.may_stand else node.election.leader_id
            node.become_unattached(ElectionState(epoch, leader_id))
            return
        if not node.stopping:
            node.wake_at(role.deadline_ms)
        for node_id in sorted(role.unacknowledged):
            address = node.address_of_voter(node_id)
            if address is None:
                role.unacknowledged.discard(node_id)
            elif ready(node, address):
                request = requests.end_epoch(
                    node.cluster_id, node.epoch, node.local.node_id, node.local_listeners, role.successors
                )
                node.send(address, request, node_id=node_id)


def ready(node: Node, address: Address) -> bool:
    """Whether a request may be sent to an address now; if only a pause prevents it, wake at its end."""
    return not node.connections.busy(address) and not_paused(node, address)


def not_paused(node: Node, address: Address) -> bool:
    """Whether requests to an address are not paused; if they are, wake at the end of the pause."""
    until_ms = node.connections.paused_until(address, node.now_ms)
    if until_ms is not None:
        node.wake_at(until_ms)
        return False
    return True


def _has_partition(
    response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse,
) -> bool:
    return bool(response.topics) and bool(response.topics[0].partitions)


def hinted_address(
    response: VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse,
    leader_id: int,
) -> Address | None:
    """The leader's address, if the answer has it."""
    return next(
        (Address(each.host, each.port) for each in response.node_endpoints if each.node_id == leader_id),
        None,
    )
