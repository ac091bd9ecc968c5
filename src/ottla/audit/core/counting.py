"""Counts the batches of one partition: from record to record with their marks, or from headers alone.

Only what a reader of committed records sees counts: control batches and aborted transactions are left out by
the caller (`Visibility`), and come here as offsets that were passed. Offsets that have no record any more
(compaction, retention) are holes, told with the buckets around them: what is missing there may have been
there.

A record is late if its bucket ended more than the allowed time before the largest timestamp that lay in front
of its batch: that depends on the log alone, so a counter that was away names the same records late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.audit.core.delta import Bucket, Delta, Mode, StreamCounts
from ottla.audit.core.marks import Marks, marks_of
from ottla.client.audit.mark import (
    HEADER,
    LAST_BUCKET_MS,
    MARK_BYTES,
    MOST_SEQUENCES,
    PREFIX_BYTES,
    StreamBucket,
    parse_prefix,
)
from ottla.protocol.record_batch import LOG_APPEND_TIME, BatchHeader
from ottla.protocol.record_columns import Headers, RecordColumns, decode_columns

AHEAD_MS: Final = 300_000
"""A timestamp farther in the future than this does not make other records late."""


class Rules(NamedTuple):
    """How to count. bucket_ms: of records without a mark. lateness_ms: allowed behind a bucket's end."""

    bucket_ms: int
    lateness_ms: int


