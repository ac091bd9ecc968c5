"""Checks of topics' settings: retention, segments, compaction, sizes of messages, elections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, some, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import Settings, Snapshot, number_of, replica_sizes, value_of
from ottla.doctor.units import bytes_text

UNCLEAN: Final = "unclean.leader.election.enable"
AUTO_CREATE: Final = "auto.create.topics.enable"
BATCH_OVERHEAD_BYTES: Final = 12
"""Of max.message.bytes' default over that of replica.fetch.max.bytes, which has the same records in mind."""
NEARLY_ALL: Final = 0.95


def _unbounded(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        name
        for name, settings in _users(snapshot)
        if _deletes(settings)
        and number_of(settings, "retention.ms") == -1
        and number_of(settings, "retention.bytes") == -1
    ]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'topic')} without a bound: neither retention.ms nor retention.bytes, so "
            "nothing is ever deleted",
            texts(found),
            "bound them by time or size (here a week), or say cleanup.policy=compact",
            line("topic", "alter", *some(found), "--config", "retention.ms=604800000"),
        )


def _users(snapshot: Snapshot) -> Iterator[tuple[str, Settings]]:
    """The settings of topics that are not internal."""
    topics = snapshot.topics.get()
    for name, settings in snapshot.topic_settings.get().items():
        if name in topics and not topics[name].internal and not name.startswith("__"):
            yield name, settings


def _deletes(settings: Settings) -> bool:
    return "delete" in (value_of(settings, "cleanup.policy") or "")


def _compacts(settings: Settings) -> bool:
    return "compact" in (value_of(settings, "cleanup.policy") or "")


def _segments(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    keys = {
        "segment.bytes": limits.segment_bytes,
        "segment.ms": limits.segment_seconds * 1_000,
    }
    found: dict[str, list[str]] = {}
    for name, settings in _users(snapshot):
        for key, least in keys.items():
            given = number_of(settings, key)
            if given is not None and 0 < given < least:
                found.setdefault(name, []).append(key)
    if found:
        deleted = [
            word
            for key in keys
            if any(key in each for each in found.values())
            for word in ("--delete-config", key)
        ]
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'topic')} with tiny segments (segment.bytes below "
            f"{bytes_text(limits.segment_bytes)} or segment.ms below {limits.segment_seconds:g} s): a file "
            "and an "
            "index each, which costs descriptors, memory and the time of every start",
            texts(found),
            "let segments be as large as they are by default",
            line("topic", "alter", *some(found), *deleted),
        )


def _compaction(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    compacted = {name for name, settings in snapshot.topic_settings.get().items() if _compacts(settings)}
    off = [
        node
        for node, settings in sorted((snapshot.broker_settings.value or {}).items())
        if (value_of(settings, "log.cleaner.enable") or "true") == "false"
    ]
    if off and compacted:
        yield Finding(
            Severity.WARNING,
            f"broker {named(off)} with log.cleaner.enable=false: compacted topics, those of offsets too, "
            "grow "
            "for ever",
            texts(off),
            "take the line out of the server.properties of these brokers and restart them",
        )
    lazy = [
        name
        for name, settings in _users(snapshot)
        if name in compacted
        and not _deletes(settings)
        and _ratio(settings) > NEARLY_ALL
        and (number_of(settings, "max.compaction.lag.ms") or 2**63 - 1) > 10**15
    ]
    if lazy:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(lazy), 'compacted topic')} that {'is' if len(lazy) == 1 else 'are'} hardly ever "
            "compacted: min.cleanable.dirty.ratio is near 1",
            texts(lazy),
            "let the default ratio hold again",
            line("topic", "alter", *some(lazy), "--delete-config", "min.cleanable.dirty.ratio"),
        )
    grown = _grown(snapshot, limits, compacted)
    if grown:
        place, size = max(grown.items(), key=lambda pair: pair[1])
        yield Finding(
            Severity.WARNING,
            f"{counted(len(grown), 'internal partition')} far larger than compaction would leave "
            f"{'it' if len(grown) == 1 else 'them'}: {place} has {bytes_text(size)}; the cleaner has died or "
            "does "
            "not keep up",
            texts(grown),
            "look for `uncleanable` in the log of the broker that leads it, and restart that broker",
            line("topic", "describe", place.rpartition("-")[0]),
        )


