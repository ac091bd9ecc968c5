"""A node's state, and the transitions from one role to another.

Theory of operation. Every change of role or epoch goes through `Node.enter`: it saves the election's state
first if that changed, so that everything the node says afterwards holds after a crash; it forgets the
requests under way; and a leader that stops leading refuses all requests that wait for it. A node that hears
of a newer epoch enters it (`hear_of_leader`) before it does anything else.

    unattached -> prospective -> candidate -> leader -> resigned -> unattached in the next epoch
    any -> follower, when the epoch's leader and its address are known
    any -> unattached, when a newer epoch is known and its leader is not
"""

from __future__ import annotations

from dataclasses import replace

from ottla.core.quorum import answers
from ottla.core.quorum.answers import KnownLeader
from ottla.core.quorum.api import (
    NO_NODE,
    Address,
    AppendControls,
    Became,
    Commit,
    Effect,
    ElectionState,
    ListenerEndpoint,
    QuorumLog,
    QuorumSettings,
    Randomness,
    ReplicaKey,
    Reply,
    Report,
    Role,
    SaveElection,
    Send,
    SnapshotId,
    Trouble,
    Voter,
    VoterSet,
)
from ottla.core.quorum.connections import Connections, Sent
from ottla.core.quorum.control_records import (
    Control,
    LogControl,
    kraft_version_control,
    leader_change,
    voters_control,
)
from ottla.core.quorum.election import Tally, backoff_ms, election_timeout_ms, first_election_timeout_ms
from ottla.core.quorum.leader import Leader, check_quorum_deadline_ms
from ottla.core.quorum.roles import (
    ROLES,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    RoleState,
    Unattached,
)
from ottla.core.quorum.voters import VoterHistory, address_of, is_voter, with_voter
from ottla.protocol.errors import ErrorCode
from ottla.protocol.schema import Message

MAX_KRAFT_VERSION = 1
UPDATE_VOTER_FETCH_TIMEOUTS = 3


