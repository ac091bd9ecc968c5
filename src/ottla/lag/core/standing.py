"""Where a group stands in a partition: the records that it has yet to read, and how long they have waited.

The lag counts offsets between the group's position and the log's end, as Kafka's own tools do, with two
exceptions: it is never negative, and it is 0 as soon as no record is left that the group would be given,
which is so too where markers of transactions, aborted records or holes of compaction lie before the end.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ottla.client.first_records import FirstRecord, Found, NoRecord


class Position(enum.Enum):
    """Where the group's offset is in the log."""

    CAUGHT_UP = "caught_up"
    BEHIND = "behind"
    REMOVED = "removed"
    """Below the log's start: the records there are gone, and lag counts from the start."""
    BEYOND_END = "beyond_end"
    """The log was cut, or its topic made anew, since the offset was committed."""
    NOT_COMMITTED = "not_committed"
    UNKNOWN = "unknown"
    """The offset is known, the log's end is not."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """A partition's log: the end that a reader of the isolation level sees, and its start where it is known.

    later_end: the end as it was read after the group's offset, where the offset was beyond the first.
    """

    end: int
    start: int | None = None
    later_end: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A group in a partition. lag: None where it is not known. removed: records that were gone before it read
    them.
    """

    position: Position
    lag: int | None
    removed: int = 0


def standing(
    offset: int | None,
    log: LogSpan | None,
    first: Found = None,
    told_lag: int | None = None,
) -> Standing:
    """Where a group stands. first: the record that is next, None if it was not looked for.

    told_lag: as its coordinator says it, of share groups, without the records that were acknowledged already.
    """
    if offset is None:
        return Standing(Position.NOT_COMMITTED, None)
    if log is None:
        return Standing(Position.UNKNOWN, told_lag)
    if log.later_end is not None and offset > log.later_end:
        return Standing(Position.BEYOND_END, 0)
    removed = 0 if log.start is None else max(0, log.start - offset)
    lag = max(0, log.end - offset - removed) if told_lag is None else told_lag
    if offset < log.end and is_behind(first, log.end) is False:
        lag = 0
    if removed and offset < log.end:
        return Standing(Position.REMOVED, lag, removed)
    return Standing(Position.BEHIND if lag else Position.CAUGHT_UP, lag)


def is_behind(first: Found, end: int) -> bool | None:
    """Whether there is a record to read before the end; None if that is not known."""
    match first:
        case FirstRecord(offset=offset):
            return offset < end  # one beyond was written since the end was read
        case NoRecord():
            return False
    return None


def lag_ms(where: Standing, written_ms: int | None, now_ms: int) -> int | None:
    """How long the next record has waited: 0 if there is none, None if that is not known.

    written_ms: when that record was written.
    """
    if where.lag == 0:
        return 0
    if where.lag is None or written_ms is None:
        return None
    return max(0, now_ms - written_ms)
