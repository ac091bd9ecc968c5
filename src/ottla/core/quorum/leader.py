"""A leader's state: the progress of each replica, the high watermark, the fetches and changes that wait.

Theory of operation. A fetch at an offset says that everything below it is synced at that replica and agrees
with the leader's log. The high watermark is the offset that a majority of the voters has reached. It counts
only beyond the offset at which this epoch began, because a record of an older epoch may still be replaced
while no record of this epoch is at a majority. The leader itself counts with the offset up to which its own
log is synced, and only while it is a voter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.quorum.api import ReplicaKey, Voter, VoterSet
from ottla.core.quorum.voters import same_replica
from ottla.protocol.messages.fetch_request import FetchRequest

OBSERVER_EXPIRES_MS = 5 * 60 * 1000
CAUGHT_UP_WITHIN_MS = 60 * 60 * 1000
MAX_OBSERVERS = 1000
MAX_WAITING_FETCHES = 2000
CHECK_QUORUM_FACTOR = 1.5


@dataclass(slots=True, eq=False)
class Progress:
    """The progress of one replica, from its fetches. Times are -1 before the first fetch."""

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: int = -1
    caught_up_ms: int = -1
    last_fetch_leader_end: int = -1

    def fetched(self, now_ms: int, fetch_offset: int, leader_end_offset: int) -> None:
        """Note a fetch. A replica was caught up at the last fetch that reached the log's end of that time."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif 0 < self.last_fetch_leader_end <= fetch_offset:
            self.caught_up_ms = self.last_fetch_ms
        self.end_offset = fetch_offset
        self.last_fetch_ms = now_ms
        self.last_fetch_leader_end = leader_end_offset


class WaitingFetch(NamedTuple):
    """A fetch at the log's end. It waits for records, a new high watermark or its deadline."""

    token: int
    request: FetchRequest
    api_version: int
    fetch_offset: int
    known_high_watermark: int
    deadline_ms: int


@dataclass(slots=True, eq=False)
class VoterChange:
    """A change of the voters under way: requested, then in the log at `offset`, then committed.

    `token` is None once the request was answered or given up; the change goes on. `added` and `request_id`
    belong to the addition of a voter, which is first asked for its supported versions.
    """

    token: int | None
    deadline_ms: int
    offset: int = -1
    added: Voter | None = None
    request_id: int = -1
    answer_when_committed: bool = True


@dataclass(slots=True, eq=False)
class Leader:
    """A leader's state in one epoch."""

    local: ReplicaKey
    epoch: int
    epoch_start_offset: int
    granted_by: tuple[int, ...]
    check_quorum_deadline_ms: int
    voters: dict[int, Progress] = field(default_factory=dict)
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    fetched_by: set[int] = field(default_factory=set)
    begin_due_ms: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, WaitingFetch] = field(default_factory=dict)
    change: VoterChange | None = None
    reported: dict[int, Voter] = field(default_factory=dict)
    """The voters' own registrations, which the log can't hold under kraft.version 0."""
    has_high_watermark: bool = False

    def set_voters(self, voters: VoterSet, now_ms: int, timeout_ms: int) -> None:
        """Use these voters from now on, and keep the progress of replicas that are known."""
        needed_others = self.checks_quorum()
        known = [*self.voters.values(), *self.observers.values()]
        before, self.voters, self.observers = self.voters, {}, {}
        for voter in voters.voters:
            match = next((each for each in known if same_replica(voter.key, each.key)), None)
            self.voters[voter.key.node_id] = match or Progress(voter.key)
        taken = {id(each) for each in self.voters.values()}
        for each in known:
            if id(each) not in taken and each.last_fetch_ms >= 0 and each.key != self.local:
                self.observers[each.key] = each
        for node_id in self.voters:
            if node_id not in before:
                self.begin_due_ms[node_id] = now_ms
        self.begin_due_ms = {node: due for node, due in self.begin_due_ms.items() if node in self.voters}
        self.fetched_by &= self.voters.keys()
        if self.checks_quorum() and not needed_others:
            # until now the leader needed no other voter: their time to fetch begins here
            self.check_quorum_deadline_ms = check_quorum_deadline_ms(now_ms, timeout_ms)

    @property
    def is_voter(self) -> bool:
        """Whether the leader is itself a voter. It is not while it commits its own removal."""
        own = self.voters.get(self.local.node_id)
        return own is not None and same_replica(own.key, self.local)

    def other_voters(self) -> list[int]:
        """The ids of the other voters."""
        return [node_id for node_id in self.voters if not (node_id == self.local.node_id and self.is_voter)]

    def progress_of(self, key: ReplicaKey) -> Progress:
        """The progress of a replica, a voter only if both its id and its directory match."""
        voter = self.voters.get(key.node_id)
        if voter is not None and same_replica(voter.key, key):
            return voter
        observer = self.observers.get(key)
        if observer is None:
            if len(self.observers) >= MAX_OBSERVERS:
                oldest = min(self.observers.values(), key=lambda each: each.last_fetch_ms)
                del self.observers[oldest.key]
            observer = self.observers[key] = Progress(key)
        return observer

    def expire_observers(self, now_ms: int) -> None:
        """Forget the observers that have not fetched for `OBSERVER_EXPIRES_MS`."""
        for key, observer in list(self.observers.items()):
            if observer.last_fetch_ms <= now_ms - OBSERVER_EXPIRES_MS:
                del self.observers[key]

    def heard_of(self, key: ReplicaKey, now_ms: int, timeout_ms: int) -> None:
        """Note a fetch of a voter. Once a majority has fetched, the leader's deadline is moved on."""
        voter = self.voters.get(key.node_id)
        if voter is None or not same_replica(voter.key, key) or key == self.local:
            return
        self.begin_due_ms[key.node_id] = now_ms + timeout_ms // 2
        self.fetched_by.add(key.node_id)
        if len(self.fetched_by) + self.is_voter >= len(self.voters) // 2 + 1:
            self.fetched_by.clear()
            self.check_quorum_deadline_ms = check_quorum_deadline_ms(now_ms, timeout_ms)

    def checks_quorum(self) -> bool:
        """Whether the leader needs other voters for a majority."""
        return len(self.voters) // 2 + 1 > (1 if self.is_voter else 0)

    def committed(self, synced_offset: int) -> int | None:
        """The offset that a majority has synced, or None before this epoch's first record."""
        offsets = [
            synced_offset if each.key.node_id == self.local.node_id and self.is_voter else each.end_offset
            for each in self.voters.values()
        ]
        return committed_offset(offsets, self.epoch_start_offset) if offsets else None

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer has caught up and fetched recently, so that it may become a voter."""
        observer = self.observers.get(key)
        return (
            observer is not None
            and observer.caught_up_ms >= 0
            and observer.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS
        )

    def successors(self) -> list[ReplicaKey]:
        """The other voters, the longest logs first."""
        others = [self.voters[node_id] for node_id in self.other_voters()]
        return [each.key for each in sorted(others, key=lambda each: (-each.end_offset, each.key.node_id))]


def committed_offset(end_offsets: Sequence[int], epoch_start_offset: int) -> int | None:
    """The offset that a majority of end offsets has reached, None unless beyond the start of the epoch."""
    reached = sorted(end_offsets, reverse=True)[len(end_offsets) // 2]
    return reached if reached > epoch_start_offset else None


def check_quorum_deadline_ms(now_ms: int, fetch_timeout_ms: int) -> int:
    """The time by which a majority has to fetch again."""
    return now_ms + int(fetch_timeout_ms * CHECK_QUORUM_FACTOR)
