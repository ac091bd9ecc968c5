"""Checks of groups: rebalances without end, lag without members, records lost before they are read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.model import GroupType
from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, some, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import (
    GroupSample,
    GroupView,
    Offsets,
    Snapshot,
    number_of,
    replica_sizes,
    value_of,
)
from ottla.doctor.units import duration_text

REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady"}
)
EMPTY: Final = "Empty"
SAMPLES_NEEDED: Final = 3
HOUR_SECONDS: Final = 3_600
FULL_PART: Final = 0.9
SOON_PART: Final = 6
"""Loss within this part of the limit's hours is critical."""


def _rebalancing(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        one
        for one in snapshot.groups.get().values()
        if len(one.samples) >= SAMPLES_NEEDED and _is_restless(one.samples)
    ]
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'group')} that rebalanced at every look: "
            f"{named(_restless(one) for one in found)}",
            texts(one.group_id for one in found),
            "a member comes and goes, or is busy for longer than max.poll.interval.ms; see which one",
            line("group", "describe", found[0].group_id, "--members"),
        )


def _restless(group: GroupView) -> str:
    return f"{group.group_id} ({group.state}, {counted(group.member_count, 'member')})"


def _is_restless(samples: tuple[GroupSample, ...]) -> bool:
    """Whether every look found it in a rebalance, or another generation or membership than the one before."""
    if all(one.state in REBALANCING for one in samples):
        return True
    return all(
        before.epoch != after.epoch or before.members != after.members or after.state in REBALANCING
        for before, after in itertools.pairwise(samples)
    )


def _lags(group: GroupView, offsets: Mapping[TopicPartition, Offsets]) -> dict[TopicPartition, int]:
    """The records before the group, by partition; a share group's offsets are not positions of members."""
    return {
        place: max(0, offsets[place].end - max(offset, offsets[place].start))
        for place, offset in (group.offsets or {}).items()
        if place in offsets
    }


def _abandoned(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    offsets = snapshot.offsets.get()
    found = []
    for group in snapshot.groups.get().values():
        lag = sum(_lags(group, offsets).values())
        if group.state == EMPTY and not group.member_count and lag > 0:
            found.append((group.group_id, lag))
    found.sort(key=lambda pair: -pair[1])
    if found:
        shown = named(f"{group} ({lag:,})" for group, lag in found)
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'group')} without members and with records left to read: {shown}",
            texts(group for group, _ in found),
            "start the consumers again; a group that is not needed any more is deleted",
            line("group", "delete", *some(group for group, _ in found)),
        )


def _lost(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    offsets = snapshot.offsets.get()
    lost: dict[str, int] = {}
    beyond: dict[str, list[TopicPartition]] = {}
    for group in snapshot.groups.get().values():
        for place, offset in (group.offsets or {}).items():
            known = offsets.get(place)
            if known is not None and offset < known.start and group.type is not GroupType.SHARE:
                lost[group.group_id] = lost.get(group.group_id, 0) + known.start - offset
            if known is not None and offset > known.end:
                beyond.setdefault(group.group_id, []).append(place)
    if lost:
        shown = named(f"{group} ({count:,} offsets)" for group, count in lost.items())
        yield Finding(
            Severity.CRITICAL,
            f"{counted(len(lost), 'group')} whose next records were deleted before they were read: {shown}",
            texts(lost),
            "keep records for longer; the group goes on by its auto.offset.reset, which may be at the end: "
            "move it "
            "to what is left",
            line("group", "reset", *some(lost), "--to", "earliest", "--all-topics", "--execute"),
        )
    if beyond:
        places = [place for listed in beyond.values() for place in listed]
        yield Finding(
            Severity.WARNING,
            f"{counted(len(beyond), 'group')} with offsets beyond the end of {named(places, 5)}: records "
            "were "
            "lost, or the topic was made again",
            texts(beyond),
            "move the group to the end of the log",
            line("group", "reset", *some(beyond), "--to", "latest", "--all-topics", "--execute"),
        )


def _due(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """By time: where retention will stand in some hours, and which groups will be behind that place."""
    offsets, horizons = snapshot.offsets.get(), snapshot.due.get().horizons
    hours_of: dict[str, float] = {}
    places: dict[str, set[str]] = {}
    for hours, firsts in sorted(horizons.items(), reverse=True):
        for group in snapshot.groups.get().values():
            for place, offset in (group.offsets or {}).items():
                known = offsets.get(place)
                if known is None or place not in firsts or offset < known.start or offset >= known.end:
                    continue
                if offset < firsts[place]:
                    hours_of[group.group_id] = hours
                    places.setdefault(group.group_id, set()).add(place.topic)
    soon = [group for group, hours in hours_of.items() if hours <= limits.loss_hours / SOON_PART]
    late = [group for group, hours in hours_of.items() if limits.loss_hours >= hours and group not in soon]
    for severity, chosen in ((Severity.CRITICAL, soon), (Severity.WARNING, late)):
        if chosen:
            shown = named(
                f"{group} (within {duration_text(hours_of[group] * HOUR_SECONDS)})" for group in chosen
            )
            topics = sorted({topic for group in chosen for topic in places[group]})
            yield Finding(
                severity,
                f"{counted(len(chosen), 'group')} so far behind that retention deletes records before they "
                "are "
                f"read: {shown}",
                texts(chosen),
                "start more consumers, and keep the records until they have been read (here: without a bound "
                "in "
                "time)",
                line("topic", "alter", *some(topics), "--config", "retention.ms=-1"),
            )


def _due_by_size(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """By size: groups with nearly as many bytes before them as retention.bytes keeps."""
    offsets, settings = snapshot.offsets.get(), snapshot.topic_settings.get()
    sizes = replica_sizes(snapshot.directories.get())
    found: dict[str, set[str]] = {}
    for group in snapshot.groups.get().values():
        for place, lag in _lags(group, offsets).items():
            kept = number_of(settings.get(place.topic, {}), "retention.bytes") or -1
            deletes = "delete" in (value_of(settings.get(place.topic, {}), "cleanup.policy") or "")
            count = offsets[place].end - offsets[place].start
            size = max(sizes.get(place, {}).values(), default=0)
            if kept > 0 and deletes and lag and size * lag > FULL_PART * kept * count:
                found.setdefault(group.group_id, set()).add(place.topic)
    if found:
        topics = sorted({topic for listed in found.values() for topic in listed})
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'group')} with nearly as much to read as retention.bytes keeps: what "
            "comes now "
            f"pushes out what was not read: {named(found)}",
            texts(found),
            "start more consumers, and keep the records until they have been read (here: without a bound in "
            "size)",
            line("topic", "alter", *some(topics), "--config", "retention.bytes=-1"),
        )


