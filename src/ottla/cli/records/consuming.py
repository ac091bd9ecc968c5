"""Reads topics and writes their records out: the work of `ottla consume`, without its options.

The records of a part are written before the next is taken, so memory is bounded by the reader's own bound. A
position counts as reached when the operating system has taken the bytes before it.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.cli.records.formats import Decoder, Undecodable
from ottla.cli.records.sinks import Sink
from ottla.cli.records.templates import BatchView
from ottla.cli.records.writing_out import Out
from ottla.client.cluster_requests import TopicPartition
from ottla.client.records.reader import FetchedPart, RecordReader
from ottla.client.records.visibility import Visibility
from ottla.config.errors import UserError
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import BatchHeader, check_crc, records_payload
from ottla.protocol.record_columns import RecordColumns, decode_columns

WRITE_BYTES = 1 << 20
"""Texts are written when there are so many bytes of them, and at the end of each part."""


@dataclass(slots=True)
class ConsumeStats:
    """What was written out."""

    records: int = 0
    value_bytes: int = 0
    key_bytes: int = 0
    first_ms: float = 0.0
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class Consuming:
    """Writes the parts of a reader out. most_records: stop after so many; None: at the reader's end.

    positions: the next offset of each partition of which records, or their absence, were written out.
    """

    def __init__(
        self,
        sink: Sink,
        out: Out,
        *,
        read_committed: bool,
        show_control: bool,
        key_decoder: Decoder,
        value_decoder: Decoder,
        most_records: int | None = None,
        counts_values: bool = False,
    ) -> None:
        self.stats = ConsumeStats()
        self.positions: dict[TopicPartition, int] = {}
        self._sink = sink
        self._out = out
        self._read_committed = read_committed
        self._show_control = show_control
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._left = most_records
        self._counts_values = counts_values
        self._visibility: dict[TopicPartition, Visibility] = {}
        self._texts: list[bytes] = []
        self._waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether as many records as wanted are written."""
        return self._left == 0

    def forget_visibility(self) -> None:
        """Begin anew with transactions: the partitions are read from other positions now."""
        self._visibility.clear()

    async def all_of(self, reader: RecordReader) -> None:
        """Write until the reader's end, or until there are enough records. Raises ClusterError, UserError."""
        while not self.is_full:
            part = await reader.next()
            if part is None:
                return
            await self.take(part)

    async def take(self, part: FetchedPart) -> None:
        """Write the records of a part."""
        batches: Sequence[tuple[int, BatchHeader]] = part.batches
        next_offset = part.next_offset if part.stop is None else min(part.next_offset, part.stop)
        try:
            if self._read_committed:
                seen = self._visibility.setdefault(part.partition, Visibility())
                batches = seen.visible(part.data, part.batches, part.aborted)
            for position, header in batches:
                if header.is_control and not self._show_control:
                    continue
                last = await self._batch(part, position, header)
                if self._waiting_bytes >= WRITE_BYTES:
                    await self._write()
                if self.is_full:
                    next_offset = min(next_offset, last + 1)
                    break
        except CorruptBatch as problem:
            await self._write()
            raise UserError(f"{part.partition} at offset {part.start} or after it: {problem}") from None
        except UserError:
            await self._write()
            raise
        await self._write()
        self.positions[part.partition] = next_offset

    async def _batch(self, part: FetchedPart, position: int, header: BatchHeader) -> int:
        """Render a batch's records within the part's bounds; the last one's offset."""
        check_crc(part.data, position, header)
        payload = records_payload(part.data, position, header)
        columns = decode_columns(payload, header, values_only=self._sink.values_only)
        start = bisect_left(columns.offsets, part.start) if header.base_offset < part.start else 0
        stop = len(columns.values)
        if part.stop is not None and header.last_offset >= part.stop:
            stop = bisect_left(columns.offsets, part.stop)
        if self._left is not None:
            stop = min(stop, start + self._left)
        if start or stop < len(columns.values):
            columns = columns.between(start, max(start, stop))
        count = len(columns.values)
        if not count:
            return header.last_offset
        last = columns.offsets[-1]
        if not header.is_control:
            columns = await self._decoded(part, columns)
        view = BatchView(
            part.partition.topic,
            part.partition.partition,
            header,
            columns,
            part.log_start_offset,
            part.last_stable_offset,
            part.high_watermark,
            self.stats.records + 1,
        )
        text = self._sink.render(view)
        self._texts.append(text)
        self._waiting_bytes += len(text)
        self._count(part.partition, columns, count)
        return last

    async def _decoded(self, part: FetchedPart, columns: RecordColumns) -> RecordColumns:
        """The columns with keys and values decoded; those before one that can't be are written out first."""
        keys, values = columns.keys, columns.values
        for name, decoder in (("key", self._key_decoder), ("value", self._value_decoder)):
            if not decoder.gives_json:
                continue
            try:
                decoded = await decoder.decoded(keys if name == "key" else values, part.partition.topic)
            except Undecodable as problem:
                if problem.index:
                    before = columns.between(0, problem.index)
                    header = part.batches[0][1]
                    before = await self._decoded(part, before)
                    view = BatchView(part.partition.topic, part.partition.partition, header, before)
                    self._texts.append(self._sink.render(view))
                    self._count(part.partition, before, problem.index)
                raise UserError(
                    f"{part.partition} offset {columns.offsets[problem.index]}: the {name} can't be decoded "
                    f"as {decoder.format}: {problem}"
                ) from None
            if name == "key":
                keys = decoded
            else:
                values = decoded
        return columns._replace(keys=keys, values=values)

    def _count(self, partition: TopicPartition, columns: RecordColumns, count: int) -> None:
        stats = self.stats
        if not stats.records:
            stats.first_ms = time.monotonic() * 1_000
        stats.records += count
        if self._left is not None:
            self._left -= count
        if self._counts_values:
            stats.value_bytes += sum(len(value) for value in columns.values if value is not None)
            stats.key_bytes += sum(len(key) for key in columns.keys if key is not None)
            first, _ = stats.offsets.get(partition, (columns.offsets[0], 0))
            stats.offsets[partition] = first, columns.offsets[-1]

    async def _write(self) -> None:
        if self._texts:
            texts, self._texts = self._texts, []
            self._waiting_bytes = 0
            await self._out.write(texts[0] if len(texts) == 1 else b"".join(texts))


async def next_or_event(reader: RecordReader, event: asyncio.Event) -> FetchedPart | None:
    """The reader's next part; None at its end, or when the event is set before a part has come."""
    if reader.has_parts and not event.is_set():
        return await reader.next()
    loop = asyncio.get_running_loop()
    reading, waiting = loop.create_task(reader.next()), loop.create_task(event.wait())
    try:
        done, _ = await asyncio.wait((reading, waiting), return_when=asyncio.FIRST_COMPLETED)
        return reading.result() if reading in done else None
    finally:
        for task in (reading, waiting):
            task.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)
