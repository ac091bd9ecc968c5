"""The roles of a node, each with the state that lasts as long as the role."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.core.quorum.api import Address, ReplicaKey, Role, SnapshotId
from ottla.core.quorum.election import Tally
from ottla.core.quorum.leader import Leader


@dataclass(slots=True, eq=False)
class Unattached:
    """Knows no leader, or not its address. A voter stands for election at the deadline."""

    deadline_ms: int


@dataclass(slots=True, eq=False)
class Prospective:
    """Asks for a pre-vote, before it disturbs other nodes with a new epoch (KIP-996).

    `follow_until_ms` is set if it asks before the fetch timeout; if the others refuse, it waits for the
    leader until then.
    """

    tally: Tally
    deadline_ms: int
    losses: int
    follow_until_ms: int | None = None


@dataclass(slots=True, eq=False)
class Candidate:
    """Stands for election in an epoch that it began."""

    tally: Tally
    deadline_ms: int
    losses: int


@dataclass(slots=True, eq=False)
class SnapshotFetch:
    """The leader's snapshot, fetched up to `position`."""

    snapshot: SnapshotId
    position: int = 0


@dataclass(slots=True, eq=False)
class Follower:
    """Fetches from the leader at `address`."""

    leader_id: int
    address: Address
    fetch_deadline_ms: int
    update_voter_ms: int
    has_fetched: bool = False
    unreachable: bool = False
    ask_early_ms: int | None = None
    leader_resigned: bool = False
    leader_high_watermark: int = -1
    snapshot: SnapshotFetch | None = None
    reported_to_leader: bool = False


@dataclass(slots=True, eq=False)
class Resigned:
    """Led this epoch and has stopped; it tells the other voters until they know or a new epoch begins."""

    deadline_ms: int
    successors: list[ReplicaKey]
    unacknowledged: set[int] = field(default_factory=set)


RoleState = Unattached | Prospective | Candidate | Follower | Resigned | Leader

ROLES: dict[type[RoleState], Role] = {
    Unattached: Role.UNATTACHED,
    Prospective: Role.PROSPECTIVE,
    Candidate: Role.CANDIDATE,
    Follower: Role.FOLLOWER,
    Resigned: Role.RESIGNED,
    Leader: Role.LEADER,
}
