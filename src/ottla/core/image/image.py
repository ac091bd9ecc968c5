"""The cluster's metadata in memory, the sum of the records of the metadata log.

Theory of operation. The image changes only by `apply`, record by record in the order of the log, so every
node that has read the log has the same image. The changes of a batch of records are collected in a
MetadataDelta for the parts that follow the metadata. Records between BeginTransaction and EndTransaction
count at the latter (KIP-868).

ACLs, SCRAM credentials and delegation tokens are kept as their records.

Copies share the parts that neither of them has changed since: a topic, or the partitions of a broker, are
duplicated when one of the two images changes them first. So a copy costs a few dictionaries however large the
cluster is, and may be read in another thread while the other image goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from ottla.protocol.schema import Message

# Immutable parts are named tuples: frozen dataclasses cost the start of a broker several milliseconds.

NO_LEADER = -1
NO_BROKER = -1
NO_LEADER_CHANGE = -2
#: The directory id in a record of a time when brokers did not register directories.
MIGRATING_DIRECTORY = UUID(int=0)
#: The directory id of a replica that its broker has not placed yet.
UNASSIGNED_DIRECTORY = UUID(int=1)
#: Ids below this one are reserved, as the two above.
RESERVED_DIRECTORIES = 100

#: An entity that quotas are set for: pairs of type and name, by type; the name None is the type's default.
QuotaEntity = tuple[tuple[str, str | None], ...]
#: Topic id and partition.
PartitionKey = tuple[UUID, int]
#: Resource type, resource name, pattern type, principal, host, operation, permission type.
AclFields = tuple[int, str, int, str, str, int, int]

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32


class PartitionImage(NamedTuple):
    """One partition. The first of `replicas` is the preferred leader."""

    partition_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    directories: tuple[UUID, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0


@dataclass(slots=True)
class TopicImage:
    """One topic and its partitions, by number."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


class EndpointImage(NamedTuple):
    """A listener of a node: its name, host, port and security protocol."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(NamedTuple):
    """A registered broker. A fenced broker leads no partition and is hidden from clients."""

    broker_id: int
    broker_epoch: int
    incarnation_id: UUID
    endpoints: tuple[EndpointImage, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def cordoned(self) -> bool:
        """Whether all of its directories are closed to new partitions (KIP-1066)."""
        return bool(self.log_dirs) and set(self.log_dirs) <= set(self.cordoned_log_dirs or ())

    def is_online(self, directory_id: UUID) -> bool:
        """Whether a replica in this directory can be served, as far as the metadata tells."""
        # Those of the broker first: it is one of them nearly always, and UUIDs are slow to compare.
        if not self.log_dirs or directory_id in self.log_dirs:
            return True
        return directory_id in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)

    def endpoint(self, listener_name: str) -> EndpointImage | None:
        """The broker's endpoint for a listener name, or None."""
        for endpoint in self.endpoints:
            if endpoint.name == listener_name:
                return endpoint
        return None


class ControllerImage(NamedTuple):
    """A registered controller."""

    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[EndpointImage, ...]
    features: tuple[tuple[str, int, int], ...] = ()


@dataclass(slots=True)
class MetadataDelta:
    """The changes by a series of records. Names and numbers only: the image has the content."""

    created_topics: list[tuple[UUID, str]] = field(default_factory=list)
    deleted_topics: list[tuple[UUID, str]] = field(default_factory=list)
    changed_partitions: dict[tuple[UUID, int], None] = field(default_factory=dict)
    changed_topic_configs: dict[str, None] = field(default_factory=dict)
    changed_group_configs: dict[str, None] = field(default_factory=dict)
    changed_brokers: dict[int, None] = field(default_factory=dict)
    changed_controllers: dict[int, None] = field(default_factory=dict)
    changed_acls: dict[UUID, None] = field(default_factory=dict)
    #: Mechanism and user.
    changed_scram_credentials: dict[tuple[int, str], None] = field(default_factory=dict)
    changed_delegation_tokens: dict[str, None] = field(default_factory=dict)
    broker_configs_changed: bool = False
    client_metrics_changed: bool = False
    features_changed: bool = False
    quotas_changed: bool = False
    producer_ids_skipped: bool = False
    """Whether producer ids were passed over that no broker got (at the end of a mirror topic)."""
    unclean_elections: int = 0
    """How many partitions got a leader that was neither in sync nor eligible."""

    @property
    def empty(self) -> bool:
        """Whether the records changed nothing that a delta names."""
        return self == MetadataDelta()


