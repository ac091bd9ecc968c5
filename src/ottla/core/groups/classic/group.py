"""The state of one classic consumer group: its members, its generation and the phase of its rebalance.

Theory of operation. A group goes through these states:

    EMPTY -> PREPARING_REBALANCE        the first member joins
    PREPARING_REBALANCE -> COMPLETING_REBALANCE   all have joined, or the time is over: a new generation
    COMPLETING_REBALANCE -> STABLE      the leader's assignment is in the log
    STABLE, COMPLETING_REBALANCE -> PREPARING_REBALANCE   a member joins, leaves, changes or falls silent
    PREPARING_REBALANCE -> EMPTY        no member is left
    any -> DEAD                         being deleted; DEAD -> EMPTY if the deletion could not be written

Only the generation, the protocol, the leader and the members with their assignments are durable, and only
when a generation becomes STABLE or EMPTY (and when a static member gets a new id). The parked requests are
not: after a change of coordinator, clients ask again.

This module changes state and answers no request; membership.py decides and answers.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

from ottla.protocol.records.group_metadata_value import GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL_TYPE = "consumer"

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""(name, metadata) of the protocols that a member supports, best first; names are unique."""


class GroupState(enum.Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_COMES_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    GroupState.PREPARING_REBALANCE: {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
    GroupState.STABLE: {GroupState.COMPLETING_REBALANCE},
    GroupState.DEAD: set(GroupState) - {GroupState.DEAD},
}


@dataclass(slots=True)
class ClassicMember:
    """One member. `is_new` until its first join is answered: until then it cannot heartbeat."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for a protocol; empty if it does not support the protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class ClassicGroup:
    """A group of the classic protocol; also a "simple" group, which has offsets but never had members."""

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """group instance id -> member id"""
        self.pending_joins: set[str] = set()
        """Ids given out with MEMBER_ID_REQUIRED that no member has joined with yet."""
        self.pending_syncs: set[str] = set()
        """The members of this generation whose SyncGroup has not come yet."""
        self.waiting_joins: dict[str, int] = {}
        """member id -> the request id of its parked JoinGroup"""
        self.waiting_syncs: dict[str, int] = {}
        """member id -> the request id of its parked SyncGroup"""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that members of the consumer protocol subscribe to; None if unknown."""
        self.stored_generation = -1
        """The newest generation whose assignment was sent to the log."""
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self._protocol_support: Counter[str] = Counter()

    @classmethod
    def restore(cls, group_id: str, value: GroupMetadataValue, now_ms: int) -> ClassicGroup:
        """The group in its last record."""
        group = cls(group_id, now_ms)
        group.generation = value.generation
        group.protocol_name = value.protocol
        for stored in value.members:
            rebalance_timeout_ms = stored.rebalance_timeout
            group.add(
                ClassicMember(
                    member_id=stored.member_id,
                    group_instance_id=stored.group_instance_id,
                    client_id=stored.client_id,
                    client_host=stored.client_host,
                    # Version 0 of the record has no rebalance timeout; the session timeout served as both.
                    rebalance_timeout_ms=rebalance_timeout_ms
                    if rebalance_timeout_ms >= 0
                    else stored.session_timeout,
                    session_timeout_ms=stored.session_timeout,
                    protocols=((value.protocol or "", bytes(stored.subscription)),),
                    assignment=bytes(stored.assignment),
                ),
                value.protocol_type,
            )
        group.state = GroupState.STABLE if value.members else GroupState.EMPTY
        group.protocol_type = value.protocol_type or None
        group.leader = value.leader
        if value.current_state_timestamp >= 0:
            group.state_timestamp_ms = value.current_state_timestamp
        group.update_subscribed_topics()
        return group

    def to_record_value(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group's record with these assignments (member id -> bytes)."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader,
            current_state_timestamp=self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=assignments[member.member_id],
                )
                for member in self.members.values()
            ],
        )

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert self.state in _COMES_FROM[state], f"{self.group_id}: {self.state} cannot become {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    # Members

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id. Its parked requests must have been answered."""
        assert member_id not in self.waiting_joins and member_id not in self.waiting_syncs
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._count_protocols(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member_id: str, new_member_id: str) -> ClassicMember:
        """Give a static member a new id. Its parked requests must have been answered."""
        assert member_id not in self.waiting_joins and member_id not in self.waiting_syncs
        member = self.members.pop(member_id)
        assert member.group_instance_id is not None
        self.members[new_member_id] = member
        member.member_id = new_member_id
        self.static_members[member.group_instance_id] = new_member_id
        if member_id in self.pending_syncs:
            self.pending_syncs.discard(member_id)
            self.pending_syncs.add(new_member_id)
        if self.leader == member_id:
            self.leader = new_member_id
        return member

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Take the protocols and timeouts of a member's new JoinGroup."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def is_leader(self, member_id: str) -> bool:
        return self.leader == member_id

    def is_waiting(self, member_id: str) -> bool:
        """Whether a JoinGroup or SyncGroup of the member is parked, so that it can't send anything else."""
        return member_id in self.waiting_joins or member_id in self.waiting_syncs

    def all_joined(self) -> bool:
        return len(self.waiting_joins) == len(self.members) and not self.pending_joins

    def not_rejoined(self) -> list[ClassicMember]:
        return [member for member in self.members.values() if member.member_id not in self.waiting_joins]

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that has joined; False if none has."""
        if self.leader is not None and self.leader not in self.waiting_joins:
            self.leader = next(iter(self.waiting_joins), self.leader)
        return self.leader in self.waiting_joins

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: all members support one of them."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._protocol_support[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The protocol that all members support and most prefer; the oldest voter breaks a tie."""
        votes: Counter[str] = Counter()
        for member in self.members.values():
            for name, _ in member.protocols:
                if self._protocol_support[name] == len(self.members):
                    votes[name] += 1
                    break
        return votes.most_common(1)[0][0]

    def next_generation(self, now_ms: int) -> None:
        """All members have joined: raise the generation, choose the protocol and move to the next state."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.pending_syncs.clear()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)

    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def update_subscribed_topics(self) -> None:
        self.subscribed_topics = self._compute_subscribed_topics()

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, or may read it if the subscriptions are unknown."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol()
        return topic in self.subscribed_topics

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol():
            return None
        topics: set[str] = set()
        for member in self.members.values():
            subscription = parse_subscribed_topics(member.metadata(self.protocol_name))
            if subscription is None:
                return None
            topics.update(subscription)
        return frozenset(topics)

    def _count_protocols(self, member: ClassicMember, change: int) -> None:
        for name, _ in member.protocols:
            self._protocol_support[name] += change
            if not self._protocol_support[name]:
                del self._protocol_support[name]


def parse_subscribed_topics(metadata: bytes) -> list[str] | None:
    """The topics of a ConsumerProtocolSubscription: of any version, as all of them start alike.

    None if the bytes are something else: a client may send any bytes, and the group still works.
    """
    if len(metadata) < 6:
        return None
    count = int.from_bytes(metadata[2:6], "big", signed=True)
    position = 6
    # A topic takes at least two bytes, so the number of bytes bounds the count.
    if count < 0 or count * 2 > len(metadata) - position:
        return None
    topics = []
    for _ in range(count):
        length = int.from_bytes(metadata[position : position + 2], "big", signed=True)
        position += 2
        if length < 0 or position + length > len(metadata):
            return None
        try:
            topics.append(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return topics
