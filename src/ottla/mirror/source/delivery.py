"""Copied batches and the offsets behind them on the target: in one transaction, or one behind the other.

What is written before what is said. Exactly once: batches and connect-offsets records are acknowledged, then
the transaction is committed, then offset syncs are told; a kill before the commit leaves neither, and whoever
has the transactional id next ends the transaction before it reads the offsets. At least once: batches are
acknowledged, then syncs are told, then, every offset.flush.interval.ms, the offsets are stored; a kill
repeats the records since then.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.batches import Batch, Gathering, OutgoingBatch, ProducerIdentity
from ottla.client.records.partitioner import partition_of_key
from ottla.client.records.transaction import DEFAULT_TIMEOUT_MS, Transaction
from ottla.client.records.writer import RecordWriter, WriteSettings
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.host.clients import access, transactional_id
from ottla.connect.host.messages import Start
from ottla.connect.host.offset_records import key_bytes, value_bytes
from ottla.connect.host.offset_store import ensure_topic, offset_file, offset_topics, read_offsets
from ottla.connect.host.settings import FLUSH_INTERVAL_MS, exactly_once, worker_settings
from ottla.mirror.offset_sync_hook import CopiedRun
from ottla.mirror.source.copied_batch import CopiedBatch
from ottla.protocol.record_batch import NewRecord

Offsets = Sequence[tuple[SourcePartition, SourceOffset]]
BUFFER_BYTES: Final = 6 << 20
ABORT_SECONDS: Final = 5.0
_OFFSET: Final = -1
"""The source of an offset's record, which no error names."""

