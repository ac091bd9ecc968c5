"""What the audit says about one bucket of one topic in one tier."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.audit.core.id_counts import Range

PERCENTS: Final = (99.0, 99.9, 100.0)
"""Of what was sent, whose delay is told."""
MOST_RANGES: Final = 20
"""Named of one row; the numbers are of all."""


class State(enum.StrEnum):
    """How far a bucket is.

    PENDING: not due, or not counted up to when it was. COMPLETE, INCOMPLETE: judged. RECOUNT: the sum from
    headers differs, so that records have to be counted before anything is said.
    """

    PENDING = "pending"
    RECOUNT = "recount"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class NamedRange:
    """Sequences of one stream that follow each other."""

    instance: str
    host: str
    stream: int
    first: int
    last: int


@dataclass(slots=True)
class HostShare:
    """What one host has sent to a bucket, and what of it was missing."""

    sent: int = 0
    missing: int = 0
    unreported: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One bucket of one topic in one tier.

    sent: what producers reported. counted: records with a mark that are in the tier, each time that they are.
    lost: of those that were sent, or lie in front of one that was seen. pending: as lost, before it is
    judged. unknown: missing where the log has holes (compaction, retention). doubled: records too many, of
    them remirrored those that came on the way between tiers. late: behind records of much later buckets.
    unreported: seen, but beyond what the producer reported. unmarked: records without a mark.
    counted - doubled + lost + pending + unknown is what was sent as far as anybody can know: `expected`.
    """

    topic: str
    tier: str
    bucket_start_ms: int
    bucket_ms: int
    state: State
    sent: int = 0
    counted: int = 0
    lost: int = 0
    pending: int = 0
    unknown: int = 0
    doubled: int = 0
    remirrored: int = 0
    late: int = 0
    unreported: int = 0
    unmarked: int = 0
    estimated: bool = False
    lost_ranges: tuple[NamedRange, ...] = ()
    doubled_ranges: tuple[NamedRange, ...] = ()
    hosts: Mapping[str, HostShare] = field(default_factory=dict)
    partitions: Mapping[int, int] = field(default_factory=dict)
    delays_ms: tuple[int | None, ...] = (None, None, None)

    @property
    def expected(self) -> int:
        """What the bucket is measured by: what was sent, or is known to have been."""
        return self.counted - self.doubled + self.lost + self.pending + self.unknown

    @property
    def percent(self) -> float:
        """How much of what was sent is there; 100 without anything."""
        expected = self.expected
        if not expected:
            return 100.0
        return 100.0 * (expected - self.lost - self.pending) / expected


def row_fields(row: Row, *, details: bool = False) -> dict[str, Any]:
    """A row as JSON has it; with ranges, hosts and partitions if `details`."""
    fields: dict[str, Any] = {
        "topic": row.topic,
        "tier": row.tier,
        "bucket_start_ms": row.bucket_start_ms,
        "bucket_ms": row.bucket_ms,
        "state": row.state.value,
        "sent": row.sent,
        "counted": row.counted,
        "lost": row.lost,
        "doubled": row.doubled,
        "late": row.late,
        "pending": row.pending,
        "unknown": row.unknown,
        "unreported": row.unreported,
        "remirrored": row.remirrored,
        "unmarked": row.unmarked,
        "estimated": row.estimated,
        "percent": rounded_percent(row.percent),
        "delay_ms": {f"{percent:g}": delay for percent, delay in zip(PERCENTS, row.delays_ms, strict=True)},
    }
    if details:
        fields["lost_ranges"] = [_range(one) for one in row.lost_ranges]
        fields["doubled_ranges"] = [_range(one) for one in row.doubled_ranges]
        fields["hosts"] = {
            host: {"sent": one.sent, "missing": one.missing, "unreported": one.unreported}
            for host, one in sorted(row.hosts.items())
        }
        fields["partitions"] = {str(number): count for number, count in sorted(row.partitions.items())}
    return fields


def rounded_percent(percent: float) -> float:
    """With four places, but 100 only if nothing is missing."""
    return 100.0 if percent >= 100 else min(round(percent, 4), 99.9999)


def named(of_host: str, instance: str, stream: int, ranges: list[Range], room: int) -> list[NamedRange]:
    """The first `room` of these ranges with their names."""
    return [NamedRange(instance, of_host, stream, first, last) for first, last in ranges[:room]]


def _range(one: NamedRange) -> dict[str, Any]:
    return {
        "instance": one.instance,
        "host": one.host,
        "stream": one.stream,
        "first": one.first,
        "last": one.last,
    }
