"""Counts one cluster for ever: reads its partitions, writes deltas, and says how far it has come.

Theory of operation. What was counted is in the topic of counts and nowhere else. A life of the counter begins
by reading that topic; each partition goes on at the position of its last delta. Deltas are written in order,
and the counter reads them back: one that does not go on at its partition's position says that another counter
of the same tier writes too, and this life ends; the next one begins at what is written. Whatever fails ends
the life as well. So a kill at any line costs the counting since the last delta, and nothing counts twice.

From time to time a round asks which topics there are, and where they end; when all of that is counted and the
deltas are acknowledged, the counter writes that it has caught up with the round's beginning. Only then are
buckets judged that were due at that time. Where batches were counted by their headers and the sum of a judged
bucket differs from what producers have reported, the spans around it are read again, by record.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.audit.core.book import Book
from ottla.audit.core.counting import PartitionCounter, Rules
from ottla.audit.core.delta import (
    CaughtUp,
    Delta,
    Mode,
    caught_up_key,
    caught_up_value,
    delta_key,
    delta_value,
)
from ottla.audit.count.reading import count_part
from ottla.audit.following import BOTH, Follower, ensure_topics
from ottla.client.access import ClusterAccess
from ottla.client.audit.mark import LAST_BUCKET_MS
from ottla.client.audit.topics import COUNTS_TOPIC
from ottla.client.clock import now_ms
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.records.batches import Gathering
from ottla.client.records.offset_lookup import offsets_at
from ottla.client.records.reader import FetchedPart, ReadSettings, RecordReader, Span
from ottla.client.records.visibility import Visibility
from ottla.client.records.writer import RecordWriter, WriteSettings
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ProtocolError
from ottla.protocol.record_batch import NewRecord

LARGEST_DELTA_WEIGHT: Final = 400_000
"""About the bytes of one record; the broker's default limit of a batch is a million."""
BATCH_BYTES: Final = 500_000
KEEP_SECONDS: Final = 43_200.0
"""Positions are written anew so often: those of idle partitions must not grow old and be removed."""
KEPT_MS: Final = 86_400_000
"""How old a bucket may be whose sum from headers is looked at."""
WAIT_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = 1.0
_OWN: Final = TopicPartition(COUNTS_TOPIC, 0)

