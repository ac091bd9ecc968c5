"""Changes of partitions: the one place that decides leader, in-sync set and eligible replicas.

A decision that changes a partition (fencing, AlterPartition, elections, reassignments, directories) states
its wish as a `Target`; the consequences are decided here, as in Kafka's controller:

- A reassignment is complete when every replica that stays is in sync; the same change ends it.
- The leader stays if it may. Otherwise the first replica in sync leads, or if none is in sync the first
  eligible one (KIP-966), or else the last known leader, or, if the topic allows it, any live replica. The
  last two are unclean: that replica is the whole in-sync set, and recovers until it reports otherwise.
- Replicas that leave the in-sync set while it is below min.insync.replicas stay eligible to lead, because no
  write was acknowledged without them. They stop being so once the set is large enough again, or when they
  come back from an unclean shutdown.
- The leader epoch grows when the leader changes, and when a replica is taken off the partition; not when the
  in-sync set shrinks (KAFKA-15021).

The changes of one decision build on each other: `PartitionChanges` remembers those decided so far.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ottla.core.image.features import ELIGIBLE_LEADER_REPLICAS
from ottla.core.image.image import (
    BROKER_RESOURCE,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    NO_LEADER_CHANGE,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionImage,
    PartitionKey,
    TopicImage,
    changed_partition,
)
from ottla.core.settings import topic_settings
from ottla.core.settings.config_layers import BrokerLayers, TopicConfig
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from ottla.protocol.schema import Message

RECOVERED = 0
RECOVERING = 1


class Election(enum.Enum):
    """The kinds of election: which replica may become the leader of a partition."""

    #: The first replica if it is in sync; else as ONLINE.
    PREFERRED = "preferred"
    #: The present leader, else a replica in sync, else an eligible one.
    ONLINE = "online"
    #: As ONLINE, else any live replica, which may lose records.
    UNCLEAN = "unclean"


class TopicRules(NamedTuple):
    """Topics' settings for elections, by topic name."""

    #: unclean.leader.election.enable
    may_elect_uncleanly: Callable[[str], bool]
    #: min.insync.replicas
    min_insync_replicas: Callable[[str], int]


def topic_rules(image: MetadataImage, layers: BrokerLayers, node_id: int | None = None) -> TopicRules:
    """The settings as `image` has them, on top of this controller's static ones."""
    # Not the committed dynamic layers: an appended change already holds for the decisions after it.
    layers = layers.with_dynamic(
        image.configs.get((BROKER_RESOURCE, ""), {}), image.configs.get((BROKER_RESOURCE, str(node_id)), {})
    )
    without_overrides = TopicConfig(layers, {})

    def config(topic: str) -> TopicConfig:
        overrides = image.configs.get((TOPIC_RESOURCE, topic))
        return TopicConfig(layers, overrides) if overrides else without_overrides

    return TopicRules(
        lambda topic: config(topic)[topic_settings.UNCLEAN_LEADER_ELECTION_ENABLE],
        lambda topic: config(topic)[topic_settings.MIN_INSYNC_REPLICAS],
    )


