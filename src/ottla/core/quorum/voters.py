"""The voters at any offset of the log, and comparisons of voters with replicas.

Theory of operation. A voters record counts from the moment that it is in the log, committed or not, and no
longer once it is truncated: each node decides with the newest voters in its own log. A leader begins the next
change only when the last one is committed, so any two majorities that may decide at the same time share a
node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ottla.core.quorum.api import Address, ListenerEndpoint, ReplicaKey, Voter, VoterSet
from ottla.core.quorum.control_records import LogControl
from ottla.protocol.schema import ZERO_UUID

NO_VOTERS = VoterSet(())

T = TypeVar("T")


class VoterHistory:
    """The voters and kraft.version records of the log and of the snapshot before it."""

    __slots__ = ("_static", "_versions", "_voters")

    def __init__(self, static_voters: VoterSet | None, controls: Iterable[LogControl]) -> None:
        self._static = static_voters
        self._voters: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []
        for control in controls:
            self.add(control)

    @property
    def voters(self) -> VoterSet:
        """The newest voters; empty if none are known."""
        return self._voters[-1][1] if self._voters else self._static or NO_VOTERS

    @property
    def voters_offset(self) -> int:
        """The offset of the newest voters record; -1 if the voters come from configuration or formatting."""
        return self._voters[-1][0] if self._voters else -1

    @property
    def voters_before(self) -> VoterSet:
        """The voters before the newest voters record."""
        return self._voters[-2][1] if len(self._voters) > 1 else self._static or NO_VOTERS

    @property
    def kraft_version(self) -> int:
        """The newest kraft.version."""
        return self._versions[-1][1] if self._versions else 0

    @property
    def uncommitted_from(self) -> int:
        """The offset of the newest record of either kind, -1 if the log has none."""
        return max(self.voters_offset, self._versions[-1][0] if self._versions else -1)

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters that the records below `offset` name, or None."""
        return next((voters for at, voters in reversed(self._voters) if at < offset), None)

    def kraft_version_at(self, offset: int) -> int:
        """The kraft.version that the records below `offset` set."""
        return next((version for at, version in reversed(self._versions) if at < offset), 0)

    def add(self, control: LogControl) -> None:
        """Add an appended record."""
        if isinstance(control.value, VoterSet):
            self._voters.append((control.offset, control.value))
        else:
            self._versions.append((control.offset, control.value))

    def truncate(self, end_offset: int) -> None:
        """Drop the records from `end_offset` on."""
        while self._voters and self._voters[-1][0] >= end_offset:
            self._voters.pop()
        while self._versions and self._versions[-1][0] >= end_offset:
            self._versions.pop()

    def forget_below(self, offset: int) -> None:
        """The log now begins at `offset`: of the older records keep only the newest."""
        self._voters = _from_newest_below(self._voters, offset)
        self._versions = _from_newest_below(self._versions, offset)

    def reset(self, controls: Iterable[LogControl]) -> None:
        """Replace all records by those of a snapshot."""
        self._voters.clear()
        self._versions.clear()
        for control in controls:
            self.add(control)


def _from_newest_below(entries: list[tuple[int, T]], offset: int) -> list[tuple[int, T]]:
    below = sum(1 for at, _ in entries if at < offset)
    return entries[max(below - 1, 0) :]


def same_replica(voter: ReplicaKey, replica: ReplicaKey) -> bool:
    """Whether a replica is this voter; only the ids count if the voter's directory is unknown."""
    return voter.node_id == replica.node_id and voter.directory_id in (ZERO_UUID, replica.directory_id)


def is_voter(voters: VoterSet, replica: ReplicaKey) -> bool:
    """Whether a replica is one of the voters."""
    voter = voters.get(replica.node_id)
    return voter is not None and same_replica(voter.key, replica)


def with_voter(voters: VoterSet, voter: Voter) -> VoterSet:
    """The voters with this one added, or put in the place of the one with its id."""
    others = tuple(each for each in voters.voters if each.key.node_id != voter.key.node_id)
    return VoterSet((*others, voter))


def without_voter(voters: VoterSet, key: ReplicaKey) -> VoterSet:
    """The voters without this one."""
    return VoterSet(tuple(each for each in voters.voters if each.key != key))


def address_of(endpoints: Iterable[ListenerEndpoint], listener_name: str | None) -> Address | None:
    """The address of the listener with this name, otherwise of the first; None if there are none."""
    first: Address | None = None
    for endpoint in endpoints:
        address = Address(endpoint.host, endpoint.port)
        if endpoint.name == listener_name:
            return address
        first = first or address
    return first
