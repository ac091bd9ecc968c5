"""Snapshots for the doctor: a sound cluster, and how each of its parts is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla.client.access import Address
from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.model import GroupType
from ottla.doctor.snapshot import (
    BrokerView,
    Certificate,
    ClockReading,
    ClusterView,
    Contact,
    DueOffsets,
    FirstRecord,
    GroupSample,
    GroupView,
    Growth,
    ListenerView,
    LogDirectory,
    MetricSamples,
    NodeVersions,
    Offsets,
    Part,
    PartitionView,
    QuorumView,
    QuotaView,
    Replica,
    Setting,
    Snapshot,
    TokenView,
    TopicView,
)

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
GIB = 1 << 30
BROKERS = (1, 2, 3)
TOPICS = {"orders": 6, "payments": 3, "__consumer_offsets": 6, "__transaction_state": 3}
TOPIC_SETTINGS = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "2",
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": "-1",
    "segment.bytes": str(GIB),
    "segment.ms": str(7 * DAY_MS),
    "max.message.bytes": "1048588",
    "min.cleanable.dirty.ratio": "0.5",
    "max.compaction.lag.ms": str(2**63 - 1),
    "unclean.leader.election.enable": "false",
    "leader.replication.throttled.replicas": "",
    "follower.replication.throttled.replicas": "",
}
BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "3",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SSL",
    "log.cleaner.enable": "true",
    "replica.fetch.max.bytes": "1048576",
    "super.users": "User:admin",
}
GROUP_PLACE = TopicPartition("orders", 0)


def _topic(name: str, count: int) -> TopicView:
    return TopicView(
        name,
        name.startswith("__"),
        tuple(PartitionView(i, BROKERS[i % 3], _turned(i), _turned(i)) for i in range(count)),
    )


def _turned(index: int) -> tuple[int, ...]:
    return BROKERS[index % 3 :] + BROKERS[: index % 3]


def _settings(values: Mapping[str, str], source: str = "DEFAULT") -> dict[str, Setting]:
    return {name: Setting(value, source) for name, value in values.items()}


def _broker_settings(node: int) -> dict[str, Setting]:
    own = {
        "listeners": f"CLIENTS://0.0.0.0:909{node},CONTROLLER://0.0.0.0:919{node}",
        "node.id": str(node),
    }
    return _settings({**BROKER_SETTINGS, **own})


PLACES = tuple(TopicPartition(name, index) for name, count in TOPICS.items() for index in range(count))
BROKER_VIEWS = {node: BrokerView(node, f"broker-{node}", 9_090 + node, f"rack-{node}") for node in BROKERS}


def directory(size: int = 100 << 20) -> LogDirectory:
    """A directory with every partition, of a terabyte that is half full."""
    return LogDirectory("/data", None, 1 << 40, 1 << 39, dict.fromkeys(PLACES, size))


def group(**changes: Any) -> GroupView:
    """A group of one member that has read all."""
    sample = GroupSample("Stable", 3, frozenset({"member"}))
    found = GroupView(
        "readers",
        GroupType.CONSUMER,
        "consumer",
        (sample, sample, sample),
        frozenset({GROUP_PLACE}),
        0,
        {GROUP_PLACE: 1_000},
    )
    return replace(found, **changes)


def listener(**changes: Any) -> ListenerView:
    """The listener of broker 1, with a certificate that holds for a year."""
    shown = Certificate("CN=broker-1", NOW_MS - DAY_MS, NOW_MS + 365 * DAY_MS)
    found = ListenerView(1, "CLIENTS", "SASL_SSL", "0.0.0.0", Address("broker-1", 9_091), True, None, shown)
    return replace(found, **changes)


def sound() -> Snapshot:
    """A cluster of three brokers in three racks in which nothing is wrong."""
    topic_settings = {name: _settings(TOPIC_SETTINGS) for name in TOPICS}
    for name in ("__consumer_offsets", "__transaction_state"):
        topic_settings[name] |= _settings({"cleanup.policy": "compact", "segment.bytes": str(100 << 20)})
    versions = NodeVersions({0: (0, 13)}, {"metadata.version": (7, 31)}, {"metadata.version": 31})
    replicas = tuple(Replica(node, 500, NOW_MS) for node in BROKERS)
    directories = {node: (directory(),) for node in BROKERS}
    return Snapshot(
        taken_ms=NOW_MS,
        bootstrap=(Address("broker-1", 9_091),),
        cluster=Part(ClusterView("cluster", BROKER_VIEWS)),
        topics=Part({name: _topic(name, count) for name, count in TOPICS.items()}),
        topic_settings=Part(topic_settings),
        broker_settings=Part({node: _broker_settings(node) for node in BROKERS}),
        directories=Part(directories),
        growth=Part(Growth(3.0, directories, {})),
        moves=Part({}),
        offsets=Part(dict.fromkeys(PLACES, Offsets(0, 1_000, 1_000))),
        first_records=Part(dict.fromkeys(PLACES, FirstRecord(NOW_MS - 6 * DAY_MS))),
        quorum=Part(QuorumView(1, replicas, ())),
        versions=Part(dict.fromkeys(BROKERS, versions)),
        contacts=Part(tuple(Contact(one, None) for one in BROKER_VIEWS.values())),
        listeners=Part((listener(),)),
        clocks=Part((ClockReading("controller 1", 3.0, 1.0),)),
        groups=Part({"readers": group()}),
        due=Part(DueOffsets({4.0: {GROUP_PLACE: 0}, 24.0: {GROUP_PLACE: 10}})),
        transactions=Part(()),
        hanging=Part(()),
        producers=Part(dict.fromkeys(PLACES, 3)),
        tokens=Part((TokenView("token", "User:app", NOW_MS + 7 * DAY_MS, NOW_MS + 14 * DAY_MS),)),
        quotas=Part((QuotaView({"user": None}, {"producer_byte_rate": 1e6}),)),
        acls=Part(()),
        metrics=Part(MetricSamples((("page", "ottla_produced_batches_total", {"acks": "all"}, 5.0),))),
    )


# -- changes -------------------------------------------------------------------------------------------------

Change = Callable[[Snapshot], Snapshot]


def with_part(name: str, value: Any) -> Change:
    """Another value of a part."""
    return lambda snapshot: replace(snapshot, **{name: Part(value)})


def with_topic_settings(topic: str, source: str = "TOPIC", **values: str) -> Change:
    """Settings of a topic; names with underscores in place of dots."""

    def change(snapshot: Snapshot) -> Snapshot:
        known = dict(snapshot.topic_settings.get())
        known[topic] = {**known[topic], **_settings(_dotted(values), source)}
        return replace(snapshot, topic_settings=Part(known))

    return change


def with_broker_settings(*nodes: int, source: str = "BROKER", unknown: bool = False, **values: str) -> Change:
    """Settings of brokers; names with underscores in place of dots."""

    def change(snapshot: Snapshot) -> Snapshot:
        known = {node: dict(settings) for node, settings in snapshot.broker_settings.get().items()}
        for node in nodes or known:
            for name, value in _dotted(values).items():
                known[node][name] = Setting(None if unknown else value, source, unknown)
        return replace(snapshot, broker_settings=Part(known))

    return change


def _dotted(values: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in values.items()}


def with_partitions(topic: str, change_one: Callable[[PartitionView], PartitionView]) -> Change:
    """Every partition of a topic changed."""

    def change(snapshot: Snapshot) -> Snapshot:
        known = dict(snapshot.topics.get())
        known[topic] = replace(known[topic], partitions=tuple(map(change_one, known[topic].partitions)))
        return replace(snapshot, topics=Part(known))

    return change


def with_broker(node: int, **changes: Any) -> Change:
    """A broker with other facts."""

    def change(snapshot: Snapshot) -> Snapshot:
        cluster = snapshot.cluster.get()
        brokers = {**cluster.brokers, node: replace(cluster.brokers[node], **changes)}
        return replace(snapshot, cluster=Part(replace(cluster, brokers=brokers)))

    return change


def without_broker(node: int) -> Change:
    """A broker that is not registered any more."""

    def change(snapshot: Snapshot) -> Snapshot:
        cluster = snapshot.cluster.get()
        brokers = {other: one for other, one in cluster.brokers.items() if other != node}
        return replace(snapshot, cluster=Part(replace(cluster, brokers=brokers)))

    return change


def with_group(**changes: Any) -> Change:
    """The group with other facts."""
    return with_part("groups", {"readers": group(**changes)})


def with_listener(**changes: Any) -> Change:
    """The listener with other facts."""
    return with_part("listeners", (listener(**changes),))


def with_directory(node: int, **changes: Any) -> Change:
    """The directory of one broker with other facts."""

    def change(snapshot: Snapshot) -> Snapshot:
        known = {**snapshot.directories.get(), node: (replace(directory(), **changes),)}
        return replace(snapshot, directories=Part(known))

    return change


def both(*changes: Change) -> Change:
    """All changes, one after the other."""

    def change(snapshot: Snapshot) -> Snapshot:
        for one in changes:
            snapshot = one(snapshot)
        return snapshot

    return change