class PartitionCounter:
    """Counts one partition from its position on. `take` gives what was counted since the last time."""

    def __init__(
        self,
        tier: str,
        topic: str,
        partition: int,
        position: int,
        watermark_ms: int,
        rules: Rules,
        topic_id: str = "",
    ) -> None:
        self.position = position
        self.watermark_ms = watermark_ms
        self.counted = 0
        """Records since the last `take`."""
        self._place = (tier, topic, partition, topic_id)
        self._rules = rules
        self._streams: dict[bytes, StreamBucket | None] = {}
        self._delta = self._empty(Mode.RECORDS)

    @property
    def weight(self) -> int:
        """About the bytes that the delta will have."""
        delta = self._delta
        return 64 * (len(delta.streams) + len(delta.buckets) + len(delta.holes)) + 256 * sum(
            len(each.counts.pages) for each in delta.streams.values()
        )

    @property
    def has_moved(self) -> bool:
        """Whether there is anything to take."""
        return self.position != self._delta.start

    def count_records(self, header: BatchHeader, columns: RecordColumns, now_ms: int) -> None:
        """Count a visible batch by record; records in front of the position were counted before."""
        if header.next_offset <= self.position:
            return
        if columns.offsets and columns.offsets[0] < self.position:
            kept = next(
                (at for at, offset in enumerate(columns.offsets) if offset >= self.position),
                len(columns.offsets),
            )
            columns = columns.between(kept, len(columns.offsets))
        first = max(header.base_offset, self.position)
        holes = header.next_offset - first - len(columns.offsets)
        self._pass_to(first, header.max_timestamp)
        by_prefix, unmarked = _grouped(columns)
        self._add_marks(by_prefix)
        for start_ms, count in self._by_bucket(unmarked):
            self._add_bucket(start_ms, count, estimated=0)
        self._advance(header, len(columns.offsets), holes, now_ms)

    def count_payload(self, header: BatchHeader, payload: bytes, now_ms: int) -> None:
        """Count a visible batch by record, from its decompressed records. Raises CorruptBatch."""
        if header.next_offset <= self.position:
            return
        marks = None
        if header.base_offset >= self.position:
            marks = marks_of(payload, header.record_count)
        if marks is None:
            self.count_records(header, decode_columns(payload, header), now_ms)
            return
        self._pass_to(header.base_offset, header.max_timestamp)
        self._add_marks(marks)
        holes = header.next_offset - header.base_offset - header.record_count
        self._advance(header, header.record_count, holes, now_ms)

    def _add_marks(self, marks: Marks) -> None:
        for prefix, sequences in marks.items():
            of = self._stream_of(prefix)
            if of is None:
                continue
            counts = self._delta.streams.get(of)
            if counts is None:
                counts = self._delta.streams[of] = StreamCounts()
            counts.counts.add(sequences)
            if self._is_late(of.bucket_start_ms):
                counts.late += len(sequences)

    def count_header(self, header: BatchHeader, now_ms: int) -> None:
        """Count a visible batch by its header: exact for one record or one time, else an estimate."""
        if header.next_offset <= self.position:
            return
        self._delta.mode = Mode.HEADERS
        first = max(header.base_offset, self.position)
        count = min(header.record_count, header.next_offset - first)
        self._pass_to(first, header.max_timestamp)
        start_ms = self._bucket_of(header.max_timestamp)
        is_exact = count == 1 == header.record_count or header.attributes & LOG_APPEND_TIME
        self._add_bucket(start_ms, count, estimated=0 if is_exact else count)
        self._advance(header, count, header.next_offset - first - count, now_ms)

    def skip_batch(self, header: BatchHeader) -> None:
        """Pass over a batch that nobody sees: control records, an aborted transaction."""
        if header.next_offset > self.position:
            self._pass_to(max(header.base_offset, self.position), self.watermark_ms)
            self.position = header.next_offset

    def skip_to(self, offset: int, timestamp_ms: int) -> None:
        """Pass over offsets that are gone, up to this one, behind which records have this timestamp."""
        self._pass_to(offset, timestamp_ms)

    def take(self, counted_at_ms: int) -> Delta:
        """What was counted since the last time; counting goes on from here."""
        delta, delta_stop = self._delta, self.position
        delta.stop, delta.watermark_ms, delta.counted_at_ms = delta_stop, self.watermark_ms, counted_at_ms
        self._delta = self._empty(Mode.RECORDS)
        self.counted = 0
        return delta

    def _empty(self, mode: Mode) -> Delta:
        tier, topic, partition, topic_id = self._place
        size = self._rules.bucket_ms
        return Delta(tier, topic, partition, self.position, self.position, mode, size, topic_id=topic_id)

    def _stream_of(self, prefix: bytes) -> StreamBucket | None:
        of = self._streams.get(prefix)
        if of is None:
            if len(self._streams) > 10_000:
                self._streams.clear()
            of = self._streams[prefix] = parse_prefix(prefix)
        return of

    def _pass_to(self, first: int, timestamp_ms: int) -> None:
        """Note the offsets in front of `first` that have no record any more."""
        if first > self.position:
            self._note_holes(first - self.position, timestamp_ms)
            self.position = first

    def _note_holes(self, count: int, timestamp_ms: int) -> None:
        # with nothing read yet, what is gone may be as old as can be
        size = self._rules.bucket_ms  # one bucket more: records may have been out of order
        low = 0 if self.watermark_ms < 0 else self._bucket_of(min(self.watermark_ms, timestamp_ms) - size)
        high = self._bucket_of(max(self.watermark_ms, timestamp_ms))
        self._delta.holes.append((low, high, count))

    def _advance(self, header: BatchHeader, records: int, holes: int, now_ms: int) -> None:
        if holes > 0:
            self._note_holes(holes, header.max_timestamp)
        self.position = header.next_offset
        self.counted += records
        if self.watermark_ms < header.max_timestamp <= now_ms + AHEAD_MS:
            self.watermark_ms = header.max_timestamp

    def _is_late(self, start_ms: int) -> bool:
        return self.watermark_ms >= start_ms + self._rules.bucket_ms + self._rules.lateness_ms

    def _bucket_of(self, timestamp_ms: int) -> int:
        size = self._rules.bucket_ms
        return min(max(timestamp_ms, 0), LAST_BUCKET_MS) // size * size

    def _by_bucket(self, timestamps: list[int]) -> Iterable[tuple[int, int]]:
        counts: dict[int, int] = {}
        for timestamp in timestamps:
            start_ms = self._bucket_of(timestamp)
            counts[start_ms] = counts.get(start_ms, 0) + 1
        return counts.items()

    def _add_bucket(self, start_ms: int, count: int, *, estimated: int) -> None:
        bucket = self._delta.buckets.get(start_ms)
        if bucket is None:
            bucket = self._delta.buckets[start_ms] = Bucket()
        bucket.counted += count
        bucket.estimated += estimated
        if self._is_late(start_ms):
            bucket.late += count


def _grouped(columns: RecordColumns) -> tuple[dict[bytes, list[int]], list[int]]:
    """The sequences by the prefix of their marks, and the timestamps of records without a mark."""
    by_prefix: dict[bytes, list[int]] = {}
    unmarked: list[int] = []
    timestamps = columns.timestamps
    last: bytes | None = None
    add = unmarked.append
    for at, headers in enumerate(columns.headers):
        value = _mark_of(headers) if headers else None
        if value is None:
            unmarked.append(timestamps[at])
            continue
        prefix = value[:PREFIX_BYTES]
        if prefix != last:
            last = prefix
            sequences = by_prefix.get(prefix)
            if sequences is None:
                sequences = by_prefix[prefix] = []
            add = sequences.append
        add(int.from_bytes(value[PREFIX_BYTES:], "big"))
    return by_prefix, unmarked


def _mark_of(headers: Headers) -> bytes | None:
    """The mark among a record's headers; None without one that can be read. Ours is the last one."""
    name, value = headers[-1]
    if name != HEADER:
        value = next((each for name, each in reversed(headers) if name == HEADER), None)
    if value is None or len(value) != MARK_BYTES or value[0] != 1:
        return None
    return value if int.from_bytes(value[PREFIX_BYTES:], "big") < MOST_SEQUENCES else None
