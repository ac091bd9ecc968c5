"""Checks of disks: directories that are offline, full, or will be full soon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import LogDirectory, Settings, Snapshot, number_of
from ottla.doctor.units import bytes_text, duration_text

CRITICAL_PART: Final = 3
"""A third of the room that should be free is critical."""
CRITICAL_HOURS_PART: Final = 6
HOUR_SECONDS: Final = 3_600
SETTLED_PART: Final = 0.9
"""Logs whose first record is older than this part of their retention lose as much as they get."""
RECENT_BYTES: Final = 1 << 20
"""Growth between two looks that is less tells nothing."""


def _offline(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        f"broker {broker} {each.path} ({each.error})"
        for broker, listed in sorted(snapshot.directories.get().items())
        for each in listed
        if each.error is not None
    ]
    if found:
        yield Finding(
            Severity.CRITICAL,
            f"{counted(len(found), 'log directory', 'log directories')} offline: {named(found)}",
            texts(found),
            "mend the disk and restart the broker; meanwhile the replicas are elsewhere, or nowhere",
            line("partition", "reassign", "--from", found[0].split()[1]),
        )


def _full(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = []
    for broker, each in _with_room(snapshot):
        assert each.total_bytes is not None and each.usable_bytes is not None
        part = each.usable_bytes / each.total_bytes if each.total_bytes else 1.0
        if part < limits.disk_free_part:
            found.append((part, broker, each))
    if not found:
        return
    found.sort(key=lambda one: one[0])
    part, broker, each = found[0]
    critical = part < limits.disk_free_part / CRITICAL_PART
    shown = named(
        f"broker {node} {one.path} has {bytes_text(one.usable_bytes or 0)} ({free:.0%}) left"
        for free, node, one in found
    )
    yield Finding(
        Severity.CRITICAL if critical else Severity.WARNING,
        f"disks are nearly full: {shown}",
        texts(f"broker {node} {one.path}" for _, node, one in found),
        f"keep less of the largest topics, or move replicas off broker {broker}",
        _shorten(each, snapshot),
    )


def _shorten(directory: LogDirectory, snapshot: Snapshot) -> str:
    """Half the retention of the directory's largest topic with one, else the listing by size."""
    settings = snapshot.topic_settings.value or {}
    sizes: dict[str, int] = {}
    for place, size in directory.sizes.items():
        sizes[place.topic] = sizes.get(place.topic, 0) + size
    for topic in sorted(sizes, key=lambda name: -sizes[name]):
        kept_ms = number_of(settings.get(topic, {}), "retention.ms") or -1
        if kept_ms > 0 and not topic.startswith("__"):
            return line("topic", "alter", topic, "--config", f"retention.ms={max(1, kept_ms // 2)}")
    return line("topic", "list", "--sizes")


def _with_room(snapshot: Snapshot) -> Iterator[tuple[int, LogDirectory]]:
    for broker, listed in sorted(snapshot.directories.get().items()):
        for each in listed:
            if each.total_bytes is not None and each.usable_bytes is not None:
                yield broker, each


@dataclass(frozen=True, slots=True)
class _Filling:
    """A disk, the hours until it is full, and the basis of the reckoning."""

    hours: float
    broker: int
    directory: LogDirectory
    basis: str