@dataclass(slots=True)
class MetadataImage:
    """All of the metadata as of `last_offset` (-1: empty)."""

    topics: dict[str, TopicImage] = field(default_factory=dict)
    topics_by_id: dict[UUID, TopicImage] = field(default_factory=dict)
    brokers: dict[int, BrokerImage] = field(default_factory=dict)
    controllers: dict[int, ControllerImage] = field(default_factory=dict)
    #: (resource type, resource name) -> name -> value
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: dict[UUID, Message] = field(default_factory=dict)
    #: How many ACLs say the same: one, but for those that another controller wrote.
    acl_counts: dict[AclFields, int] = field(default_factory=dict)
    client_quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram_credentials: dict[tuple[int, str], Message] = field(default_factory=dict)
    delegation_tokens: dict[str, Message] = field(default_factory=dict)
    last_offset: int = -1
    last_epoch: int = -1
    _open_transaction: list[Message] | None = None
    #: broker -> the partitions that have a replica there
    _partitions_by_broker: dict[int, dict[PartitionKey, None]] = field(default_factory=dict)
    _leaderless: dict[PartitionKey, None] = field(default_factory=dict)
    #: The topics, and the brokers' partitions, that are not shared with a copy.
    _own: set[UUID | int] = field(default_factory=set, compare=False, repr=False)

    def apply(self, record: Message, delta: MetadataDelta) -> None:
        """Apply one record. Raises ValueError if it does not fit the records before it."""
        kind = record.API_KEY
        if kind == _BEGIN_TRANSACTION:
            self._open_transaction = []
        elif kind == _ABORT_TRANSACTION:
            self._open_transaction = None
        elif kind == _END_TRANSACTION:
            records, self._open_transaction = self._open_transaction or [], None
            for buffered in records:
                self._apply(buffered, delta)
        elif self._open_transaction is not None:
            self._open_transaction.append(record)
        else:
            self._apply(record, delta)

    def _apply(self, record: Message, delta: MetadataDelta) -> None:
        kind = record.API_KEY
        handler = _HANDLERS.get(kind) if kind is not None else None
        if handler is None:
            raise ValueError(f"{record.NAME} is not a metadata record that this version knows")
        handler(self, record, delta)

    def copy(self) -> MetadataImage:
        """A second image that changes independently; unchanged parts are shared."""
        self._own = set()
        return MetadataImage(
            topics=dict(self.topics),
            topics_by_id=dict(self.topics_by_id),
            brokers=dict(self.brokers),
            controllers=dict(self.controllers),
            configs=dict(self.configs),
            features=dict(self.features),
            next_producer_id=self.next_producer_id,
            acls=dict(self.acls),
            acl_counts=dict(self.acl_counts),
            client_quotas=dict(self.client_quotas),
            scram_credentials=dict(self.scram_credentials),
            delegation_tokens=dict(self.delegation_tokens),
            last_offset=self.last_offset,
            last_epoch=self.last_epoch,
            _open_transaction=None if self._open_transaction is None else list(self._open_transaction),
            _partitions_by_broker=dict(self._partitions_by_broker),
            _leaderless=dict(self._leaderless),
        )

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open (KIP-868)."""
        return self._open_transaction is not None

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker may lead partitions and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active

    def partitions_of_broker(self, broker_id: int) -> Iterator[tuple[TopicImage, PartitionImage]]:
        """The partitions that have a replica on a broker."""
        return self._find(self._partitions_by_broker.get(broker_id, {}))

    def leaderless_partitions(self) -> Iterator[tuple[TopicImage, PartitionImage]]:
        """The partitions that have no leader."""
        return self._find(self._leaderless)

    def _find(self, keys: dict[PartitionKey, None]) -> Iterator[tuple[TopicImage, PartitionImage]]:
        for topic_id, index in keys:
            topic = self.topics_by_id[topic_id]
            yield topic, topic.partitions[index]

    # -- topics ---------------------------------------------------------------------------------------

    def _topic(self, topic_id: UUID, record: Message) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise ValueError(f"{record.NAME} is about topic id {topic_id}, which is not known")
        return topic

    def _own_topic(self, topic: TopicImage) -> TopicImage:
        """The topic, duplicated first if a copy shares it, so that it can be changed."""
        if topic.topic_id not in self._own:
            topic = TopicImage(topic.name, topic.topic_id, dict(topic.partitions))
            self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
            self._own.add(topic.topic_id)
        return self.topics_by_id[topic.topic_id]

    def _own_partitions_of(self, broker_id: int) -> dict[PartitionKey, None]:
        """The index of a broker's partitions, duplicated first if a copy shares it."""
        if broker_id not in self._own:
            self._partitions_by_broker[broker_id] = dict(self._partitions_by_broker.get(broker_id, ()))
            self._own.add(broker_id)
        return self._partitions_by_broker[broker_id]

    def _set_partition(self, topic: TopicImage, index: int, after: PartitionImage | None) -> None:
        """Set or remove (None) a partition and update the indexes. All changes go through here."""
        key = (topic.topic_id, index)
        before = topic.partitions.get(index)
        old = before.replicas if before is not None else ()
        new = after.replicas if after is not None else ()
        if old != new:
            for broker_id in set(old).difference(new):
                kept = self._own_partitions_of(broker_id)
                del kept[key]
                if not kept:
                    del self._partitions_by_broker[broker_id]
                    self._own.discard(broker_id)
            for broker_id in set(new).difference(old):
                self._own_partitions_of(broker_id)[key] = None
        if after is not None and after.leader == NO_LEADER:
            self._leaderless[key] = None
        else:
            self._leaderless.pop(key, None)
        if after is not None:
            self._own_topic(topic).partitions[index] = after

    def _create_topic(self, record: Any, delta: MetadataDelta) -> None:
        if record.name in self.topics:
            raise ValueError(f"topic {record.name} is created twice")
        topic = TopicImage(record.name, record.topic_id)
        self._own.add(topic.topic_id)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        delta.created_topics.append((topic.topic_id, topic.name))

    def _remove_topic(self, record: Any, delta: MetadataDelta) -> None:
        topic = self._topic(record.topic_id, record)
        for index in topic.partitions:
            self._set_partition(topic, index, None)
        self._own.discard(topic.topic_id)
        del self.topics[topic.name]
        del self.topics_by_id[topic.topic_id]
        self.configs.pop((TOPIC_RESOURCE, topic.name), None)
        delta.deleted_topics.append((topic.topic_id, topic.name))
        for index in topic.partitions:
            delta.changed_partitions.pop((topic.topic_id, index), None)

    def _create_partition(self, record: Any, delta: MetadataDelta) -> None:
        topic = self._topic(record.topic_id, record)
        after = PartitionImage(
            partition_id=record.partition_id,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            directories=tuple(record.directories) or (MIGRATING_DIRECTORY,) * len(record.replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )
        self._set_partition(topic, record.partition_id, after)
        delta.changed_partitions[(topic.topic_id, record.partition_id)] = None

    def _change_partition(self, record: Any, delta: MetadataDelta) -> None:
        topic = self._topic(record.topic_id, record)
        before = topic.partitions.get(record.partition_id)
        if before is None:
            raise ValueError(f"{record.NAME} is about {topic.name}-{record.partition_id}, which is not known")
        after = changed_partition(before, record)
        self._set_partition(topic, record.partition_id, after)
        if after.leader not in (before.leader, NO_LEADER, *before.isr, *before.elr):
            delta.unclean_elections += 1
        delta.changed_partitions[(topic.topic_id, record.partition_id)] = None

    def _clear_elr(self, record: Any, delta: MetadataDelta) -> None:
        names = [record.topic_name] if record.topic_name else list(self.topics)
        for topic in (self.topics[name] for name in names if name in self.topics):
            for index, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    self._set_partition(topic, index, partition._replace(elr=(), last_known_elr=()))
                    delta.changed_partitions[(topic.topic_id, index)] = None

    # -- nodes ----------------------------------------------------------------------------------------

    def _register_broker(self, record: Any, delta: MetadataDelta) -> None:
        self.brokers[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            broker_epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=tuple(record.log_dirs),
            cordoned_log_dirs=_optional_tuple(record.cordoned_log_dirs),
        )
        delta.changed_brokers[record.broker_id] = None

    def _broker(self, broker_id: int, epoch: int, record: Message) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.broker_epoch != epoch:
            raise ValueError(f"{record.NAME} is about broker {broker_id} epoch {epoch}, which is not known")
        return broker

    def _unregister_broker(self, record: Any, delta: MetadataDelta) -> None:
        self._broker(record.broker_id, record.broker_epoch, record)
        del self.brokers[record.broker_id]
        delta.changed_brokers[record.broker_id] = None

    def _fence_broker(self, record: Any, delta: MetadataDelta) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch, record)._replace(fenced=True)
        delta.changed_brokers[record.id] = None

    def _unfence_broker(self, record: Any, delta: MetadataDelta) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch, record)._replace(fenced=False)
        delta.changed_brokers[record.id] = None

    def _change_broker(self, record: Any, delta: MetadataDelta) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, record)
        # `fenced` is 1 for fence, -1 for unfence; a shutdown that began is never taken back.
        self.brokers[record.broker_id] = broker._replace(
            fenced=record.fenced > 0 if record.fenced else broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=(
                broker.cordoned_log_dirs
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs)
            ),
        )
        delta.changed_brokers[record.broker_id] = None

    def _register_controller(self, record: Any, delta: MetadataDelta) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record.end_points),
            _features(record.features),
        )
        delta.changed_controllers[record.controller_id] = None

    def _unregister_controller(self, record: Any, delta: MetadataDelta) -> None:
        if self.controllers.pop(record.controller_id, None) is None:
            raise ValueError(f"{record.NAME} is about controller {record.controller_id}, which is not known")
        delta.changed_controllers[record.controller_id] = None

    # -- everything else ------------------------------------------------------------------------------

    def _configure(self, record: Any, delta: MetadataDelta) -> None:
        resource = (record.resource_type, record.resource_name)
        values = dict(self.configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        # A new dict each time: a reader of the old one sees no half of a change.
        if values:
            self.configs[resource] = values
        else:
            self.configs.pop(resource, None)
        match record.resource_type:
            case 2:
                delta.changed_topic_configs[record.resource_name] = None
            case 4:
                delta.broker_configs_changed = True
            case 16:
                delta.client_metrics_changed = True
            case 32:
                delta.changed_group_configs[record.resource_name] = None

    def _set_feature(self, record: Any, delta: MetadataDelta) -> None:
        if record.feature_level > 0:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)
        delta.features_changed = True

    def _set_next_producer_id(self, record: Any, delta: MetadataDelta) -> None:
        if record.next_producer_id <= self.next_producer_id:
            raise ValueError(
                f"next producer id goes back from {self.next_producer_id} to {record.next_producer_id}"
            )
        self.next_producer_id = record.next_producer_id
        if record.broker_id == NO_BROKER:
            delta.producer_ids_skipped = True

    def _add_acl(self, record: Any, delta: MetadataDelta) -> None:
        self._forget_acl(record.id)
        self.acls[record.id] = record
        fields = acl_fields(record)
        self.acl_counts[fields] = self.acl_counts.get(fields, 0) + 1
        delta.changed_acls[record.id] = None

    def _remove_acl(self, record: Any, delta: MetadataDelta) -> None:
        self._forget_acl(record.id)
        delta.changed_acls[record.id] = None

    def _forget_acl(self, acl_id: UUID) -> None:
        removed = self.acls.pop(acl_id, None)
        if removed is not None:
            fields = acl_fields(removed)
            left = self.acl_counts.pop(fields) - 1
            if left:
                self.acl_counts[fields] = left

    def _set_quota(self, record: Any, delta: MetadataDelta) -> None:
        entity = quota_entity((each.entity_type, each.entity_name) for each in record.entity)
        values = dict(
            self.client_quotas.get(entity, {})
        )  # a new one: a copy of the image may share the old one
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self.client_quotas[entity] = values
        else:
            self.client_quotas.pop(entity, None)
        delta.quotas_changed = True

    def _set_scram(self, record: Any, delta: MetadataDelta) -> None:
        self.scram_credentials[(record.mechanism, record.name)] = record
        delta.changed_scram_credentials[(record.mechanism, record.name)] = None

    def _remove_scram(self, record: Any, delta: MetadataDelta) -> None:
        self.scram_credentials.pop((record.mechanism, record.name), None)
        delta.changed_scram_credentials[(record.mechanism, record.name)] = None

    def _set_token(self, record: Any, delta: MetadataDelta) -> None:
        self.delegation_tokens[record.token_id] = record
        delta.changed_delegation_tokens[record.token_id] = None

    def _remove_token(self, record: Any, delta: MetadataDelta) -> None:
        self.delegation_tokens.pop(record.token_id, None)
        delta.changed_delegation_tokens[record.token_id] = None

    def _nothing(self, record: Any, delta: MetadataDelta) -> None:
        """Ignore NoOp records and the records of a finished migration from ZooKeeper."""


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The key of a quota's entity: its pairs of type and name in one order. The last of a type counts."""
    return tuple(sorted(dict(parts).items()))


