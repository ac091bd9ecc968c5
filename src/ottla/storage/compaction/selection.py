"""The part of a log that may be cleaned, its dirtiness, and the segments that become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.storage.indexes import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY
from ottla.storage.log import Log
from ottla.storage.log_config import MAX_LONG
from ottla.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class LogToClean:
    """A log's clean and dirty sections. Dirty is start_offset..end_offset (exclusive), whole segments.

    `overdue`: one of the dirty records is older than max.compaction.lag.ms. `checkpoint_invalid`: the
    checkpointed offset was not within the log.
    """

    log: Log
    start_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    checkpoint_invalid: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log is dirty enough to be cleaned now, or overdue."""
        if self.dirty_bytes == 0:
            return False
        return self.overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def examine(log: Log, checkpoint: int | None, last_stable_offset: int, now_ms: int) -> LogToClean:
    """The sections of `log` for the next cleaning; `checkpoint` is the end of the last one.

    The active segment, offsets from the last stable offset on, and segments from the first one with records
    younger than min.compaction.lag.ms are left out.
    """
    start = log.log_start_offset if checkpoint is None else checkpoint
    invalid = not log.log_start_offset <= start <= log.log_end_offset
    if invalid:
        start = log.log_start_offset
    *closed, active = log.segments
    dirty = [segment for segment in closed if segment.end_offset > start]
    end = min(last_stable_offset, active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (segment for segment in dirty if segment.largest()[0] > now_ms - lag_ms)
        end = min(end, next((segment.base_offset for segment in young), end))
    # A segment that reaches above the end is left out as a whole.
    end = max((segment.end_offset for segment in closed if segment.end_offset <= end), default=start)
    end = max(start, end)
    return LogToClean(
        log,
        start,
        end,
        sum(segment.size_bytes for segment in closed if segment.end_offset <= start),
        sum(segment.size_bytes for segment in dirty if segment.end_offset <= end),
        _is_overdue(dirty, log.config.max_compaction_lag_ms, now_ms),
        invalid,
    )


def _is_overdue(dirty: Sequence[Segment], max_lag_ms: int, now_ms: int) -> bool:
    if max_lag_ms == MAX_LONG:
        return False
    firsts = (segment.first_timestamp() for segment in dirty)
    return any(first is not None and 0 < first < now_ms - max_lag_ms for first in firsts)


def groups(log: Log, end_offset: int) -> Iterator[list[Segment]]:
    """The segments below `end_offset`, grouped so that each group fits one segment with its indexes."""
    config = log.config
    group: list[Segment] = []
    for segment in [each for each in log.segments[:-1] if each.base_offset < end_offset]:
        if group and not (
            sum(each.size_bytes for each in group) + segment.size_bytes <= config.segment_bytes
            and _index_bytes([*group, segment]) <= config.segment_index_bytes
            and (
                segment.size_bytes == 0
                or segment.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
            )
        ):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _index_bytes(segments: Sequence[Segment]) -> int:
    """The size of the larger of the two indexes that the segments would have together."""
    return max(
        sum(segment.offset_index.file.count for segment in segments) * OFFSET_ENTRY.size,
        sum(segment.time_index.file.count for segment in segments) * TIME_ENTRY.size,
    )
