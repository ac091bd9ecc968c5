"""One node of the metadata quorum: requests, answers, ends of its own work and the time in, effects out.

Theory of operation. The shell makes one `Quorum` a node from the data on its disk (all of it synced), calls
`start`, and performs the effects of every call in order before it feeds the next event. After each call it
asks `next_wake_ms` when to call `on_time`.

The shell's duties for each effect:

    Send                 `on_response` once, with the answer or None
    AppendControls       append, `on_leader_appended`; sync, `on_flushed`
    AppendFetched        check and append, then at once `on_appended` with the control records in it, for
                         voters count as soon as they are in the log; sync, `on_flushed`.
                         Bad bytes: `on_append_failed`
    InstallSnapshot      sync, put in place, replay; `on_snapshot_installed`. Bad file: `on_snapshot_failed`
    others               nothing

A controller's own records: append, `on_leader_appended`, sync, `on_flushed`. One `on_flushed` may come late
and cover several appends, but a sync that began before a Truncate does not cover later appends. No fetch is
sent while the log has an unsynced tail: the offset of a fetch tells the leader which records are durable
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    Effect,
    ElectionState,
    ListenerEndpoint,
    QuorumFault,
    QuorumLog,
    QuorumSettings,
    Randomness,
    ReplicaKey,
    Role,
    SnapshotId,
    Trouble,
    VoterSet,
)
from ottla.core.quorum.connections import Sent
from ottla.core.quorum.control_records import LogControl
from ottla.core.quorum.describing import on_describe
from ottla.core.quorum.following import Following
from ottla.core.quorum.leader import Leader
from ottla.core.quorum.leading import Leading
from ottla.core.quorum.node import Node
from ottla.core.quorum.roles import Candidate, Prospective, Resigned
from ottla.core.quorum.voter_changes import VoterChanges
from ottla.core.quorum.voters import VoterHistory
from ottla.core.quorum.voting import Voting
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from ottla.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from ottla.protocol.messages.begin_quorum_epoch_response import BeginQuorumEpochResponse
from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from ottla.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from ottla.protocol.messages.end_quorum_epoch_response import EndQuorumEpochResponse
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchResponse
from ottla.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from ottla.protocol.messages.fetch_snapshot_response import FetchSnapshotResponse
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from ottla.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from ottla.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from ottla.protocol.messages.vote_request import VoteRequest
from ottla.protocol.messages.vote_response import VoteResponse
from ottla.protocol.schema import Message

MAX_TRANSITIONS = 16
"""More transitions than any path through the roles takes in one step."""


class Quorum:
    """The KRaft state machine of one node.

    `static_voters` are those of controller.quorum.voters (kraft.version 0), or None. `history` has the voters
    and kraft.version records of the latest snapshot (at the offset before its end, so -1 for the snapshot
    that formatting wrote) and of the log after it, in order; they take precedence over `static_voters` if the
    log's kraft.version is 1. `local_listeners` are this node's controller listeners as others reach them,
    empty for a node without the controller role. `wall_offset_ms` is the wall clock minus the clock of
    `now_ms`; only DescribeQuorum uses it, and the shell may update it.
    """

    def __init__(
        self,
        settings: QuorumSettings,
        cluster_id: str,
        local: ReplicaKey,
        local_listeners: tuple[ListenerEndpoint, ...],
        static_voters: VoterSet | None,
        history: Iterable[LogControl],
        election: ElectionState,
        log: QuorumLog,
        random: Randomness,
        wall_offset_ms: int = 0,
    ) -> None:
        self.wall_offset_ms = wall_offset_ms
        self._node = Node(
            settings,
            cluster_id,
            local,
            local_listeners,
            VoterHistory(static_voters, history),
            election,
            log,
            random,
        )
        self._voting = Voting(self._node)
        self._following = Following(self._node)
        self._leading = Leading(self._node)
        self._changes = VoterChanges(self._node)

    # -- queries of the shell -------------------------------------------------------------------------

    @property
    def local(self) -> ReplicaKey:
        """This node's id and metadata directory."""
        return self._node.local

    @property
    def role(self) -> Role:
        """This node's role in its epoch."""
        return self._node.role_name

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows."""
        return self._node.epoch

    @property
    def leader_id(self) -> int:
        """The epoch's leader, NO_NODE while unknown."""
        return self._node.leader_id

    @property
    def leader_address(self) -> Address | None:
        """The address of the leader's controller listener, or None."""
        return self._node.leader_address

    @property
    def voters(self) -> VoterSet:
        """The newest voters, committed or not; empty on an observer that knows none yet."""
        return self._node.voters

    @property
    def kraft_version(self) -> int:
        """The kraft.version: 0 for static voters, 1 for voters in the log (KIP-853)."""
        return self._node.history.kraft_version

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters named below `offset`, for a snapshot that ends there; None without a record."""
        return self._node.history.voters_at(offset)

    def kraft_version_at(self, offset: int) -> int:
        """The kraft.version below `offset`."""
        return self._node.history.kraft_version_at(offset)

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed; -1 while unknown."""
        return self._node.high_watermark

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the voters."""
        return self._node.is_voter

    @property
    def voted_for(self) -> int:
        """The node that this one voted for in its epoch, NO_NODE without a vote."""
        voted = self._node.election.voted
        return NO_NODE if voted is None else voted.node_id

    @property
    def replica_ends(self) -> list[tuple[int, bool, int]] | None:
        """(node id, whether it votes, the end of its log) of each replica but this one.

        None where this node does not lead.
        """
        role = self._node.role
        if not isinstance(role, Leader):
            return None
        return [
            (each.key.node_id, is_voter, each.end_offset)
            for is_voter, known in ((True, role.voters.values()), (False, role.observers.values()))
            for each in known
            if each.key.node_id != self._node.local.node_id
        ]

    def next_wake_ms(self) -> int | None:
        """The time at which `on_time` is due, or None."""
        return self._node.wake_ms

    # -- events ---------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> list[Effect]:
        """Enter the first role. A single voter leads when this returns."""
        self._node.begin_step(now_ms)
        self._node.start()
        return self._settle()

    def on_time(self, now_ms: int) -> list[Effect]:
        """`next_wake_ms` has come; a call that is early or late does no harm."""
        self._node.begin_step(now_ms)
        return self._settle()

    def on_request(self, now_ms: int, token: int, request: Message, api_version: int) -> list[Effect]:
        """A request of a node or an admin client came in. It is answered once, now or later, by `token`.

        The requests are Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot, DescribeQuorum,
        AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.
        """
        self._node.begin_step(now_ms)
        match request:
            case FetchRequest():
                self._leading.on_fetch(token, request, api_version)
            case VoteRequest():
                self._voting.on_vote(token, request, api_version)
            case BeginQuorumEpochRequest():
                self._voting.on_begin_epoch(token, request, api_version)
            case EndQuorumEpochRequest():
                self._voting.on_end_epoch(token, request, api_version)
            case FetchSnapshotRequest():
                self._leading.on_fetch_snapshot(token, request, api_version)
            case DescribeQuorumRequest():
                on_describe(self._node, token, request, api_version, self.wall_offset_ms)
            case AddRaftVoterRequest():
                self._changes.on_add(token, request)
            case RemoveRaftVoterRequest():
                self._changes.on_remove(token, request)
            case UpdateRaftVoterRequest():
                self._changes.on_update(token, request)
            case _:
                raise TypeError(f"{type(request).__name__} is not a request of the quorum")
        return self._settle()

    def on_disconnected(self, token: int) -> None:
        """The connection of a waiting request is gone: forget the request."""
        role = self._node.role
        if isinstance(role, Leader):
            role.waiting.pop(token, None)
        self._changes.forget(token)

    def on_response(self, now_ms: int, request_id: int, response: Message | None) -> list[Effect]:
        """The answer to a `Send`; None if there is none."""
        node = self._node
        node.begin_step(now_ms)
        sent = node.connections.end(request_id)
        if sent is not None:
            if response is None:
                self._following.on_no_answer(sent)
            if self._take_answer(request_id, sent, response):
                node.connections.answered(sent.to)
            else:
                node.pause(sent.to)
        return self._settle()

    def on_appended(self, now_ms: int, controls: Sequence[LogControl] = ()) -> list[Effect]:
        """The batches of `AppendFetched` are in the log, not yet synced; `controls` are the voters and
        kraft.version records in them.
        """
        self._node.begin_step(now_ms)
        self._following.on_appended(controls)
        return self._settle()

    def on_leader_appended(self, now_ms: int) -> list[Effect]:
        """This leader's log has grown: answer the fetches that wait for records."""
        self._node.begin_step(now_ms)
        self._leading.answer_waiting()
        return self._settle()

    def on_flushed(self, now_ms: int, end_offset: int) -> list[Effect]:
        """Everything below `end_offset` is synced: a leader
        counts its own log up to there, a follower fetches on.
        """
        node = self._node
        node.begin_step(now_ms)
        node.synced_offset = max(node.synced_offset, min(end_offset, node.log.end_offset))
        self._leading.update_high_watermark()
        return self._settle()

    def on_append_failed(self, now_ms: int) -> list[Effect]:
        """The batches of `AppendFetched` were not appended: fetch them again, after a pause."""
        self._node.begin_step(now_ms)
        self._following.on_append_failed()
        return self._settle()

    def on_snapshot_installed(
        self, now_ms: int, snapshot: SnapshotId, controls: Sequence[LogControl]
    ) -> list[Effect]:
        """The log begins at the snapshot's end and is synced; `controls` are in order."""
        self._node.begin_step(now_ms)
        self._following.on_snapshot_installed(snapshot, controls)
        return self._settle()

    def on_snapshot_failed(self, now_ms: int) -> list[Effect]:
        """The snapshot's bytes are invalid: fetch it again from its beginning, after a pause."""
        self._node.begin_step(now_ms)
        self._following.on_snapshot_failed()
        return self._settle()

    def on_snapshot_written(self, now_ms: int) -> list[Effect]:
        """A snapshot of this node is in place, or the log's start has moved."""
        self._node.begin_step(now_ms)
        self._node.history.forget_below(self._node.log.start_offset)
        return self._settle()

    def resign(self, now_ms: int) -> list[Effect]:
        """Begin a clean stop: a leader hands over, and the node stands for no further election.

        The stop is complete when `resigned` is true, or when the shell has waited long enough.
        """
        node = self._node
        node.begin_step(now_ms)
        node.stopping = True
        if isinstance(node.role, Leader):
            node.resign_from_epoch()
        elif isinstance(node.role, Candidate | Prospective):
            node.become_unattached(node.election)
        return self._settle()

    @property
    def resigned(self) -> bool:
        """Whether a stop that `resign` began has nothing left to wait for."""
        role = self._node.role
        return self._node.stopping and not (isinstance(role, Resigned) and role.unacknowledged)

    def upgrade_kraft_version(
        self, now_ms: int, version: int, validate_only: bool
    ) -> tuple[ErrorCode, str | None, list[Effect]]:
        """Change kraft.version for UpdateFeatures; the change counts once committed."""
        self._node.begin_step(now_ms)
        error, text = self._changes.upgrade(version, validate_only)
        return error, text, self._settle()

    # -- between an event and its effects -------------------------------------------------------------

    def _take_answer(self, request_id: int, sent: Sent, response: Message | None) -> bool:
        """Give an answer to its part. False if it makes no sense: the sender is then paused."""
        if isinstance(sent.request, ApiVersionsRequest):
            versions = response if isinstance(response, ApiVersionsResponse) else None
            return self._changes.on_versions(request_id, sent, versions)
        if getattr(response, "error_code", 0) == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._node.report(Trouble.OTHER_CLUSTER, sent.node_id, sent.to)
        match response:
            case FetchResponse():
                return self._following.on_fetch_answer(sent, response)
            case VoteResponse():
                return self._voting.on_vote_answer(sent, response)
            case BeginQuorumEpochResponse() | EndQuorumEpochResponse():
                return self._voting.on_epoch_answer(sent, response)
            case FetchSnapshotResponse():
                return self._following.on_snapshot_answer(sent, response)
            case UpdateRaftVoterResponse() | AddRaftVoterResponse() | RemoveRaftVoterResponse():
                return self._following.on_registration_answer(sent, response)
            case _:
                return False

    def _settle(self) -> list[Effect]:
        """Do all due work, until the role no longer changes; return the step's effects."""
        node = self._node
        for _ in range(MAX_TRANSITIONS):
            role = node.role
            self._changes.poll()
            self._leading.poll()
            self._voting.poll()
            self._following.poll()
            if node.role is role:
                return node.effects
        raise QuorumFault(f"node {node.local.node_id} keeps changing its role in epoch {node.epoch}")