def _grown(snapshot: Snapshot, limits: Limits, compacted: set[str]) -> dict[str, int]:
    """Partitions of internal compacted topics that have many times a segment's bytes."""
    if snapshot.directories.value is None:
        return {}
    topics, settings = snapshot.topics.get(), snapshot.topic_settings.get()
    found = {}
    for place, sizes in replica_sizes(snapshot.directories.value).items():
        internal = place.topic in topics and topics[place.topic].internal
        segment = number_of(settings.get(place.topic, {}), "segment.bytes")
        size = max(sizes.values())
        if place.topic in compacted and internal and segment and size > limits.compacted_segments * segment:
            found[str(place)] = size
    return found


def _ratio(settings: Settings) -> float:
    try:
        return float(value_of(settings, "min.cleanable.dirty.ratio") or 0)
    except ValueError:
        return 0.0


def _message_sizes(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    brokers = snapshot.broker_settings.get()
    fetched = [
        size
        for settings in brokers.values()
        if (size := number_of(settings, "replica.fetch.max.bytes")) is not None
    ]
    if not fetched:
        return
    least = min(fetched)
    whole = {
        name: size
        for name, settings in snapshot.topic_settings.get().items()
        if (size := number_of(settings, "max.message.bytes")) is not None
    }
    found = [name for name, size in whole.items() if size - BATCH_OVERHEAD_BYTES > least]
    several = len(snapshot.cluster.get().brokers) > 1
    if found and several:
        largest = max(whole[name] for name in found)
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'topic')} with max.message.bytes of up to {bytes_text(largest)}, above "
            "the "
            f"brokers' replica.fetch.max.bytes of {bytes_text(least)}: followers fetch such batches one at a "
            "time",
            texts(found),
            "raise replica.fetch.max.bytes in server.properties of all brokers, or lower the topics' bound",
            line("topic", "alter", *some(found), "--config", f"max.message.bytes={least}"),
        )


def _unclean(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        name
        for name, settings in snapshot.topic_settings.get().items()
        if value_of(settings, UNCLEAN) == "true"
    ]
    if not found:
        return
    own = [name for name in found if snapshot.topic_settings.get()[name][UNCLEAN].source == "TOPIC"]
    yield Finding(
        Severity.WARNING,
        f"{counted(len(found), 'topic')} with {UNCLEAN}=true: a replica that lags may become leader, and "
        "acknowledged records are lost without a word",
        texts(found),
        "switch it off",
        line("topic", "alter", *some(own), "--config", f"{UNCLEAN}=false")
        if own
        else line("config", "set", "broker", "default", f"{UNCLEAN}=false"),
    )


def _auto_create(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    settings = snapshot.broker_settings.get()
    if len(snapshot.cluster.get().brokers) < 2:
        return
    found = [node for node, each in sorted(settings.items()) if value_of(each, AUTO_CREATE) == "true"]
    if found:
        factor = number_of(settings[found[0]], "default.replication.factor")
        yield Finding(
            Severity.WARNING if factor == 1 else Severity.NOTE,
            f"{AUTO_CREATE}=true on broker {named(found)}: a name that is mistyped becomes a topic, of "
            f"default.replication.factor={factor}",
            texts(found),
            f"set {AUTO_CREATE}=false in server.properties and restart the brokers; create topics by",
            line("topic", "create", "NAME", "--partitions", 3, "--replication-factor", 3),
        )


CHECKS: Final = (
    Check(
        "unclean-election",
        Severity.WARNING,
        "topics that may elect a leader that lags",
        ("topic_settings",),
        _unclean,
    ),
    Check(
        "retention-unbounded",
        Severity.WARNING,
        "topics that delete, but have no bound in time or size",
        ("topics", "topic_settings"),
        _unbounded,
    ),
    Check(
        "tiny-segments",
        Severity.WARNING,
        "topics with very small segments",
        ("topics", "topic_settings"),
        _segments,
    ),
    Check(
        "compaction-stuck",
        Severity.WARNING,
        "compacted topics that are not compacted: cleaner off, ratio near 1, internal topics grown",
        ("topics", "topic_settings"),
        _compaction,
        also=("directories", "broker_settings"),
    ),
    Check(
        "message-sizes",
        Severity.WARNING,
        "max.message.bytes above replica.fetch.max.bytes",
        ("cluster", "topic_settings", "broker_settings"),
        _message_sizes,
    ),
    Check(
        "auto-create-topics",
        Severity.WARNING,
        "auto.create.topics.enable in a cluster of several brokers",
        ("cluster", "broker_settings"),
        _auto_create,
    ),
)
