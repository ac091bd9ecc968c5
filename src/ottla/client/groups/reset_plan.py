"""Decides a group's new offsets from the offsets of its partitions: plain arithmetic, without a cluster.

The rules are those of kafka-consumer-groups.sh: an offset outside of the log is moved to its nearest end;
to the current offset means the end where nothing is committed; a time after the last record means the end.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster_requests import TopicPartition
from ottla.config.errors import UserError


class ResetKind(enum.Enum):
    """Where offsets go."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    TIME = "time"
    FILE = "file"


_BOUNDED: Final = frozenset({ResetKind.OFFSET, ResetKind.SHIFT, ResetKind.FILE})


@dataclass(frozen=True, slots=True)
class Reset:
    """A way to choose offsets. value: the offset, the shift, or the time in ms. offsets: those of a file."""

    kind: ResetKind
    value: int = 0
    offsets: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """The partition's first offset and its end; at_time: the first offset at a time, None for none."""

    start: int
    end: int
    at_time: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """A partition's new offset. before: the present one. note: why it is not the one asked for, or empty."""

    topic: str
    partition: int
    before: int | None
    offset: int
    note: str = ""

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class ResetImpossible(UserError):
    """A partition that can't be reset so; the message is a sentence."""


def plan_reset(
    reset: Reset,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogOffsets],
) -> list[PlannedOffset]:
    """The new offset of each partition, sorted. `logs` has all of them. Raises ResetImpossible."""
    planned = []
    for partition in sorted(set(partitions)):
        log = logs[partition]
        wanted, note = _wanted(reset, partition, committed.get(partition), log)
        offset = wanted
        if reset.kind in _BOUNDED:
            offset = min(max(wanted, log.start), log.end)
        if offset != wanted:
            side = "the log begins there" if offset > wanted else "the log ends there"
            note = f"{side}, {wanted} is outside"
        planned.append(PlannedOffset(*partition, committed.get(partition), offset, note))
    return planned


def _wanted(
    reset: Reset, partition: TopicPartition, committed: int | None, log: LogOffsets
) -> tuple[int, str]:
    match reset.kind:
        case ResetKind.EARLIEST:
            return log.start, ""
        case ResetKind.LATEST:
            return log.end, ""
        case ResetKind.OFFSET:
            return reset.value, ""
        case ResetKind.TIME:
            return (log.end, "no record is as young") if log.at_time is None else (log.at_time, "")
        case ResetKind.CURRENT:
            return (log.end, "nothing is committed") if committed is None else (committed, "")
        case ResetKind.SHIFT:
            if committed is None:
                raise ResetImpossible(f"{partition} has no committed offset that could be shifted")
            return committed + reset.value, ""
        case ResetKind.FILE:
            offsets = reset.offsets or {}
            if partition not in offsets:
                raise ResetImpossible(f"{partition} is not in the file")
            return offsets[partition], ""
