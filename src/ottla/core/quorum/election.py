"""The rules of an election: which candidate a node may vote for, how votes count, how long a node waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.core.quorum.api import NO_NODE, ElectionState, QuorumLog, QuorumSettings, Randomness, ReplicaKey
from ottla.protocol.schema import ZERO_UUID

FIRST_BACKOFF_MS = 50
MAX_DOUBLINGS = 16


@dataclass(slots=True, eq=False)
class Tally:
    """The votes of one election. Each voter counts once."""

    voter_ids: frozenset[int]
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    def record(self, voter_id: int, granted: bool) -> None:
        """Count a voter's answer."""
        if voter_id in self.voter_ids:
            (self.granted if granted else self.rejected).add(voter_id)

    @property
    def majority(self) -> int:
        """The number of votes that win the election."""
        return len(self.voter_ids) // 2 + 1

    @property
    def won(self) -> bool:
        """Whether a majority has granted its vote."""
        return len(self.granted) >= self.majority

    @property
    def lost(self) -> bool:
        """Whether a majority can no longer be reached."""
        return len(self.voter_ids - self.rejected) < self.majority

    @property
    def unanswered(self) -> frozenset[int]:
        """The voters that have not answered."""
        return self.voter_ids - self.granted - self.rejected


def log_is_up_to_date(log: QuorumLog, last_epoch: int, end_offset: int) -> bool:
    """Whether a candidate's log is at least as new as this node's, and so has all committed records."""
    return (last_epoch, end_offset) >= (log.last_epoch, log.end_offset)


def may_vote_for(election: ElectionState, candidate: ReplicaKey) -> bool:
    """Whether this node's one vote in the epoch is free or already the candidate's, by its durable state."""
    if election.voted is not None:
        voted = election.voted
        return voted.node_id == candidate.node_id and (
            voted.directory_id in (ZERO_UUID, candidate.directory_id)
        )
    return election.leader_id == NO_NODE


def election_timeout_ms(settings: QuorumSettings, random: Randomness) -> int:
    """A random time from one to two election timeouts, so that two nodes seldom stand at once."""
    return settings.election_timeout_ms + random.below(max(settings.election_timeout_ms, 1))


def first_election_timeout_ms(settings: QuorumSettings, random: Randomness) -> int:
    """The wait for a leader after a start, short because a needless pre-vote is harmless."""
    return settings.election_timeout_ms // 20 + random.below(max(settings.election_timeout_ms // 2, 1))


def unreachable_patience_ms(settings: QuorumSettings, random: Randomness) -> int:
    """How long a follower tolerates a leader that refuses connections: longer than a quick restart."""
    half_ms = settings.election_timeout_ms // 2
    return half_ms + random.below(max(half_ms, 1))


def backoff_ms(settings: QuorumSettings, random: Randomness, losses: int) -> int:
    """The random, exponentially growing pause after a lost election."""
    longest = min(FIRST_BACKOFF_MS << min(losses, MAX_DOUBLINGS), settings.election_backoff_max_ms)
    return 1 + random.below(max(longest, 1))


def successor_delay_ms(settings: QuorumSettings, position: int) -> int:
    """The time that the nth preferred successor of a resigned leader leaves to the ones before it."""
    if position == 0:
        return 0
    return min(FIRST_BACKOFF_MS << min(position, MAX_DOUBLINGS), settings.election_backoff_max_ms)
