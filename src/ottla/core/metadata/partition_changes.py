"""What a partition becomes: the one place that decides leader, in-sync set and eligible replicas.

Whoever changes a partition (fencing, AlterPartition, elections, reassignments, directories) says what it wants
as a `Target`; what follows from it is decided here, as in Kafka's controller:

- A reassignment is complete when every replica that stays is in sync; its state then goes with the same change.
- The leader stays when it may. Else the first replica in sync leads, else (nobody in sync) the first eligible
  one (KIP-966), else the last known leader, else, where the topic allows it, any live replica. The last two are
  unclean: that replica is the whole in-sync set, and the leader is recovering until it says otherwise.
- Replicas that leave the in-sync set while it is below min.insync.replicas stay eligible to lead, because no
  write was acknowledged without them. They stop being so once the set is large enough again, or when they
  come back from an unclean shutdown.
- The leader epoch grows when the leader changes, and when a replica is taken off the partition; not when the
  in-sync set shrinks (KAFKA-15021).

Several changes of one decision build on each other: `PartitionChanges` remembers what it has decided.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ottla.core.metadata.config_layers import BrokerLayers
from ottla.core.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.protocol.schema import Message


class Election(enum.Enum):
    """Who may become the leader of a partition."""

    #: The first replica if it is in sync; else as ONLINE.
    PREFERRED = "preferred"
    #: The leader as it is, else whoever is in sync or eligible.
    ONLINE = "online"
    #: As ONLINE, else any live replica, at the price of lost records.
    UNCLEAN = "unclean"


class TopicRules(NamedTuple):
    """What topics' settings say about elections, by topic name."""

    #: unclean.leader.election.enable
    may_elect_uncleanly: Callable[[str], bool]
    #: min.insync.replicas
    min_insync_replicas: Callable[[str], int]


def topic_rules(image: MetadataImage, layers: BrokerLayers) -> TopicRules:
    """The rules of the topics in `image`, where they say nothing themselves those of a broker's layers."""
    raise AssertionError("not yet")


class Target(NamedTuple):
    """What somebody wants a partition to be; None leaves that part to the decision."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int | None = None
    #: replica -> its data directory
    directories: Mapping[int, UUID] = {}
    #: Replicas that may have lost records: neither in sync nor eligible any more.
    after_unclean_shutdown: frozenset[int] = frozenset()


@dataclass(slots=True)
class PartitionChanges:
    """The changes of one decision, as records and as the partitions that they make."""

    image: MetadataImage
    rules: TopicRules
    #: Whether a broker may lead; the image's active ones if not given.
    is_active: Callable[[int], bool] | None = None
    records: list[Message] = field(default_factory=list)
    _changed: dict[tuple[UUID, int], PartitionImage] = field(default_factory=dict)

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """A partition with this decision's changes so far."""
        return self._changed.get((topic.topic_id, index)) or topic.partitions.get(index)

    def change(
        self, topic: TopicImage, index: int, target: Target, election: Election | None = None
    ) -> PartitionImage | None:
        """Change a partition towards `target`; None when nothing of it changes.

        Without an `election` it is UNCLEAN where the topic's settings allow that, else ONLINE.
        """
        raise AssertionError("not yet")
