"""Figures of a probe: availability, losses, outages and latencies, in the words of LinkedIn's Xinfra Monitor.

No I/O, no clock: times are given, in seconds of one clock. A record has a number within its partition and is
sent once, so one that comes twice was written twice, and one that was acknowledged and never comes is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

MOST_DELAYS: Final = 100_000
"""Of one partition and kind; beyond, every other one is left out, again and again."""
MOST_UNREAD: Final = 100_000
FRESH_SECONDS: Final = 4.0


class Delays:
    """Durations in ms: all, or an even selection of many."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.most_ms = 0.0
        self._kept: list[float] = []
        self._stride = 1

    def add(self, delay_ms: float) -> None:
        """Count one."""
        if self.count % self._stride == 0:
            self._kept.append(delay_ms)
            if len(self._kept) > MOST_DELAYS:
                self._kept, self._stride = self._kept[::2], self._stride * 2
        self.count += 1
        self.sum_ms += delay_ms
        self.most_ms = max(self.most_ms, delay_ms)

    @property
    def kept(self) -> Sequence[float]:
        """The selection."""
        return self._kept


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value that the share does not exceed (nearest rank); None without values."""
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True)
class PartitionFigures:
    """One partition's records. broker: the one that is to lead it."""

    partition: int
    broker: int
    produced: int = 0
    errors: int = 0
    consumed: int = 0
    lost: int = 0
    duplicated: int = 0
    unread: dict[int, tuple[float, int]] = field(default_factory=dict)
    """Acknowledged and not read yet: number -> (when it was sent, its offset)."""
    produce_delays: Delays = field(default_factory=Delays)
    delays: Delays = field(default_factory=Delays)
    last_error: str | None = None
    outages: list[float] = field(default_factory=list)
    """Seconds of each time in which nothing could be written, those that have ended."""
    out_since: float | None = None
    seen: set[int] = field(default_factory=set)
    """Numbers that were read: a second time is a duplicate."""
    read_at: dict[int, float] = field(default_factory=dict)
    """Read and not acknowledged: number -> when it was read. The acknowledgement comes later, or never."""

    def acknowledged(self, number: int, offset: int, sent: float, now: float) -> None:
        """A record was written. The reader may have had it already."""
        self.produced += 1
        self.produce_delays.add((now - sent) * 1_000)
        if self.out_since is not None:
            self.outages.append(now - self.out_since)
            self.out_since = None
        if number in self.read_at:
            self._consumed(sent, self.read_at.pop(number))
        elif len(self.unread) < MOST_UNREAD:
            self.unread[number] = sent, offset

    def failed(self, sent: float, problem: str) -> None:
        """A record was not acknowledged; it may be there all the same."""
        self.errors += 1
        self.last_error = problem
        if self.out_since is None:
            self.out_since = sent

    def read(self, number: int, offset: int, now: float) -> None:
        """A record came to the reader, in the order of the log."""
        if number in self.seen:
            self.duplicated += 1
            return
        self.seen.add(number)
        if len(self.seen) > 2 * MOST_UNREAD:
            self.seen = {one for one in self.seen if one > number - MOST_UNREAD}
        if number in self.unread:
            sent, _ = self.unread.pop(number)
            self._consumed(sent, now)
        else:
            self.read_at[number] = now
            while len(self.read_at) > MOST_UNREAD:
                del self.read_at[next(iter(self.read_at))]

    def passed(self, position: int) -> None:
        """The reader has read everything before this offset: unread records from there are lost."""
        gone = [number for number, (_, offset) in self.unread.items() if 0 <= offset < position]
        for number in gone:
            del self.unread[number]
        self.lost += len(gone)

    def consume_availability(self, now: float) -> float | None:
        """The part of the acknowledged records that was read; those of the last seconds may be on the way."""
        fresh = sum(1 for sent, _ in self.unread.values() if now - sent < FRESH_SECONDS)
        due = self.produced - fresh
        return self.consumed / due if due > 0 else None

    def _consumed(self, sent: float, now: float) -> None:
        self.consumed += 1
        self.delays.add(max(0.0, (now - sent) * 1_000))


@dataclass(frozen=True, slots=True)
class ProbeFigures:
    """Figures of one broker's partitions, or of all (broker None).

    produce_availability: records acknowledged of those sent, the mean of the partitions;
    consume_availability: records read of those acknowledged. None where nothing was sent. outage_seconds: in
    which nothing could be written, the sum. delays: of a record from the call to the reader; produce delays:
    to the acknowledgement. unread: acknowledged records that the reader had not reached at the end.
    """

    broker: int | None
    partitions: int
    produce_availability: float | None
    consume_availability: float | None
    records_produced: int
    produce_errors: int
    records_consumed: int
    records_lost: int
    records_duplicated: int
    records_unread: int
    outage_seconds: float
    longest_outage_seconds: float
    produce_delay_ms: dict[str, float | None]
    delay_ms: dict[str, float | None]
    last_error: str | None

    @property
    def is_sound(self) -> bool:
        """Whether every record was written at once and read once."""
        return not (
            self.produce_errors or self.records_lost or self.records_duplicated or self.records_unread
        )


def figures_of(broker: int | None, parts: Iterable[PartitionFigures], now: float) -> ProbeFigures:
    """The figures of some partitions as of now."""
    listed = list(parts)
    outages = [
        [*one.outages, *([now - one.out_since] if one.out_since is not None else [])] for one in listed
    ]
    return ProbeFigures(
        broker,
        len(listed),
        _mean(one.produced / (one.produced + one.errors) for one in listed if one.produced + one.errors),
        _mean(availability for one in listed if (availability := one.consume_availability(now)) is not None),
        sum(one.produced for one in listed),
        sum(one.errors for one in listed),
        sum(one.consumed for one in listed),
        sum(one.lost for one in listed),
        sum(one.duplicated for one in listed),
        sum(len(one.unread) for one in listed),
        sum(map(sum, outages)),
        max((seconds for each in outages for seconds in each), default=0.0),
        _summary([one.produce_delays for one in listed]),
        _summary([one.delays for one in listed]),
        next((one.last_error for one in listed if one.last_error is not None), None),
    )


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def _summary(delays: Sequence[Delays]) -> dict[str, float | None]:
    ordered = sorted(delay for one in delays for delay in one.kept)
    count = sum(one.count for one in delays)
    return {
        "avg": sum(one.sum_ms for one in delays) / count if count else None,
        "p50": percentile(ordered, 0.5),
        "p95": percentile(ordered, 0.95),
        "p99": percentile(ordered, 0.99),
        "max": max((one.most_ms for one in delays), default=None) if count else None,
    }
