"""Fetching the metadata log: the part of every node that does not lead, voter or observer.

Theory of operation. One fetch is under way at a time. It goes to the leader if that is known and answers,
otherwise to any other voter or bootstrap server, whose answer names the leader. A fetch's offset tells the
leader which records are synced here, so no fetch is sent while the log has an unsynced tail or is being
changed. An answer counts only if nothing has changed since the fetch was sent: the epoch, the leader and the
log's end are the same. A log that has diverged from the leader's is cut, but never below the high watermark.
A log that ends before the leader's begins is replaced by the leader's snapshot; a node whose snapshot is
being put in place does not stand for election.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ottla.core.quorum import requests
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    AppendFetched,
    AppendSnapshot,
    BeginSnapshot,
    InstallSnapshot,
    QuorumFault,
    SnapshotId,
    Trouble,
    Truncate,
)
from ottla.core.quorum.connections import Sent
from ottla.core.quorum.control_records import LogControl
from ottla.core.quorum.election import unreachable_patience_ms
from ottla.core.quorum.node import UPDATE_VOTER_FETCH_TIMEOUTS, Node
from ottla.core.quorum.positions import Divergence, truncation_offset
from ottla.core.quorum.roles import Follower, SnapshotFetch, Unattached
from ottla.core.quorum.validation import error_of
from ottla.core.quorum.voters import address_of
from ottla.core.quorum.voting import hinted_address, not_paused
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import fetch_response, fetch_snapshot_response
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from ottla.protocol.schema import ZERO_UUID

_FETCHES = (FetchRequest, FetchSnapshotRequest)
_ABOUT_ITSELF = (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)


class Following:
    """The fetches that a node sends to others."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- time -----------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Fetch, or stand for election if the leader has been silent for too long."""
        node = self._node
        match node.role:
            case Follower() as follower:
                self._poll_follower(follower)
            case Unattached() as unattached:
                if node.may_stand:
                    if node.now_ms >= unattached.deadline_ms:
                        node.ask_for_votes_first(0)
                        return
                    node.wake_at(unattached.deadline_ms)
                self._fetch(None)
            case _:
                pass

    def _poll_follower(self, follower: Follower) -> None:
        node = self._node
        if node.may_stand:
            if node.now_ms >= follower.fetch_deadline_ms:
                node.ask_for_votes_first(0)
                return
            if follower.ask_early_ms is not None:
                if node.now_ms >= follower.ask_early_ms:
                    node.ask_for_votes_first(0, follow_until_ms=follower.fetch_deadline_ms)
                    return
                node.wake_at(follower.ask_early_ms)
            node.wake_at(follower.fetch_deadline_ms)
        elif node.now_ms < follower.fetch_deadline_ms:
            node.wake_at(follower.fetch_deadline_ms)
        if self._register(follower):
            return
        self._fetch(follower)

    def _fetch(self, follower: Follower | None) -> None:
        node = self._node
        if (
            node.log_changing
            or node.installing is not None
            or node.synced_offset < node.log.end_offset
            or node.connections.under_way(_FETCHES)
        ):
            return
        to = self._leader_or_other_voter(follower)
        if to is None:
            return
        if follower is not None and follower.snapshot is not None and to == follower.address:
            snapshot = follower.snapshot
            node.send(
                to,
                requests.fetch_snapshot(
                    node.cluster_id,
                    node.epoch,
                    node.local,
                    snapshot.snapshot,
                    snapshot.position,
                    node.settings.snapshot_fetch_max_bytes,
                ),
            )
            return
        log = node.log
        request = requests.fetch(
            node.cluster_id,
            node.epoch,
            node.local,
            (log.last_epoch, log.end_offset),
            node.high_watermark,
            (node.settings.fetch_max_wait_ms, node.settings.fetch_max_bytes),
        )
        node.send(to, request, fetch_offset=log.end_offset)

    def _leader_or_other_voter(self, follower: Follower | None) -> Address | None:
        """The leader while it answers in time, otherwise a random node that may know it."""
        node = self._node
        if follower is not None:
            silent = node.now_ms >= follower.fetch_deadline_ms
            if not silent and not follower.leader_resigned and not_paused(node, follower.address):
                return follower.address
        known = self._addresses()
        if follower is not None and follower.address not in known:
            known.append(follower.address)
        free = [address for address in known if not_paused(node, address)]
        return free[node.random.below(len(free))] if free else None

    def _addresses(self) -> list[Address]:
        node = self._node
        name = node.local_listeners[0].name if node.local_listeners else None
        own = {Address(each.host, each.port) for each in node.local_listeners}
        addresses: dict[Address, None] = {}
        for voter in node.voters.voters:
            address = address_of(voter.endpoints, name)
            if address is not None and voter.key.node_id != node.local.node_id:
                addresses[address] = None
        for address in node.settings.bootstrap_servers:
            addresses[address] = None
        return [address for address in addresses if address not in own]

    # -- Fetch ----------------------------------------------------------------------------------------

    def on_fetch_answer(self, sent: Sent, response: FetchResponse) -> bool:
        """Append the records of an answer. False if the answer makes no sense."""
        node = self._node
        if response.error_code or not response.responses or not response.responses[0].partitions:
            return False
        partition = response.responses[0].partitions[0]
        leader = partition.current_leader
        address = hinted_address(response, leader.leader_id)
        if leader.leader_epoch >= 0:
            node.hear_of_leader(leader.leader_id, leader.leader_epoch, address)
        error = error_of(partition.error_code)
        if error is not ErrorCode.NONE:
            return error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH) and (
                node.epoch != sent.epoch
            )
        role = node.role
        if (
            node.epoch != sent.epoch
            or not isinstance(role, Follower)
            or leader.leader_id != role.leader_id
            or node.log.end_offset != sent.fetch_offset
            or node.synced_offset < sent.fetch_offset
        ):
            return True
        self._heard_from(role)
        return self._take(role, partition)

    def _heard_from(self, follower: Follower) -> None:
        node = self._node
        follower.has_fetched = True
        follower.unreachable = False
        follower.ask_early_ms = None
        if not follower.leader_resigned:
            follower.fetch_deadline_ms = node.now_ms + node.settings.fetch_timeout_ms

    def on_no_answer(self, sent: Sent) -> None:
        """The leader can't be reached. If that lasts, this node does not wait for the whole fetch timeout: it
        asks the other voters for a pre-vote, which they refuse if they still hear from the leader.
        """
        node, role = self._node, self._node.role
        if (
            isinstance(role, Follower)
            and isinstance(sent.request, _FETCHES)
            and sent.to == role.address
            and not role.unreachable
        ):
            role.unreachable = True
            patience_ms = unreachable_patience_ms(node.settings, node.random)
            role.ask_early_ms = node.now_ms + patience_ms

    def _take(self, follower: Follower, partition: fetch_response.PartitionData) -> bool:
        """Apply a leader's answer to this log. False if it makes no sense: fetch again after a pause."""
        node = self._node
        divergence, snapshot = partition.diverging_epoch, partition.snapshot_id
        if divergence.epoch >= 0 and divergence.end_offset >= 0:
            return self._cut(Divergence(divergence.epoch, divergence.end_offset))
        if snapshot.end_offset >= 0 and snapshot.epoch >= 0:
            self._begin_snapshot(follower, SnapshotId(snapshot.end_offset, snapshot.epoch))
            return True
        follower.leader_high_watermark = max(follower.leader_high_watermark, partition.high_watermark)
        if partition.records:
            node.emit(AppendFetched(partition.records, node.epoch))
            node.log_changing = True
        else:
            self.follow_high_watermark()
        return True

    def follow_high_watermark(self) -> None:
        """Advance to the leader's high watermark, at most to this log's end."""
        node = self._node
        if isinstance(node.role, Follower):
            node.advance_high_watermark(min(node.role.leader_high_watermark, node.log.end_offset))

    def _cut(self, divergence: Divergence) -> bool:
        node = self._node
        offset = truncation_offset(node.log, divergence)
        if offset >= node.log.end_offset:
            return False
        committed = max(node.high_watermark, node.log.start_offset)
        if offset < committed:
            raise QuorumFault(
                f"the leader of epoch {node.epoch}, node {node.leader_id}, has other records from offset "
                f"{offset} on; {committed} and all before is committed here"
            )
        node.emit(Truncate(offset))
        node.log_changing = True
        node.synced_offset = min(node.synced_offset, offset)
        node.history.truncate(offset)
        node.wake_at(node.now_ms)
        return True

    def on_appended(self, controls: Sequence[LogControl]) -> None:
        """The fetched batches are in the log; the voters in them count from now on."""
        node = self._node
        for control in controls:
            if control.offset < node.log.end_offset:
                node.history.add(control)
        self.follow_high_watermark()

    def on_append_failed(self) -> None:
        """The fetched batches were bad: pause before the next fetch."""
        if isinstance(self._node.role, Follower):
            self._node.pause(self._node.role.address)

    # -- FetchSnapshot --------------------------------------------------------------------------------

    def _begin_snapshot(self, follower: Follower, snapshot: SnapshotId) -> None:
        node = self._node
        if snapshot.end_offset < node.high_watermark or snapshot.end_offset < node.log.start_offset:
            raise QuorumFault(
                f"the leader of epoch {node.epoch}, node {node.leader_id}, offers a snapshot up to offset "
                f"{snapshot.end_offset}; {max(node.high_watermark, node.log.start_offset)} and all before is "
                "committed here"
            )
        follower.snapshot = SnapshotFetch(snapshot)
        node.emit(BeginSnapshot(snapshot))

    def on_snapshot_answer(self, sent: Sent, response: FetchSnapshotResponse) -> bool:
        """Keep the bytes of an answer. False if the answer makes no sense."""
        node = self._node
        if response.error_code or not response.topics or not response.topics[0].partitions:
            return False
        partition = response.topics[0].partitions[0]
        leader = partition.current_leader
        address = hinted_address(response, leader.leader_id)
        node.hear_of_leader(leader.leader_id, leader.leader_epoch, address)
        role = node.role
        if node.epoch != sent.epoch or not isinstance(role, Follower) or role.snapshot is None:
            return True
        asked = cast(FetchSnapshotRequest, sent.request).topics[0].partitions[0]
        if not self._fits(role.snapshot, partition, asked.position):
            role.snapshot = None  # the leader has another snapshot by now: a Fetch asks for its id
            return False
        self._heard_from(role)
        fetch = role.snapshot
        node.emit(AppendSnapshot(fetch.snapshot, partition.unaligned_records))
        fetch.position += len(partition.unaligned_records)
        if fetch.position == partition.size:
            role.snapshot = None
            node.installing = fetch.snapshot
            node.log_changing = True
            node.emit(InstallSnapshot(fetch.snapshot))
        return True

    @staticmethod
    def _fits(
        fetch: SnapshotFetch, partition: fetch_snapshot_response.PartitionSnapshot, asked_position: int
    ) -> bool:
        size = len(partition.unaligned_records)
        return (
            not partition.error_code
            and (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == fetch.snapshot
            and partition.position == asked_position == fetch.position
            and 0 < size <= partition.size - fetch.position
        )

    def on_snapshot_installed(self, snapshot: SnapshotId, controls: Sequence[LogControl]) -> None:
        """The log now begins and ends where the snapshot ends."""
        node = self._node
        node.installing = None
        node.history.reset(controls)
        node.synced_offset = node.log.end_offset
        node.advance_high_watermark(snapshot.end_offset)

    def on_snapshot_failed(self) -> None:
        """The bytes were not a valid snapshot."""
        self._node.installing = None
        if isinstance(self._node.role, Follower):
            self._node.role.snapshot = None
        self.on_append_failed()

    # -- a voter's own registration with the leader ---------------------------------------------------

    def _register(self, follower: Follower) -> bool:
        """Tell the leader of this node's listeners, or ask to become a voter. Whether a request was sent."""
        node = self._node
        if not node.local_listeners or not node.settings.may_vote or node.stopping:
            return False
        wanted = self._wanted(follower)
        if wanted is None:
            return False
        if node.now_ms < follower.update_voter_ms:
            node.wake_at(follower.update_voter_ms)
            return False
        if node.connections.under_way(_ABOUT_ITSELF) or not not_paused(node, follower.address):
            return False
        follower.update_voter_ms = node.now_ms + UPDATE_VOTER_FETCH_TIMEOUTS * node.settings.fetch_timeout_ms
        node.send(follower.address, wanted)
        return True

    def _wanted(
        self, follower: Follower
    ) -> UpdateRaftVoterRequest | AddRaftVoterRequest | RemoveRaftVoterRequest | None:
        node = self._node
        own = node.voters.get(node.local.node_id)
        if node.is_voter and own is not None:
            if node.history.kraft_version == 0:
                told = follower.reported_to_leader
            else:
                told = own == node.itself
            return None if told else requests.update_voter(node.cluster_id, node.epoch, node.itself)
        if not node.settings.auto_join or node.history.kraft_version == 0 or not node.voters.voters:
            return None
        if own is not None:
            # The voter with this node's id has a directory that this node lost: it has to be removed first.
            return requests.remove_voter(node.cluster_id, own.key)
        if node.local.directory_id == ZERO_UUID:
            return None
        return requests.add_voter(node.cluster_id, node.itself, node.settings.request_timeout_ms)

    def on_registration_answer(
        self,
        sent: Sent,
        response: UpdateRaftVoterResponse | AddRaftVoterResponse | RemoveRaftVoterResponse,
    ) -> bool:
        """The leader has taken the registration, or gets it again later."""
        node = self._node
        if isinstance(response, UpdateRaftVoterResponse):
            leader = response.current_leader
            if leader.leader_epoch > node.epoch or (
                leader.leader_epoch == node.epoch and leader.leader_id != NO_NODE
            ):
                address = Address(leader.host, leader.port) if leader.host else None
                node.hear_of_leader(leader.leader_id, leader.leader_epoch, address)
        role = node.role
        if isinstance(role, Follower) and node.epoch == sent.epoch:
            role.reported_to_leader = not response.error_code
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            node.report(Trouble.OTHER_CLUSTER, sent.node_id, sent.to)
        return True