def _filling(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found: list[_Filling] = []
    for broker, each in _with_room(snapshot):
        rates = [(_history_rate(snapshot, each), "as its logs grew since their first records")]
        if snapshot.growth.value is not None:
            seconds = snapshot.growth.value.seconds
            rates.append((_recent_rate(snapshot, broker, each), f"as in the last {seconds:.1f} seconds"))
        hours = [
            _Filling((each.usable_bytes or 0) / rate / HOUR_SECONDS, broker, each, basis)
            for rate, basis in rates
            if rate > 0
        ]
        if hours and min(one.hours for one in hours) < limits.disk_hours:
            found.append(min(hours, key=lambda one: one.hours))
    if not found:
        return
    found.sort(key=lambda one: one.hours)
    first = found[0]
    lasting = first.basis.startswith("as its logs")
    critical = lasting and first.hours < limits.disk_hours / CRITICAL_HOURS_PART
    shown = named(
        f"broker {one.broker} {one.directory.path} in {duration_text(one.hours * HOUR_SECONDS)}, {one.basis}"
        for one in found
    )
    yield Finding(
        Severity.CRITICAL if critical else Severity.WARNING,
        f"disks will be full: {shown}",
        texts(f"broker {one.broker} {one.directory.path}" for one in found),
        f"keep less of the largest topics, or move replicas off broker {first.broker}",
        _shorten(first.directory, snapshot),
    )


def _history_rate(snapshot: Snapshot, directory: LogDirectory) -> float:
    """Bytes a second: each log's size over its age, for logs that still grow.

    A log that deletes by size, or whose first record is near its retention, grows no more.
    """
    firsts, settings = snapshot.first_records.value or {}, snapshot.topic_settings.value or {}
    rate = 0.0
    for place, size in directory.sizes.items():
        first = firsts.get(place)
        if first is None:
            continue
        age_ms = snapshot.taken_ms - first.timestamp_ms
        if age_ms >= HOUR_SECONDS * 1_000 / 60 and _grows(settings.get(place.topic, {}), size, age_ms):
            rate += size / age_ms * 1_000
    return rate


def _grows(settings: Settings, size: int, age_ms: int) -> bool:
    kept_ms, kept_bytes = number_of(settings, "retention.ms"), number_of(settings, "retention.bytes")
    policy = settings.get("cleanup.policy")
    if policy is not None and policy.value is not None and "delete" not in policy.value:
        return False
    by_time = kept_ms is not None and kept_ms >= 0 and age_ms >= SETTLED_PART * kept_ms
    by_size = kept_bytes is not None and kept_bytes >= 0 and size >= SETTLED_PART * kept_bytes
    return not (by_time or by_size)


def _recent_rate(snapshot: Snapshot, broker: int, directory: LogDirectory) -> float:
    growth = snapshot.growth.get()
    later = next((one for one in growth.later.get(broker, ()) if one.path == directory.path), None)
    if later is None or later.used_bytes - directory.used_bytes < RECENT_BYTES:
        return 0.0
    return (later.used_bytes - directory.used_bytes) / growth.seconds


def _differ(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    directories = snapshot.directories.get()
    counts = {broker: len(listed) for broker, listed in directories.items()}
    rooms = {
        broker: sum(each.total_bytes or 0 for each in listed)
        for broker, listed in directories.items()
        if all(each.total_bytes for each in listed)
    }
    if len(set(counts.values())) > 1:
        shown = named(f"broker {broker} has {count}" for broker, count in sorted(counts.items()))
        yield Finding(
            Severity.NOTE,
            f"brokers have different numbers of log directories: {shown}; replicas are placed by number, not "
            "by "
            "room",
            texts(sorted(counts)),
            "give all brokers the same log.dirs, or place large topics by hand",
            line("config", "describe", "broker", *sorted(counts)[:1], "--key", "log.dirs", "--all"),
        )
    elif rooms and max(rooms.values()) > 1.5 * min(rooms.values()):
        least = min(rooms, key=lambda broker: rooms[broker])
        yield Finding(
            Severity.NOTE,
            f"brokers have disks of different sizes: from {bytes_text(min(rooms.values()))} on broker "
            f"{least} to "
            f"{bytes_text(max(rooms.values()))}; replicas are placed by number, not by room",
            texts(sorted(rooms)),
            f"watch the disk of broker {least}, which is full first",
            line("topic", "list", "--sizes"),
        )


CHECKS: Final = (
    Check(
        "log-directories-offline",
        Severity.CRITICAL,
        "log directories with an error",
        ("directories",),
        _offline,
    ),
    Check(
        "disk-full",
        Severity.CRITICAL,
        "disks with little room left",
        ("directories",),
        _full,
        also=("topic_settings",),
    ),
    Check(
        "disk-filling",
        Severity.CRITICAL,
        "disks that will be full within days, by the trend of their logs",
        ("directories", "first_records"),
        _filling,
        also=("growth", "topic_settings"),
    ),
    Check(
        "log-directories-differ",
        Severity.NOTE,
        "brokers with other numbers or sizes of log directories",
        ("directories",),
        _differ,
    ),
)