class Node:
    """The state that all parts of the state machine share, and the effects of the current step."""

    def __init__(
        self,
        settings: QuorumSettings,
        cluster_id: str,
        local: ReplicaKey,
        local_listeners: tuple[ListenerEndpoint, ...],
        history: VoterHistory,
        election: ElectionState,
        log: QuorumLog,
        random: Randomness,
    ) -> None:
        self.settings = settings
        self.cluster_id = cluster_id
        self.local = local
        self.local_listeners = local_listeners
        self.history = history
        self.election = election
        self.log = log
        self.random = random
        self.role: RoleState = Unattached(0)
        self.connections = Connections()
        self.high_watermark = -1
        self.synced_offset = log.end_offset
        self.installing: SnapshotId | None = None
        self.log_changing = False
        self.stopping = False
        self.now_ms = 0
        self.wake_ms: int | None = None
        self.effects: list[Effect] = []
        self._became: Became | None = None
        self._reported: set[tuple[int, Report]] = set()

    # -- the node's state -----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The newest epoch that this node knows."""
        return self.election.epoch

    def is_over(self, epoch: int) -> bool:
        """Whether an epoch is older than this node's: requests and answers in it no longer count."""
        return epoch < self.epoch

    @property
    def leader_id(self) -> int:
        """The epoch's leader, NO_NODE if unknown or resigned."""
        leader_id = self.election.leader_id
        if leader_id == self.local.node_id and not isinstance(self.role, Leader):
            return NO_NODE
        return leader_id

    @property
    def leader_address(self) -> Address | None:
        """The address of the leader's controller listener, or None."""
        match self.role:
            case Follower():
                return self.role.address
            case Leader():
                return address_of(self.local_listeners, None)
            case _:
                return self.address_of_voter(self.leader_id)

    @property
    def known_leader(self) -> KnownLeader:
        """The leader as this node names it to others."""
        return KnownLeader(self.leader_id, self.epoch, self.leader_address)

    @property
    def voters(self) -> VoterSet:
        """The newest voters."""
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the newest voters."""
        return is_voter(self.voters, self.local)

    @property
    def may_stand(self) -> bool:
        """Whether this node may become a leader now: not while its log is being replaced.

        A voter whose removal is in its log, but not known to be committed, may: perhaps no other voter has
        the record that commits it. Elected by the voters that stay, it commits the removal and resigns.
        """
        if not self.settings.may_vote or self.stopping or self.installing is not None:
            return False
        leaving = self.history.voters_offset >= self.high_watermark and is_voter(
            self.history.voters_before, self.local
        )
        return self.is_voter or leaving

    @property
    def itself(self) -> Voter:
        """This node as a voter, from its own configuration."""
        return Voter(self.local, self.local_listeners, 0, MAX_KRAFT_VERSION)

    def address_of_voter(self, node_id: int) -> Address | None:
        """The address of a voter: its listener with the name of this node's own, otherwise its first."""
        voter = self.voters.get(node_id)
        if voter is None:
            return None
        name = self.local_listeners[0].name if self.local_listeners else None
        return address_of(voter.endpoints, name)

    # -- effects --------------------------------------------------------------------------------------

    def begin_step(self, now_ms: int) -> None:
        """Begin the step of a new event."""
        self.now_ms = max(now_ms, self.now_ms)
        self.wake_ms = None
        self.effects = []
        self.log_changing = False

    def emit(self, *effects: Effect) -> None:
        """Add effects to the step, in order."""
        self.effects.extend(effects)

    def wake_at(self, time_ms: int) -> None:
        """Ask for a call of `on_time` at this time at the latest."""
        if self.wake_ms is None or time_ms < self.wake_ms:
            self.wake_ms = time_ms

    def send(self, to: Address, request: Message, *, node_id: int = NO_NODE, fetch_offset: int = -1) -> int:
        """Send a request to a node; return the request's id."""
        sent = Sent(request, to, self.epoch, node_id, fetch_offset)
        request_id = self.connections.begin(sent)
        self.emit(Send(request_id, to, request, self.settings.request_timeout_ms))
        return request_id

    def pause(self, to: Address) -> None:
        """Send nothing to a node for a moment, after a failure."""
        self.connections.pause(to, self.now_ms, self.settings.retry_backoff_ms)

    def report(self, trouble: Trouble, node_id: int, address: Address | None) -> None:
        """Report a trouble to the operator, once an epoch."""
        report = Report(trouble, node_id, address)
        if (self.epoch, report) not in self._reported:
            self._reported = {(epoch, each) for epoch, each in self._reported if epoch == self.epoch}
            self._reported.add((self.epoch, report))
            self.emit(report)

    def save_election(self, election: ElectionState) -> None:
        """Change the election's state; it is durable before any effect that follows."""
        if election != self.election:
            self.election = election
            self.emit(SaveElection(election))

    def advance_high_watermark(self, offset: int) -> bool:
        """Everything below `offset` is committed. Whether that is news."""
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.emit(Commit(offset))
        return True

    def append_controls(self, *controls: Control) -> int:
        """Append a control batch as the leader; return the offset of its last record."""
        assert isinstance(self.role, Leader)
        assert not self.log_changing, "the log's end is not what it was when this step began"
        self.emit(AppendControls(self.epoch, controls))
        self.log_changing = True
        return self.log.end_offset + len(controls) - 1

    # -- from role to role ----------------------------------------------------------------------------

    def enter(self, role: RoleState, election: ElectionState) -> None:
        """Change to another role or election state."""
        before = self.role
        self.save_election(election)
        self.role = role
        self.connections.forget_requests()
        self.tell_role()
        if isinstance(before, Leader):
            self._refuse_waiting(before)

    def tell_role(self) -> None:
        """Emit `Became` if the role, the epoch or the leader has changed."""
        became = Became(ROLES[type(self.role)], self.epoch, self.leader_id)
        if became != self._became:
            self._became = became
            self.emit(became)

    def _refuse_waiting(self, leader: Leader) -> None:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        offsets = (self.high_watermark, self.log.start_offset)
        for fetch in leader.waiting.values():
            self.emit(
                Reply(
                    fetch.token,
                    answers.fetch(fetch.request, fetch.api_version, error, self.known_leader, offsets),
                )
            )
        change = leader.change
        if change is not None and change.token is not None:
            answer = answers.change_of_voters(change.added is not None, error, None)
            self.emit(Reply(change.token, answer))

    def start(self) -> None:
        """Enter the first role after a start."""
        election = self.election
        if self.log.last_epoch > election.epoch:
            election = ElectionState(self.log.last_epoch)
        if self.may_stand and self.is_voter and len(self.voters.voters) == 1:
            self.election = election
            self.stand_for_election(0)
            return
        if election.leader_id == self.local.node_id and self.is_voter:
            self.save_election(election)
            self._resign_role([])
            return
        first_ms = first_election_timeout_ms(self.settings, self.random)
        address = self.address_of_voter(election.leader_id)
        if election.leader_id not in (NO_NODE, self.local.node_id) and address is not None:
            self.enter(self._follower(election.leader_id, address), election)
        else:
            self.enter(Unattached(self.now_ms + first_ms), election)

    def hear_of_leader(
        self, leader_id: int, epoch: int, address: Address | None, *, itself: bool = False
    ) -> None:
        """A node, perhaps the leader itself, has named an epoch, and perhaps its leader and address."""
        if self.is_over(epoch) or (epoch == self.epoch and leader_id == NO_NODE):
            return
        if leader_id == self.local.node_id:
            if epoch > self.epoch:
                # This node led that epoch and has lost its state: it must not lead in it again.
                self.become_unattached(ElectionState(epoch, leader_id))
            return
        if address is None and leader_id != NO_NODE:
            address = self.address_of_voter(leader_id)
        known = epoch == self.epoch and self.election.leader_id != NO_NODE
        if known and self.election.leader_id != leader_id:
            return  # two leaders in one epoch: the first one named stays
        voted = self.election.voted if epoch == self.epoch else None
        match self.role:
            case Leader() | Resigned() if known:
                return
            case Follower() if known:
                self.role.address = address or self.role.address
            case Prospective() if known and not itself:
                return
            case _ if leader_id != NO_NODE and address is not None:
                self.enter(self._follower(leader_id, address), ElectionState(epoch, leader_id, voted))
            case _ if known:
                return
            case _:
                self.become_unattached(ElectionState(epoch, leader_id, voted))

    def become_unattached(self, election: ElectionState) -> None:
        """Wait to hear of a leader, for one election timeout."""
        deadline_ms = self.now_ms + election_timeout_ms(self.settings, self.random)
        self.enter(Unattached(deadline_ms), election)

    def ask_for_votes_first(self, losses: int, *, follow_until_ms: int | None = None) -> None:
        """Begin a pre-vote; `follow_until_ms` is given if it begins before the fetch timeout."""
        tally = self._own_tally()
        if tally.won:
            self.stand_for_election(losses)
            return
        deadline_ms = self.now_ms + election_timeout_ms(self.settings, self.random)
        if follow_until_ms is not None:
            deadline_ms = min(deadline_ms, follow_until_ms)
        self.enter(Prospective(tally, deadline_ms, losses, follow_until_ms), self.election)

    def stand_for_election(self, losses: int) -> None:
        """Begin a new epoch with this node's vote for itself. A single voter is elected at once."""
        tally = self._own_tally()
        election = ElectionState(self.epoch + 1, NO_NODE, self.local)
        if tally.won:
            # One write instead of two: a saved leader implies its own vote.
            self.election = election
            self.lead((self.local.node_id,))
            return
        deadline_ms = self.now_ms + election_timeout_ms(self.settings, self.random)
        self.enter(Candidate(tally, deadline_ms, losses), election)

    def _own_tally(self) -> Tally:
        tally = Tally(frozenset(self.voters.node_ids))
        tally.record(self.local.node_id, granted=True)
        return tally

    def lose_election(self, role: Prospective | Candidate) -> None:
        """A majority can no longer be reached: try again after a pause that grows with every loss."""
        pause_ms = backoff_ms(self.settings, self.random, role.losses)
        role.deadline_ms = min(role.deadline_ms, self.now_ms + pause_ms)

    def lead(self, granted_by: tuple[int, ...]) -> None:
        """Become the leader, and append the first batch of the epoch."""
        leader = Leader(
            self.local,
            self.epoch,
            epoch_start_offset=self.log.end_offset,
            granted_by=granted_by,
            check_quorum_deadline_ms=check_quorum_deadline_ms(self.now_ms, self.settings.fetch_timeout_ms),
        )
        leader.set_voters(self.voters, self.now_ms, self.settings.fetch_timeout_ms)
        self.enter(leader, ElectionState(self.epoch, self.local.node_id))
        controls = [leader_change(self.local.node_id, self.voters.node_ids, granted_by)]
        if self.history.kraft_version >= 1 and self._voters_need_writing():
            voters = with_voter(self.voters, self.itself)
            version = self.history.kraft_version
            controls += [kraft_version_control(version), voters_control(voters)]
            offset = self.log.end_offset
            self.history.add(LogControl(offset + 1, version))
            self.history.add(LogControl(offset + 2, voters))
            leader.set_voters(voters, self.now_ms, self.settings.fetch_timeout_ms)
        self.append_controls(*controls)

    def _voters_need_writing(self) -> bool:
        """Whether the log has no voters record, or this node's entry in it is outdated."""
        own = self.voters.get(self.local.node_id)
        return own is not None and (
            self.history.voters_offset < 0 or (bool(self.local_listeners) and own != self.itself)
        )

    def resign_from_epoch(self) -> None:
        """Stop leading, and name the preferred successors to the voters."""
        assert isinstance(self.role, Leader)
        self._resign_role(self.role.successors())

    def _resign_role(self, successors: list[ReplicaKey]) -> None:
        role = Resigned(
            self.now_ms + election_timeout_ms(self.settings, self.random),
            successors,
            {each for each in self.voters.node_ids if each != self.local.node_id},
        )
        self.enter(role, self.election)

    def _follower(self, leader_id: int, address: Address) -> Follower:
        fetch_timeout_ms = self.settings.fetch_timeout_ms
        return Follower(
            leader_id,
            address,
            fetch_deadline_ms=self.now_ms + fetch_timeout_ms,
            update_voter_ms=self.now_ms + UPDATE_VOTER_FETCH_TIMEOUTS * fetch_timeout_ms,
        )

    def give_up_pre_vote(self) -> None:
        """End a pre-vote that was not won: follow the leader if it is known, otherwise wait for one.

        After a pre-vote that began before the fetch timeout, the node keeps its old deadline and asks again
        then: the voters that refused were still waiting for the leader. With a new full timeout this node
        would always be later than they are.
        """
        leader_id = self.leader_id
        address = self.address_of_voter(leader_id)
        follow_until_ms = self.role.follow_until_ms if isinstance(self.role, Prospective) else None
        if leader_id != NO_NODE and address is not None:
            follower = self._follower(leader_id, address)
            if follow_until_ms is not None:
                follower.fetch_deadline_ms = follow_until_ms
                follower.unreachable = True
            self.enter(follower, self.election)
        else:
            self.become_unattached(self.election)

    def grant(self, candidate: ReplicaKey) -> None:
        """Give this epoch's vote to a candidate; it is durable before the answer."""
        self.save_election(replace(self.election, voted=candidate))

    @property
    def role_name(self) -> Role:
        """The name of this node's role."""
        return ROLES[type(self.role)]
