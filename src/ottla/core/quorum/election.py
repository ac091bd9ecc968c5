"""The arithmetic of an election: whom a node may vote for, how votes are counted, how long a node waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.core.quorum.api import NO_NODE, ElectionState, QuorumLog, QuorumSettings, Randomness, ReplicaKey
from ottla.protocol.schema import ZERO_UUID

FIRST_BACKOFF_MS = 50
MAX_DOUBLINGS = 16


@dataclass(slots=True, eq=False)
class Tally:
    """The votes of one election. A voter counts once, however often it answers."""

    voter_ids: frozenset[int]
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    def record(self, voter_id: int, granted: bool) -> None:
        """A voter has answered."""
        if voter_id in self.voter_ids:
            (self.granted if granted else self.rejected).add(voter_id)

    @property
    def majority(self) -> int:
        """How many votes win."""
        return len(self.voter_ids) // 2 + 1

    @property
    def won(self) -> bool:
        """Whether a majority granted."""
        return len(self.granted) >= self.majority

    @property
    def lost(self) -> bool:
        """Whether no majority can grant any more."""
        return len(self.voter_ids - self.rejected) < self.majority

    @property
    def unanswered(self) -> frozenset[int]:
        """Who has not answered."""
        return self.voter_ids - self.granted - self.rejected


def log_is_up_to_date(log: QuorumLog, last_epoch: int, end_offset: int) -> bool:
    """Whether a log that ends like this has all that this node's log may have that is committed."""
    return (last_epoch, end_offset) >= (log.last_epoch, log.end_offset)


def may_vote_for(election: ElectionState, candidate: ReplicaKey) -> bool:
    """Whether the epoch's one vote is still this candidate's to have: durable state decides, not memory."""
    if election.voted is not None:
        voted = election.voted
        return voted.node_id == candidate.node_id and (
            voted.directory_id in (ZERO_UUID, candidate.directory_id)
        )
    return election.leader_id == NO_NODE


def election_timeout_ms(settings: QuorumSettings, random: Randomness) -> int:
    """Once to twice the election timeout, so that two nodes seldom stand at the same time."""
    return settings.election_timeout_ms + random.below(max(settings.election_timeout_ms, 1))


def first_election_timeout_ms(settings: QuorumSettings, random: Randomness) -> int:
    """How long a node that has just started waits for a leader. Pre-votes make an early try harmless."""
    return settings.election_timeout_ms // 20 + random.below(max(settings.election_timeout_ms // 2, 1))


def unreachable_patience_ms(settings: QuorumSettings, random: Randomness) -> int:
    """How long a leader that refuses connections may do so: a restart on the spot takes less."""
    half_ms = settings.election_timeout_ms // 2
    return half_ms + random.below(max(half_ms, 1))


def backoff_ms(settings: QuorumSettings, random: Randomness, losses: int) -> int:
    """The random, exponentially growing pause after an election that was lost."""
    longest = min(FIRST_BACKOFF_MS << min(losses, MAX_DOUBLINGS), settings.election_backoff_max_ms)
    return 1 + random.below(max(longest, 1))


def successor_delay_ms(settings: QuorumSettings, position: int) -> int:
    """How long the nth preferred successor of a resigned leader lets the others go first."""
    if position == 0:
        return 0
    return min(FIRST_BACKOFF_MS << min(position, MAX_DOUBLINGS), settings.election_backoff_max_ms)
