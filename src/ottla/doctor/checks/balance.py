"""Checks of balance: leaders, disks and partitions that are unevenly spread, and moves that do not end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, some, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import Settings, Snapshot, partitions, replica_sizes, value_of
from ottla.doctor.units import bytes_text

THROTTLED_REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
THROTTLED_RATES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
UNLIMITED: Final = str(2**63 - 1)


def _leaders(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    live = snapshot.cluster.get().live()
    if len(live) < 2:
        return
    led = Counter(dict.fromkeys(live, 0))
    led.update(one.leader for _, one in partitions(snapshot.topics.get()) if one.leader in led)
    mean = sum(led.values()) / len(live)
    found = [
        node
        for node in live
        if led[node] > limits.leaders_over_mean * mean and led[node] - mean > limits.leaders_more_than_mean
    ]
    if found:
        shown = named(f"broker {node} leads {led[node]:,}" for node in found)
        yield Finding(
            Severity.WARNING,
            f"leaders are unevenly spread: {shown}; the mean is {mean:,.0f}",
            texts(found),
            "elect the preferred leaders; if that changes nothing, spread the replicas anew",
            line("partition", "elect", "preferred"),
        )


def _preferred(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    live = set(snapshot.cluster.get().live())
    topics = snapshot.topics.get()
    found = [
        place
        for place, one in partitions(topics)
        if one.replicas and one.leader >= 0 and one.leader != one.replicas[0] and one.replicas[0] in live
    ]
    total = sum(len(topic.partitions) for topic in topics.values())
    if not found:
        return
    much = len(found) > limits.not_preferred_part * total
    yield Finding(
        Severity.WARNING if much else Severity.NOTE,
        f"{counted(len(found), 'partition')} of {total:,} led by another than the preferred leader, which is "
        "there",
        texts(found),
        "elect the preferred leaders",
        line("partition", "elect", "preferred"),
    )


def _disks(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    directories = snapshot.directories.get()
    if len(directories) < 2:
        return
    used = {broker: sum(each.used_bytes for each in listed) for broker, listed in directories.items()}
    mean = sum(used.values()) / len(used)
    found = [
        broker
        for broker, size in sorted(used.items())
        if size > limits.disk_over_mean * mean and size - mean > limits.disk_skew_bytes
    ]
    if found:
        largest = max(found, key=lambda broker: used[broker])
        topic = _largest_topic(snapshot, largest)
        shown = named(f"broker {broker} has {bytes_text(used[broker])}" for broker in found)
        yield Finding(
            Severity.WARNING,
            f"logs are unevenly spread over brokers: {shown}; the mean is {bytes_text(mean)}",
            texts(found),
            f"spread the largest topics anew, {topic} first",
            line("partition", "reassign", "--topic", topic),
        )


def _largest_topic(snapshot: Snapshot, broker: int) -> str:
    sizes: Counter[str] = Counter()
    for directory in snapshot.directories.get()[broker]:
        for place, size in directory.sizes.items():
            sizes[place.topic] += size
    return max(sizes, key=lambda topic: (sizes[topic], topic))


def _partition_sizes(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    by_topic: dict[str, dict[TopicPartition, int]] = {}
    for place, sizes in replica_sizes(snapshot.directories.get()).items():
        by_topic.setdefault(place.topic, {})[place] = max(sizes.values())
    found = [
        (place, size)
        for sizes in by_topic.values()
        if len(sizes) > 1
        for place, size in sizes.items()
        if size >= limits.partition_skew_bytes
        and size > limits.partition_over_median * median(sizes.values())
    ]
    found.sort(key=lambda pair: -pair[1])
    if found:
        place, size = found[0]
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'partition')} much larger than the others of the topic: {place} has "
            f"{bytes_text(size)}, half of the topic's have "
            f"{bytes_text(median(by_topic[place.topic].values()))} "
            "or less",
            texts(place for place, _ in found),
            "the keys of the records are uneven: let producers choose keys that spread; the sizes are in",
            line("topic", "describe", place.topic),
        )


def _replicas(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    count: Counter[int] = Counter(
        node for _, one in partitions(snapshot.topics.get()) for node in one.replicas
    )
    found = [node for node in sorted(count) if count[node] > limits.replicas_a_broker]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{named(f'broker {node} has {count[node]:,} replicas' for node in found)}: above "
            f"{limits.replicas_a_broker:,.0f} failovers and restarts take long",
            texts(found),
            "add brokers and move replicas to them, or delete topics",
            line("topic", "list"),
        )


def _unused(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    live = snapshot.cluster.get().live()
    topics = snapshot.topics.get()
    used = {node for _, one in partitions(topics) for node in one.replicas}
    found = [node for node in live if node not in used]
    largest = max(topics.values(), key=lambda topic: len(topic.partitions), default=None)
    if found and largest is not None and len(largest.partitions) >= len(live):
        yield Finding(
            Severity.NOTE,
            f"broker {named(found)} with no replicas: a new broker is given none by itself",
            texts(found),
            "spread topics over all brokers, one after the other",
            line("partition", "reassign", "--topic", largest.name),
        )


def _stuck(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    live = set(snapshot.cluster.get().live())
    moves = snapshot.moves.get()
    away = {place: set(move.adding) - live for place, move in moves.items() if set(move.adding) - live}
    if away:
        brokers = sorted({node for nodes in away.values() for node in nodes})
        yield Finding(
            Severity.WARNING,
            f"{counted(len(away), 'move')} of replicas to broker {named(brokers)}, which is not there: they "
            "cannot end",
            texts(away),
            "start the broker, or give the moves up",
            line("partition", "reassign", "--cancel"),
        )
    growth, directories = snapshot.growth.value, snapshot.directories.value
    if growth is None or directories is None:
        return
    before, later = replica_sizes(directories), replica_sizes(growth.later)
    standing = [
        place
        for place, move in moves.items()
        if place not in away
        and place in growth.moves
        and move.adding
        and all(
            before.get(place, {}).get(node, 0) == later.get(place, {}).get(node, 0) for node in move.adding
        )
    ]
    if standing:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(standing), 'move')} of replicas did not get on in {growth.seconds:.1f} seconds",
            texts(standing),
            "look into the log of the brokers that are added, and for a throttle that is too low; or give "
            "the "
            "moves up",
            line("partition", "reassign", "--cancel"),
        )


def _throttles(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    if snapshot.moves.get():
        return
    topics = [
        name
        for name, settings in snapshot.topic_settings.get().items()
        if any(value_of(settings, each) for each in THROTTLED_REPLICAS)
    ]
    if topics:
        words = [word for each in THROTTLED_REPLICAS for word in ("--delete-config", each)]
        yield Finding(
            Severity.WARNING,
            f"{counted(len(topics), 'topic')} with throttled replicas, though nothing is moved: a left-over "
            "of "
            "a reassignment slows replication",
            texts(topics),
            "take the throttles away",
            line("topic", "alter", *some(topics), *words),
        )
    brokers = [
        (node, each)
        for node, settings in sorted((snapshot.broker_settings.value or {}).items())
        for each in THROTTLED_RATES
        if _is_throttled(settings, each)
    ]
    if brokers:
        node = brokers[0][0]
        names = [each for other, each in brokers if other == node]
        yield Finding(
            Severity.WARNING,
            "a rate of throttled replication is set for broker "
            f"{named(dict.fromkeys(n for n, _ in brokers))}, "
            "though nothing is moved",
            texts(dict.fromkeys(node for node, _ in brokers)),
            "give the rates up",
            line("config", "unset", "broker", node, *names),
        )


def _is_throttled(settings: Settings, name: str) -> bool:
    found = settings.get(name)
    return found is not None and found.source == "BROKER" and found.value not in (None, UNLIMITED)


CHECKS: Final = (
    Check(
        "leaders-skewed",
        Severity.WARNING,
        "brokers that lead far more partitions than others",
        ("cluster", "topics"),
        _leaders,
    ),
    Check(
        "leaders-not-preferred",
        Severity.WARNING,
        "partitions led by another than their preferred leader",
        ("cluster", "topics"),
        _preferred,
    ),
    Check(
        "disks-skewed", Severity.WARNING, "brokers with far more bytes than others", ("directories",), _disks
    ),
    Check(
        "partitions-skewed",
        Severity.WARNING,
        "partitions far larger than the others of their topic",
        ("directories",),
        _partition_sizes,
    ),
    Check("too-many-replicas", Severity.WARNING, "brokers with too many replicas", ("topics",), _replicas),
    Check("unused-brokers", Severity.NOTE, "brokers without replicas", ("cluster", "topics"), _unused),
    Check(
        "reassignments-stuck",
        Severity.WARNING,
        "moves of replicas that do not get on",
        ("cluster", "moves"),
        _stuck,
        also=("directories", "growth"),
    ),
    Check(
        "throttles-left",
        Severity.WARNING,
        "throttles of a reassignment that has ended",
        ("moves", "topic_settings"),
        _throttles,
        also=("broker_settings",),
    ),
)