_log = logging.getLogger("ottla.mirror")


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a source partition was copied, as connect-offsets tell it."""

    partition: SourcePartition
    offset: SourceOffset


def is_exactly_once(start: Start) -> bool:
    """Whether a task copies exactly once: a distributed worker with exactly.once.source.support=enabled."""
    return exactly_once(start.worker) and offset_file(start) is None


class Delivery:
    """Writes batches, and commits them with the offsets behind them. Calls raise ClusterError.

    runs: what was acknowledged since it was last taken.
    """

    def __init__(self, start: Start, target: ClusterAccess) -> None:
        """Nothing is asked before `open`. Raises ConfigError."""
        self.exactly_once: Final = is_exactly_once(start)
        self.runs: list[CopiedRun] = []
        self._start = start
        self._target = target
        self._cluster = ClusterRequests(target)
        settings = worker_settings(start)
        self._flush_seconds = settings[FLUSH_INTERVAL_MS] / 1_000
        self._settings = settings
        self._transaction: Transaction | None = None
        self._writer: RecordWriter | None = None
        self._offsets: _OffsetsWriter | None = None
        self._stored_at = time.monotonic()
        self._reached: dict[bytes, Reached] = {}
        self.is_dirty = False
        """Whether batches were added since the last commit."""

    async def open(self, again: ProducerIdentity | None) -> Offsets:
        """Become the producer of the task, and read the offsets that its last one has committed.

        again: who this run was before; it is refused where another run has taken its place.
        """
        start = self._start
        topic = None if offset_file(start) is not None else offset_topics(start).own
        if topic is not None:
            await asyncio.to_thread(ensure_topic, start, topic, self._settings)
        if self.exactly_once:
            assert topic is not None
            timeout_ms = int(self._target.properties.get("transaction.timeout.ms", DEFAULT_TIMEOUT_MS))
            self._transaction = Transaction(self._cluster, self._target, transactional_id(start), timeout_ms)
        self._writer = RecordWriter(
            self._cluster, self._target, _write_settings(self._target), self._transaction
        )
        self._writer.on_placed = self._placed
        if self._transaction is None:
            await self._writer.start()
        else:
            self._writer.adopt(await self._transaction.begin(again))
        if topic is not None:
            self._offsets = _OffsetsWriter(topic.name)
            if not self.exactly_once:
                where = access(start.worker, {} if topic.of_worker else start.config, "producer")
                await self._offsets.open_own(where)
        if self.exactly_once:
            # what an older run had in flight is committed or aborted by now, and never again
            return await asyncio.to_thread(read_offsets, start)
        return start.offsets

    @property
    def identity(self) -> ProducerIdentity | None:
        """The producer, for the next `open` of this run."""
        return None if self._writer is None else self._writer.identity

    async def add(self, batch: Batch) -> None:
        """Write a batch; returns when there is room for another."""
        assert self._writer is not None
        self.is_dirty = True
        await self._writer.add(batch)

    def reached(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """All records of a source partition up to this offset were added, or are not wanted."""
        self._reached[key_bytes(self._start.run.connector, partition)] = Reached(partition, offset)

    async def commit(self) -> list[CopiedRun]:
        """Make everything durable that was added. Returns what was copied since the last commit."""
        assert self._writer is not None
        if self._transaction is not None:
            assert self._offsets is not None
            reached, self._reached = self._reached, {}
            batches = await self._offsets.batches(self._writer, reached)
            await self._transaction.include(*(each.partition for each in batches))
            for batch in batches:
                await self._writer.add(batch)
            await self._writer.flush()
            await self._transaction.end(commit=True)
        else:
            await self._writer.flush()
            await self.tick()
        self.is_dirty = False
        runs, self.runs = self.runs, []
        return runs

    async def tick(self) -> None:
        """At least once: write down how far the copying is if it is time to."""
        if time.monotonic() >= self._stored_at + self._flush_seconds:
            await self.store()

    async def store(self) -> None:
        """At least once: write down how far everything acknowledged goes."""
        if self._transaction is not None or not self._reached:
            return
        reached, self._reached = self._reached, {}
        places = [(each.partition, each.offset) for each in reached.values()]
        try:
            file = offset_file(self._start)
            if file is not None:
                await asyncio.to_thread(functools.partial(file.write, self._start.run.connector, places))
            else:
                assert self._offsets is not None
                await self._offsets.write(reached)
        except BaseException:
            self._reached = reached | self._reached
            raise
        self._stored_at = time.monotonic()

    async def close(self) -> None:
        """Give everything up that is not committed. Does not raise."""
        if self._writer is not None:
            await self._writer.close()
        if self._transaction is not None:
            try:
                async with asyncio.timeout(ABORT_SECONDS):
                    await self._transaction.end(commit=False)
            except (ClusterError, TimeoutError) as problem:
                _log.info("the open transaction is left to be aborted: %s", problem)
            self._transaction.close()
        if self._offsets is not None:
            await self._offsets.close()
        await self._cluster.close()

    def _placed(self, batch: Batch, base_offset: int) -> None:
        if not isinstance(batch, CopiedBatch) or base_offset < 0:
            return
        sources = batch.sources
        self.runs.append(
            CopiedRun(batch.origin, sources[0], sources[-1], base_offset, base_offset + len(sources) - 1)
        )


class _OffsetsWriter:
    """Makes the records of a topic of offsets, each in the partition where Java's Connect puts its key."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._cluster: ClusterRequests | None = None
        self._writer: RecordWriter | None = None

    async def open_own(self, where: ClusterAccess) -> None:
        """Write outside of the records' transaction, with a producer of its own."""
        self._cluster = ClusterRequests(where)
        self._writer = RecordWriter(self._cluster, where, _write_settings(where))
        await self._writer.start()

    async def batches(self, writer: RecordWriter, reached: Mapping[bytes, Reached]) -> list[OutgoingBatch]:
        """The offsets as batches for a writer."""
        count = writer.leaders.partition_count(self._topic)
        if not count:
            problems = await writer.leaders.learn([self._topic])
            count = writer.leaders.partition_count(self._topic)
            if not count:
                raise problems.get(self._topic) or ClusterError(f"topic {self._topic} has no partitions")
        now_ms = time.time_ns() // 1_000_000
        gatherings: dict[int, Gathering] = {}
        for key, place in reached.items():
            index = partition_of_key(key, count)
            if index not in gatherings:
                gatherings[index] = Gathering(TopicPartition(self._topic, index))
            gatherings[index].add(NewRecord(key, value_bytes(place.offset), now_ms), _OFFSET)
        return [each.close() for each in gatherings.values()]

    async def write(self, reached: Mapping[bytes, Reached]) -> None:
        """Write offsets with the own producer. Raises ClusterError."""
        assert self._writer is not None
        for batch in await self.batches(self._writer, reached):
            await self._writer.add(batch)
        await self._writer.flush()

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        if self._cluster is not None:
            await self._cluster.close()


def _write_settings(where: ClusterAccess) -> WriteSettings:
    given = where.properties
    return WriteSettings(
        request_timeout_ms=int(given.get("request.timeout.ms", 30_000)),
        delivery_timeout_ms=int(given.get("delivery.timeout.ms", 120_000)),
        buffer_bytes=int(given.get("buffer.memory", BUFFER_BYTES)),
    )