def _no_commits(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    offsets = snapshot.offsets.get()
    found = []
    for group in snapshot.groups.get().values():
        if group.type is GroupType.SHARE or group.offsets is None or group.state in REBALANCING:
            continue
        read = [
            place
            for place in group.assigned
            if place in offsets and offsets[place].end > offsets[place].start
        ]
        if read and not any(place in group.offsets for place in group.assigned):
            found.append(group.group_id)
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'group')} with members that read, but without a committed offset: a "
            "restart "
            "reads everything again, or nothing of what came meanwhile",
            texts(found),
            "let the consumers commit (enable.auto.commit, or commit calls); see their partitions",
            line("group", "describe", *some(found), "--members"),
        )


def _classic(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        one.group_id
        for one in snapshot.groups.get().values()
        if one.type is GroupType.CLASSIC and one.protocol_type == "consumer" and one.member_count > 1
    ]
    if found:
        yield Finding(
            Severity.NOTE,
            f"{counted(len(found), 'group')} of several members on the classic protocol: every rebalance "
            "stops all "
            "of them",
            texts(found),
            "set group.protocol=consumer for the consumers (KIP-848), one after the other; see their members",
            line("group", "describe", *some(found), "--members"),
        )


def _idle(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        (one.group_id, one.idle_members)
        for one in snapshot.groups.get().values()
        if one.idle_members and one.assigned and one.type is not GroupType.SHARE and one.state == "Stable"
    ]
    if found:
        topics = sorted(
            {
                place.topic
                for one in snapshot.groups.get().values()
                if one.group_id == found[0][0]
                for place in one.assigned
            }
        )
        shown = named(f"{group} ({counted(idle, 'member')})" for group, idle in found)
        count = sum(1 for place in snapshot.groups.get()[found[0][0]].assigned if place.topic == topics[0])
        yield Finding(
            Severity.NOTE,
            f"{counted(len(found), 'group')} with members that have no partition: {shown}",
            texts(group for group, _ in found),
            "run fewer members, or give the topic more partitions (keys then go to others)",
            line("topic", "alter", topics[0], "--partitions", count + found[0][1]),
        )


CHECKS: Final = (
    Check(
        "group-records-lost",
        Severity.CRITICAL,
        "groups whose next records are deleted, or offsets beyond the end",
        ("groups", "offsets"),
        _lost,
    ),
    Check(
        "group-records-due",
        Severity.CRITICAL,
        "groups whose lag retention will eat within hours",
        ("groups", "offsets", "due"),
        _due,
    ),
    Check(
        "group-records-full",
        Severity.WARNING,
        "groups with nearly as many bytes to read as retention.bytes keeps",
        ("groups", "offsets", "topic_settings", "directories"),
        _due_by_size,
    ),
    Check(
        "group-rebalancing",
        Severity.WARNING,
        "groups that rebalance at every look",
        ("groups",),
        _rebalancing,
    ),
    Check(
        "group-abandoned",
        Severity.WARNING,
        "groups without members and with lag",
        ("groups", "offsets"),
        _abandoned,
    ),
    Check(
        "group-no-commits",
        Severity.WARNING,
        "groups with members and without a committed offset",
        ("groups", "offsets"),
        _no_commits,
    ),
    Check(
        "group-idle-members", Severity.NOTE, "groups with more members than partitions", ("groups",), _idle
    ),
    Check("group-classic", Severity.NOTE, "groups on the classic protocol", ("groups",), _classic),
)