def changed_partition(before: PartitionImage, record: Any) -> PartitionImage:
    """The partition after a PartitionChangeRecord. Naming a leader, even the same
    one, begins a leader epoch.
    """
    led = record.leader != NO_LEADER_CHANGE
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    if record.directories:
        directories = tuple(record.directories)
    elif record.replicas is None:
        directories = before.directories
    else:
        known = dict(zip(before.replicas, before.directories, strict=False))
        directories = tuple(known.get(replica, UNASSIGNED_DIRECTORY) for replica in replicas)
    return PartitionImage(
        partition_id=before.partition_id,
        replicas=replicas,
        isr=_changed(record.isr, before.isr),
        leader=record.leader if led else before.leader,
        leader_epoch=before.leader_epoch + 1 if led else before.leader_epoch,
        partition_epoch=before.partition_epoch + 1,
        removing_replicas=_changed(record.removing_replicas, before.removing_replicas),
        adding_replicas=_changed(record.adding_replicas, before.adding_replicas),
        directories=directories,
        elr=_changed(record.eligible_leader_replicas, before.elr),
        last_known_elr=_changed(record.last_known_elr, before.last_known_elr),
        leader_recovery_state=(
            before.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state
        ),
    )


def acl_fields(record: Any) -> AclFields:
    """What an AccessControlEntryRecord says, without its id."""
    return (
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def _changed(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _optional_tuple(values: list[UUID] | None) -> tuple[UUID, ...] | None:
    return None if values is None else tuple(values)


def _endpoints(endpoints: list[Any]) -> tuple[EndpointImage, ...]:
    return tuple(EndpointImage(each.name, each.host, each.port, each.security_protocol) for each in endpoints)


def _features(features: list[Any]) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (each.name, each.min_supported_version, each.max_supported_version)
        for each in sorted(features, key=lambda feature: str(feature.name))
    )


_BEGIN_TRANSACTION = 23
_END_TRANSACTION = 24
_ABORT_TRANSACTION = 25

_HANDLERS: dict[int, Callable[[MetadataImage, Any, MetadataDelta], None]] = {
    0: MetadataImage._register_broker,
    1: MetadataImage._unregister_broker,
    2: MetadataImage._create_topic,
    3: MetadataImage._create_partition,
    4: MetadataImage._configure,
    5: MetadataImage._change_partition,
    7: MetadataImage._fence_broker,
    8: MetadataImage._unfence_broker,
    9: MetadataImage._remove_topic,
    10: MetadataImage._set_token,
    11: MetadataImage._set_scram,
    12: MetadataImage._set_feature,
    14: MetadataImage._set_quota,
    15: MetadataImage._set_next_producer_id,
    17: MetadataImage._change_broker,
    18: MetadataImage._add_acl,
    19: MetadataImage._remove_acl,
    20: MetadataImage._nothing,
    21: MetadataImage._nothing,
    22: MetadataImage._remove_scram,
    26: MetadataImage._remove_token,
    27: MetadataImage._register_controller,
    28: MetadataImage._clear_elr,
    29: MetadataImage._unregister_controller,
}
