"""Batches on their way to a broker: records gathered for each partition, closed when they are large enough.

Each batch remembers where its records came from (numbers of lines, say), so that a refused record can be
named. No I/O, no clock: times come from the caller.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.cluster_requests import TopicPartition
from ottla.protocol.compression import Codec, compress
from ottla.protocol.record_batch import (
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    NewRecord,
    assemble_batch,
    write_record,
)
from ottla.protocol.record_payloads import payload_of
from ottla.protocol.schema import Buffer

MOST_RECORDS: Final = 1 << 20
"""In one batch; the broker checks an idempotent batch's sequence numbers by their count."""
RECORD_OVERHEAD_BYTES: Final = 12
"""About what a record of ordinary size takes beside its key and value."""


class Batch(Protocol):
    """A closed batch that a writer takes: records that were encoded here, or copied from another cluster.

    sources: where each record came from. base_sequence: NO_SEQUENCE until the batch is first sent.
    """

    @property
    def partition(self) -> TopicPartition:
        """The partition that it is for."""

    @property
    def sources(self) -> Sequence[int]:
        """Where each record came from."""

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""

    @property
    def count(self) -> int:
        """The number of records."""

    base_sequence: int

    def compressed(self, codec: Codec, level: int | None = None) -> bytes:
        """The records' bytes, compressed."""

    def encoded(self, payload: bytes, codec: Codec, producer: ProducerIdentity | None) -> Buffer:
        """The batch for a Produce request; its base sequence is set before."""

    def halves(self) -> tuple[Batch, Batch]:
        """The batch as two, for a broker that takes no batch so large; sequence numbers go on."""


@dataclass(slots=True)
class OutgoingBatch:
    """One closed batch. sources: where each record came from.

    keys, values: of a batch in columns; records: of one whose records have headers or times of their own. One
    of both is None. base_sequence: NO_SEQUENCE until the batch is first sent.
    """

    partition: TopicPartition
    sources: Sequence[int]
    timestamp_ms: int
    max_timestamp_ms: int
    keys: Sequence[bytes | None] | None
    values: Sequence[bytes | None] | None
    records: Sequence[NewRecord] | None
    size_bytes: int
    base_sequence: int = NO_SEQUENCE

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.sources)

    def compressed(self, codec: Codec, level: int | None = None) -> bytes:
        """The records' bytes, compressed."""
        if self.records is None:
            assert self.values is not None
            payload: bytes | bytearray = payload_of(self.keys, self.values)
        else:
            payload = bytearray()
            for delta, record in enumerate(self.records):
                write_record(payload, record, delta, self.timestamp_ms)
        return bytes(payload) if codec is Codec.NONE else compress(codec, payload, level)

    def encoded(self, payload: bytes, codec: Codec, producer: ProducerIdentity | None) -> bytes:
        """The batch for a Produce request; its base sequence is set before."""
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=int(codec)
            | (TRANSACTIONAL if producer is not None and producer.is_transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.timestamp_ms,
            max_timestamp=self.max_timestamp_ms,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
            base_sequence=self.base_sequence,
            record_count=self.count,
        )
        return assemble_batch(header, payload)

    def halves(self) -> tuple[OutgoingBatch, OutgoingBatch]:
        """The batch as two, for a broker that takes no batch so large; sequence numbers go on."""
        middle = self.count // 2
        first, second = self._part(0, middle), self._part(middle, self.count)
        if self.base_sequence != NO_SEQUENCE:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + middle) & 0x7FFFFFFF
        return first, second

    def _part(self, start: int, stop: int) -> OutgoingBatch:
        records = None if self.records is None else self.records[start:stop]
        base, most = self.timestamp_ms, self.max_timestamp_ms
        if records is not None:
            base, most = records[0].timestamp, max(record.timestamp for record in records)
        return OutgoingBatch(
            self.partition,
            self.sources[start:stop],
            base,
            most,
            None if self.keys is None else self.keys[start:stop],
            None if self.values is None else self.values[start:stop],
            records,
            self.size_bytes * (stop - start) // max(self.count, 1),
        )


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The id and epoch that the cluster gave an idempotent producer."""

    producer_id: int
    epoch: int
    is_transactional: bool = False


def column_batches(
    partition: TopicPartition,
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    sources: Sequence[int],
    timestamp_ms: int,
    batch_bytes: int,
) -> Iterator[OutgoingBatch]:
    """Records of one partition as batches of about `batch_bytes`, at least a record each."""
    lengths = _lengths(values)
    if keys is not None:
        lengths = list(map(operator.add, lengths, _lengths(keys)))
    total = sum(lengths) + RECORD_OVERHEAD_BYTES * len(lengths)
    if lengths and total <= batch_bytes and len(lengths) <= MOST_RECORDS:
        yield OutgoingBatch(partition, sources, timestamp_ms, timestamp_ms, keys, values, None, total)
        return
    ends = list(itertools.accumulate(lengths))
    start = before = 0
    while start < len(ends):
        # A record of length n takes about n + RECORD_OVERHEAD_BYTES; where records are small, fewer fit.
        mean = max((ends[-1] - before) / (len(ends) - start), 1.0)
        room = batch_bytes * mean / (mean + RECORD_OVERHEAD_BYTES)
        stop = min(max(bisect_right(ends, before + room), start + 1), start + MOST_RECORDS)
        yield OutgoingBatch(
            partition,
            sources[start:stop],
            timestamp_ms,
            timestamp_ms,
            None if keys is None else keys[start:stop],
            values[start:stop],
            None,
            ends[stop - 1] - before + RECORD_OVERHEAD_BYTES * (stop - start),
        )
        before = ends[stop - 1]
        start = stop


def _lengths(values: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, values))  # type: ignore[arg-type]
    except TypeError:
        return [0 if value is None else len(value) for value in values]


class Gathering:
    """Records of any kind for one partition, until they are enough for a batch."""

    __slots__ = ("partition", "records", "size_bytes", "sources")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.records: list[NewRecord] = []
        self.sources: list[int] = []
        self.size_bytes = 0

    def add(self, record: NewRecord, source: int) -> int:
        """Add a record; the bytes of the batch so far."""
        self.records.append(record)
        self.sources.append(source)
        size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        for name, value in record.headers:
            size += 4 + len(name) + len(value or b"")
        self.size_bytes += size
        return self.size_bytes

    def close(self) -> OutgoingBatch:
        """The batch of all records, which are at least one; gathering begins anew."""
        records, self.records = self.records, []
        sources, self.sources = self.sources, []
        size, self.size_bytes = self.size_bytes, 0
        first = records[0].timestamp
        most = max(record.timestamp for record in records)
        if first == most and not any(record.headers for record in records):
            keys: list[bytes | None] | None = [record.key for record in records]
            if keys is not None and all(key is None for key in keys):
                keys = None
            values = [record.value for record in records]
            return OutgoingBatch(self.partition, sources, first, most, keys, values, None, size)
        return OutgoingBatch(self.partition, sources, first, most, None, None, records, size)
