"""The part of a log that `ottla log dump` is asked for: from an offset or a time, to an offset or a time."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.record_batch import BatchHeader, Record


@dataclass(slots=True)
class Range:
    """A range of records, and how many are left to tell. None means no bound.

    Offsets are met in the order of the log, times nearly so: the range begins with the first record as late
    as `from_ms`, leaves out records after `to_ms`, and is over with the first batch that begins after it.
    """

    from_offset: int | None = None
    from_ms: int | None = None
    to_offset: int | None = None
    to_ms: int | None = None
    limit: int | None = None
    _met_batch: bool = False
    _met_record: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether anything is left out."""
        bounds = (self.from_offset, self.from_ms, self.to_offset, self.to_ms, self.limit)
        return any(bound is not None for bound in bounds)

    def has_begun(self, header: BatchHeader) -> bool:
        """Whether the range begins in this batch, or has begun before it."""
        if self.from_offset is not None and header.last_offset < self.from_offset:
            return False
        self._met_batch = self._met_batch or self.from_ms is None or header.max_timestamp >= self.from_ms
        return self._met_batch

    def is_over(self, header: BatchHeader) -> bool:
        """Whether the range has ended before this batch."""
        if self.limit == 0 or (self.to_offset is not None and header.base_offset > self.to_offset):
            return True
        return self.to_ms is not None and self._met_batch and header.base_timestamp > self.to_ms

    def has(self, record: Record) -> bool:
        """Whether a record is in the range."""
        if self.from_offset is not None and record.offset < self.from_offset:
            return False
        if not self._met_record and self.from_ms is not None and record.timestamp < self.from_ms:
            return False
        self._met_record = True
        if self.to_offset is not None and record.offset > self.to_offset:
            return False
        return self.to_ms is None or record.timestamp <= self.to_ms

    def has_offset(self, offset: int) -> bool:
        """Whether an offset of an index is in the range of offsets."""
        if self.from_offset is not None and offset < self.from_offset:
            return False
        return self.to_offset is None or offset <= self.to_offset

    def told(self) -> None:
        """Count one more thing as told."""
        if self.limit is not None:
            self.limit -= 1
