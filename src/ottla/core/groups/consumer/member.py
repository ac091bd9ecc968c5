"""One member of a consumer group, as in its records.

A member is in one of three states (KIP-848). STABLE: it has its part of the target assignment of its epoch.
UNREVOKED_PARTITIONS: it has been told to revoke partitions and has not confirmed that; until then it keeps
its old epoch. UNRELEASED_PARTITIONS: it is at the target's epoch, but other members still own some of its
partitions.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The epoch that a static member sends when it leaves to return, and has until then."""
NO_EPOCH = -1
NO_REBALANCE_TIMEOUT_MS = -1

TopicPartitions: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""Topic id -> partitions; topics without partitions are left out."""
PartitionEpochs: TypeAlias = Mapping[uuid.UUID, Mapping[int, int]]
"""Topic id -> partition -> the epoch in which the member got it; no topic is without partitions."""

NO_PARTITIONS: TopicPartitions = {}


class MemberState(enum.Enum):
    """The values are those in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A state that a later version of Kafka has written: the member must join again."""


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """The protocols and the session of a member that joined
    with the classic protocol; the first protocol is used.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), best first."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group, which may read the partitions in `assigned` and `revoking`."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed: frozenset[str] = frozenset()
    """The subscription by topic name."""
    regex: str = ""
    """The subscription by regular expression; empty for none."""
    rebalance_timeout_ms: int = NO_REBALANCE_TIMEOUT_MS
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None
    """Set for a member that uses the classic protocol (KIP-848's online migration)."""
    epoch: int = JOIN_EPOCH
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)
    """The partitions that the member has been told to revoke and has yet to revoke."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member is stable at this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def epoch_of(self, topic_id: uuid.UUID, partition: int) -> int | None:
        """The epoch in which the member got a partition that it may read; None if it may not read it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch
