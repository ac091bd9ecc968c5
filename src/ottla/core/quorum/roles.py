"""What a node is to its epoch, and what it keeps only while it is that."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.core.quorum.api import Address, ReplicaKey, Role, SnapshotId
from ottla.core.quorum.election import Tally
from ottla.core.quorum.leader import Leader


@dataclass(slots=True, eq=False)
class Unattached:
    """It knows no leader, or not where it is. A voter stands for election at the deadline."""

    deadline_ms: int


@dataclass(slots=True, eq=False)
class Prospective:
    """It asks whether it would be elected, before it disturbs anybody with a new epoch (KIP-996).

    `follow_until_ms`: it asks before the fetch timeout, and goes on waiting for the leader if others refuse.
    """

    tally: Tally
    deadline_ms: int
    losses: int
    follow_until_ms: int | None = None


@dataclass(slots=True, eq=False)
class Candidate:
    """It stands for election in an epoch of its own making."""

    tally: Tally
    deadline_ms: int
    losses: int


@dataclass(slots=True, eq=False)
class SnapshotFetch:
    """The leader's snapshot as far as it is here."""

    snapshot: SnapshotId
    position: int = 0


@dataclass(slots=True, eq=False)
class Follower:
    """It fetches from the leader at `address`."""

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
    """It led this epoch and does not any more; it tells the others until they know or go on without it."""

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