_log = logging.getLogger("ottla.audit")


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What is counted, and how. include, exclude: expressions for whole names of topics."""

    tier: str
    rules: Rules
    include: re.Pattern[str]
    exclude: re.Pattern[str]
    by_header: bool = False
    flush_seconds: float = 1.0
    round_seconds: float = 5.0
    most_bytes: int = 16 << 20


@dataclass(slots=True)
class _Counted:
    """One partition that is counted."""

    counter: PartitionCounter
    visibility: Visibility


@dataclass(frozen=True, slots=True)
class _Round:
    """Where the partitions ended at a time."""

    at_ms: int
    ends: Mapping[TopicPartition, int]


class _Conflict(Exception):
    """Another counter of the tier writes too, or a topic was made again: begin at what is written."""


class ClusterCounter:
    """Counts one cluster while `run` runs. counted: records. problem: why it does not, at the moment."""

    def __init__(self, access: ClusterAccess, options: CountOptions) -> None:
        self.options = options
        self.counted = 0
        self.lives = 0
        self.partitions = 0
        self.caught_up_ms = 0
        self.problem = "it starts"
        self._access = access

    async def run(self) -> None:
        """Count for ever; a life that fails is followed by another one."""
        while True:
            try:
                self.lives += 1
                life = _Life(self, self._access)
                try:
                    await life.run()
                finally:
                    await life.close()
            except _Conflict as problem:
                self.problem = str(problem)
                _log.warning("counting begins at what is written: %s", problem)
            except (ClusterError, ProtocolError) as problem:
                self.problem = str(problem)
                _log.warning("counting is interrupted: %s", problem)
            await asyncio.sleep(PAUSE_SECONDS)


class _Life:
    """From reading what is written to the first failure."""

    def __init__(self, owner: ClusterCounter, access: ClusterAccess) -> None:
        self._owner = owner
        self._options = owner.options
        self._access = access
        self._cluster = ClusterRequests(access)
        self._book = Book(owner.options.rules.lateness_ms)
        # by record, only positions are needed here; sums from headers are compared with what was reported
        by_header = owner.options.by_header
        self._book.forget(now_ms() - KEPT_MS if by_header else LAST_BUCKET_MS)
        topics = BOTH if by_header else (COUNTS_TOPIC,)
        self._follower = Follower(self._cluster, access, self._book, topics, self._was_rejected)
        self._writer = RecordWriter(self._cluster, access, WriteSettings(codec=Codec.LZ4))
        self._following: asyncio.Task[None] | None = None
        self._reader: RecordReader | None = None
        self._counted: dict[TopicPartition, _Counted] = {}
        self._ids: dict[str, str] = {}
        self._round: _Round | None = None
        self._conflict = ""

    async def run(self) -> None:
        """Raises ClusterError, ProtocolError, _Conflict."""
        await ensure_topics(self._cluster)
        await self._follower.load()
        self._following = asyncio.create_task(self._follower.follow(), name="reading the counts")
        await self._writer.start()
        clock = asyncio.get_running_loop().time
        next_round = next_flush = clock()
        next_keep = clock() + KEEP_SECONDS
        while True:
            if self._following.done():
                self._following.result()
            if self._conflict:
                raise _Conflict(self._conflict)
            if clock() >= next_round and self._round is None:
                self._round = await self._new_round()
                next_round = clock() + self._options.round_seconds
            if clock() >= next_keep:
                await self._write([one.counter.take(now_ms()) for one in self._counted.values()])
                next_keep = clock() + KEEP_SECONDS
                if self._options.by_header:
                    self._book.forget(now_ms() - KEPT_MS)
            await self._count_some()
            if clock() >= next_flush or self._has_heavy():
                await self._flush()
                next_flush = clock() + self._options.flush_seconds

    async def close(self) -> None:
        """Stop reading and writing."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._reader is not None:
            await self._reader.close()
        await self._writer.close()
        await self._cluster.close()

    # -- counting --------------------------------------------------------------------------------------------

    async def _count_some(self) -> None:
        if self._reader is None:
            await asyncio.sleep(WAIT_SECONDS)
            return
        try:
            part = await asyncio.wait_for(self._reader.next(), WAIT_SECONDS)
        except TimeoutError:
            return
        if part is None:  # without a partition there is nothing to read
            self._reader = None
            return
        one = self._counted[part.partition]
        before = one.counter.counted
        count_part(one.counter, part, one.visibility, now_ms(), by_header=self._options.by_header)
        self._owner.counted += one.counter.counted - before

    def _has_heavy(self) -> bool:
        return any(one.counter.weight > LARGEST_DELTA_WEIGHT for one in self._counted.values())

    async def _flush(self) -> None:
        """Write what was counted; then that the round is done, if all that it saw was."""
        moved = [one.counter.take(now_ms()) for one in self._counted.values() if one.counter.has_moved]
        await self._write(moved)
        found = self._round
        if found is None or not self._is_reached(found.ends):
            return
        await self._recount()
        news = CaughtUp(self._options.tier, found.at_ms)
        await self._write_values([(caught_up_key(news.tier), caught_up_value(news))])
        self._round = None
        self._owner.caught_up_ms = found.at_ms
        self._owner.problem = ""

    def _is_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        reader = self._reader
        if reader is not None and reader.has_parts:
            return False
        positions = {} if reader is None else reader.positions()
        for partition, end in ends.items():
            if positions.get(partition, 0) < end:
                return False
        for partition in ends:
            counter = self._counted[partition].counter
            if counter.position < positions[partition]:  # the rest has no records any more
                counter.skip_to(positions[partition], now_ms())
        return not any(self._counted[partition].counter.has_moved for partition in ends)

    # -- rounds ----------------------------------------------------------------------------------------------

    async def _new_round(self) -> _Round:
        """Look which topics there are and where they end; begin to count new partitions."""
        at_ms = now_ms()
        options = self._options
        new: dict[TopicPartition, Span] = {}
        wanted: list[TopicPartition] = []
        for topic in await self._cluster.topics():
            name, topic_id = topic.name or "", str(topic.topic_id)
            if topic.error_code or topic.is_internal or not options.include.fullmatch(name):
                continue
            if options.exclude.fullmatch(name):
                continue
            if self._ids.setdefault(name, topic_id) != topic_id:
                raise _Conflict(f"topic {name} was made again")
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition_index)
                wanted.append(partition)
                if partition not in self._counted:
                    new[partition] = self._begin(partition, topic_id)
        gone = self._counted.keys() - set(wanted)
        if gone:
            raise _Conflict(f"{min(gone)} is gone")
        if new and self._reader is None:
            reading = ReadSettings(max_bytes=self._options.most_bytes)
            self._reader = RecordReader(self._cluster, self._access, new, reading)
        elif new and self._reader is not None:
            self._reader.add(new)
        # where nothing was counted yet, an empty delta says that the topic is counted
        await self._write([self._counted[partition].counter.take(now_ms()) for partition in new])
        self._owner.partitions = len(self._counted)
        return _Round(at_ms, await offsets_at(self._cluster, wanted))

    def _begin(self, partition: TopicPartition, topic_id: str) -> Span:
        name, index = partition
        place = self._book.position(self._options.tier, name, index, topic_id)
        counter = PartitionCounter(
            self._options.tier,
            name,
            index,
            place.offset,
            place.watermark_ms,
            self._options.rules,
            topic_id,
        )
        self._counted[partition] = _Counted(counter, Visibility())
        return Span(place.offset)

    # -- counting again --------------------------------------------------------------------------------------

    async def _recount(self) -> None:
        """Count by record the spans around the buckets whose sums from headers differ."""
        if not self._options.by_header:
            return
        for topic, partition, start, stop in list(self._book.to_recount(self._options.tier)):
            place = TopicPartition(topic, partition)
            if place not in self._counted:
                continue
            counter = PartitionCounter(
                self._options.tier, topic, partition, start, -1, self._options.rules, self._ids[topic]
            )
            visibility = Visibility()
            reader = RecordReader(self._cluster, self._access, {place: Span(start, stop)})
            try:
                while (part := await reader.next()) is not None:
                    self._count_again(counter, part, visibility)
            finally:
                await reader.close()
            delta = counter.take(now_ms())
            delta.mode, delta.stop = Mode.RECOUNT, stop
            await self._write([delta])

    @staticmethod
    def _count_again(counter: PartitionCounter, part: FetchedPart, visibility: Visibility) -> None:
        count_part(counter, part, visibility, now_ms(), by_header=False)

    # -- writing ---------------------------------------------------------------------------------------------

    async def _write(self, deltas: Iterable[Delta]) -> None:
        """Write deltas, and wait until they are acknowledged. Raises ClusterError."""
        await self._write_values([(delta_key(one), delta_value(one)) for one in deltas])

    async def _write_values(self, values: list[tuple[bytes, bytes]]) -> None:
        if not values:
            return
        gathering = Gathering(_OWN)
        for at, (key, value) in enumerate(values):
            if gathering.add(NewRecord(key, value, now_ms()), at) > BATCH_BYTES:
                await self._writer.add(gathering.close())
        if gathering.records:
            await self._writer.add(gathering.close())
        await self._writer.flush()

    def _was_rejected(self, delta: Delta) -> None:
        if delta.tier == self._options.tier and self._following is not None:
            where = f"{delta.topic}-{delta.partition}"
            self._conflict = f"another counter of tier {delta.tier} has counted {where} too"