class Target(NamedTuple):
    """The wished state of a partition; None leaves a field to the decision."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int | None = None
    #: replica -> its data directory
    directories: Mapping[int, UUID] = {}
    #: A broker that may not lead the partition, whatever its state in the image.
    barred: int | None = None
    #: Whether the barred broker may have lost records, so that it is not eligible either.
    barred_has_lost_records: bool = False


@dataclass(slots=True)
class PartitionChanges:
    """The changes of one decision, as records and as the resulting partitions."""

    image: MetadataImage
    rules: TopicRules
    #: A broker that these records unfence: it may lead although it is fenced in the image.
    unfenced: int | None = None
    records: list[Message] = field(default_factory=list)
    _changed: dict[PartitionKey, PartitionImage] = field(default_factory=dict)

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """A partition with this decision's changes so far, or None."""
        return self._changed.get((topic.topic_id, index)) or topic.partitions.get(index)

    def change(
        self, topic: TopicImage, index: int, target: Target, election: Election | None = None
    ) -> PartitionImage | None:
        """Change an existing partition towards `target`; None if nothing changes.

        The default `election` is UNCLEAN if the topic's settings allow that, else ONLINE.
        """
        before = self.partition(topic, index)
        assert before is not None
        if election is None:
            unclean = self.rules.may_elect_uncleanly(topic.name)
            election = Election.UNCLEAN if unclean else Election.ONLINE
        after = _Outcome.of(before, target)
        after.complete_reassignment()
        after.place(self._default_directory)
        # Bounded by this partition's replicas, as the leader does. (Kafka's controller takes partition 0's.)
        min_isr = min(self.rules.min_insync_replicas(topic.name), len(after.replicas))
        elr_enabled = bool(self.image.features.get(ELIGIBLE_LEADER_REPLICAS))
        if elr_enabled:
            after.keep_eligible(target.barred if target.barred_has_lost_records else None)
        else:
            after.elr = ()

        def may_lead(broker_id: int) -> bool:
            return broker_id != target.barred and self._may_lead(broker_id, after.directories[broker_id])

        after.elect(election, elr_enabled, may_lead)
        record = after.record(topic.topic_id, elr_enabled, min_isr)
        if record is None:
            return None
        changed = self._changed[topic.topic_id, index] = changed_partition(before, record)
        self.records.append(record)
        return changed

    def _may_lead(self, broker_id: int, directory_id: UUID) -> bool:
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.is_online(directory_id):
            return False
        return broker.active or (broker_id == self.unfenced and not broker.in_controlled_shutdown)

    def _default_directory(self, broker_id: int) -> UUID:
        return default_directory(self.image, broker_id)


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """The directory of a new replica: the broker's only one; unassigned if it has several."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return UNASSIGNED_DIRECTORY
    if not broker.log_dirs:
        return MIGRATING_DIRECTORY
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED_DIRECTORY


MayLead = Callable[[int], bool]


@dataclass(slots=True)
class _Outcome:
    """The next state of a partition, while it is decided."""

    before: PartitionImage
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    directories: dict[int, UUID]
    recovery_state: int
    leader: int
    elr: tuple[int, ...]

    @classmethod
    def of(cls, before: PartitionImage, target: Target) -> _Outcome:
        directories = dict(zip(before.replicas, before.directories, strict=False))
        directories.update(target.directories)
        state = target.leader_recovery_state
        return cls(
            before=before,
            isr=before.isr if target.isr is None else target.isr,
            replicas=before.replicas if target.replicas is None else target.replicas,
            removing=(
                before.removing_replicas if target.removing_replicas is None else target.removing_replicas
            ),
            adding=before.adding_replicas if target.adding_replicas is None else target.adding_replicas,
            directories=directories,
            recovery_state=before.leader_recovery_state if state is None else state,
            leader=before.leader,
            elr=before.elr,
        )

    def complete_reassignment(self) -> None:
        """Drop the replicas to be removed once all that stay are in sync."""
        if not self.removing and not self.adding:
            return
        isr = tuple(each for each in self.isr if each not in self.removing)
        replicas = tuple(each for each in self.replicas if each not in self.removing)
        if isr and replicas and set(isr) >= set(replicas):
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, (), ()

    def place(self, default_directory: Callable[[int], UUID]) -> None:
        """Give every replica a directory."""
        known = self.directories
        self.directories = {
            each: known[each] if each in known else default_directory(each) for each in self.replicas
        }

    def keep_eligible(self, has_lost_records: int | None) -> None:
        """Keep the replicas outside the in-sync set that have all acknowledged writes (KIP-966)."""
        candidates = {*self.before.elr, *self.before.isr}.difference(self.isr, (has_lost_records,))
        # Kafka keeps a replica that a completed reassignment has just removed, which could then be elected.
        self.elr = tuple(sorted(candidates.intersection(self.replicas)))

    def elect(self, election: Election, elr_enabled: bool, may_lead: MayLead) -> None:
        """Choose the leader."""

        def is_valid(broker_id: int) -> bool:
            entitled = broker_id in self.isr or (not self.isr and broker_id in self.elr)
            return entitled and may_lead(broker_id)

        if election is Election.PREFERRED and is_valid(self.replicas[0]):
            self.leader = self.replicas[0]
            self._lead_from_elr()
            return
        if is_valid(self.before.leader):
            self._lead_from_elr()
            return
        for candidate in self.replicas:
            if is_valid(candidate):
                self.leader = candidate
                self._lead_from_elr()
                return
        last_known = self._last_known_leader() if elr_enabled else NO_LEADER
        if last_known != NO_LEADER and may_lead(last_known):
            self._lead_uncleanly(last_known)
            return
        if election is Election.UNCLEAN:
            for candidate in self.replicas:
                if may_lead(candidate):
                    self._lead_uncleanly(candidate)
                    return
        self.leader = NO_LEADER

    def _last_known_leader(self) -> int:
        """The last leader, if it is the only candidate known: no replica is in sync or eligible."""
        last_known = self.before.last_known_elr
        if self.isr or self.elr or len(last_known) != 1 or last_known[0] not in self.replicas:
            return NO_LEADER
        return last_known[0]

    def _lead_from_elr(self) -> None:
        if self.leader in self.elr:
            self.isr = (self.leader,)
            self.elr = tuple(each for each in self.elr if each != self.leader)

    def _lead_uncleanly(self, leader: int) -> None:
        self.leader = leader
        self.isr = (leader,)
        self.elr = ()
        self.recovery_state = RECOVERING

    def record(self, topic_id: UUID, elr_enabled: bool, min_isr: int) -> PartitionChangeRecord | None:
        """The differences from before as a record, None without any."""
        before = self.before
        if not self.isr and not elr_enabled:
            # Without eligible replicas the last one in sync stays in the set, to be elected when it returns.
            # It leaves only with an unclean revert of a reassignment: then the first replica takes its place.
            self.isr = tuple(each for each in before.isr if each in self.replicas) or self.replicas[:1]
        if len(self.isr) >= min_isr:
            self.elr = ()  # from now on writes are acknowledged without these replicas
        change = PartitionChangeRecord(partition_id=before.partition_id, topic_id=topic_id)
        if self.leader != before.leader or not set(self.replicas) >= set(before.replicas):
            change.leader = self.leader
        if self.isr != before.isr:
            change.isr = list(self.isr)
        if self.elr != before.elr:
            change.eligible_leader_replicas = list(self.elr)
        last_known_elr = self._last_known_elr(change) if elr_enabled else before.last_known_elr
        if last_known_elr != before.last_known_elr:
            change.last_known_elr = list(last_known_elr)
        if self.replicas != before.replicas:
            change.replicas = list(self.replicas)
        directories = tuple(self.directories[each] for each in self.replicas)
        if directories != before.directories:
            change.directories = list(directories)
        if self.removing != before.removing_replicas:
            change.removing_replicas = list(self.removing)
        if self.adding != before.adding_replicas:
            change.adding_replicas = list(self.adding)
        if self.recovery_state != before.leader_recovery_state:
            change.leader_recovery_state = self.recovery_state
        return None if _is_empty(change) else change

    def _last_known_elr(self, change: PartitionChangeRecord) -> tuple[int, ...]:
        """The partition's leader when it lost its last in-sync replica; forgotten with a new leader."""
        before = self.before
        if self.leader != NO_LEADER:
            return ()
        if change.isr is not None and not self.isr and before.leader != NO_LEADER:
            return (before.leader,)
        return before.last_known_elr


def _is_empty(change: PartitionChangeRecord) -> bool:
    return (
        change.leader == NO_LEADER_CHANGE
        and change.leader_recovery_state < 0
        and change.isr is None
        and change.eligible_leader_replicas is None
        and change.last_known_elr is None
        and change.replicas is None
        and change.removing_replicas is None
        and change.adding_replicas is None
        and change.directories is None
    )
