"""Reads partitions: fetches from each leader over a connection of its own, as batches, in each partition's
order.

Theory of operation. Every leader has one task, which asks for all of its partitions that are not done, hands
the batches over and asks again, while the caller works on the last answer. What waits for the caller is
bounded in bytes: a caller that is slow stops the asking. A partition whose leader has moved goes back to the
supervisor, which learns the leaders anew and hands it to another task. The partition's position moves on
with the batches that were handed over, so nothing is read twice and nothing is passed over.

An end is exact: a partition is done when its position has reached it, whether the last offsets below it are
records, control records, or holes that compaction left.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.client.access import Address, ClusterAccess
from ottla.client.admin.partition_offsets import EARLIEST, LATEST
from ottla.client.cluster_requests import Broker, ClusterRequests, TopicPartition, by_topic, refusal
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser
from ottla.client.errors import ClusterError
from ottla.client.records.leaders import PartitionLeaders
from ottla.client.records.offset_lookup import offsets_at
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.record_batch import BatchHeader, iterate_headers
from ottla.protocol.schema import Buffer

NEWEST_FETCH_VERSION: Final = 12
"""Later versions name topics by id; users give names."""
WITHOUT_LEADER_SECONDS: Final = 60.0
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
MARGIN_SECONDS: Final = 10.0
"""For an answer to come, beyond the time that the broker may wait."""

_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Span(NamedTuple):
    """The offsets to read of a partition: from `start` to the one before `stop`; without an end if None."""

    start: int
    stop: int | None = None


class FetchedPart(NamedTuple):
    """Batches of one partition, whole and in order. The first may begin before `start`, the last pass `stop`.

    batches: position in `data` and header of each. aborted: (first offset, producer id) of the aborted
    transactions among them. next_offset: the partition's position after these batches.
    """

    partition: TopicPartition
    data: Buffer
    batches: list[tuple[int, BatchHeader]]
    aborted: list[tuple[int, int]]
    start: int
    stop: int | None
    next_offset: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How to fetch. The bytes bound one answer, and the answers that wait for the caller."""

    read_committed: bool = True
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 << 20
    partition_max_bytes: int = 4 << 20
    waiting_bytes: int = 32 << 20
    rack_id: str = ""
    on_skip: Callable[[TopicPartition, int, int], None] = field(default=lambda *_: None)
    """Told of a partition whose log does not have the position: the offset that was to be read, and the
    next.
    """


class _Reading:
    """One partition's position."""

    __slots__ = ("empty_answers", "partition", "position", "stop")

    def __init__(self, partition: TopicPartition, span: Span) -> None:
        self.partition = partition
        self.position = span.start
        self.stop = span.stop
        self.empty_answers = 0

    @property
    def is_done(self) -> bool:
        return self.stop is not None and self.position >= self.stop


class RecordReader:
    """Reads spans of partitions. `next` gives the parts as they come, None when all spans are read.

    Raises ClusterError, from `next`: a refused partition, a topic that is gone, a cluster that is silent.
    """

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        spans: Mapping[TopicPartition, Span],
        settings: ReadSettings | None = None,
    ) -> None:
        self._cluster = cluster
        self._access = access
        self._settings = settings or ReadSettings()
        self._leaders = PartitionLeaders(cluster)
        self._unplaced = [_Reading(partition, span) for partition, span in spans.items()]
        self._reading = {one.partition: one for one in self._unplaced}
        self._parts: deque[FetchedPart] = deque()
        self._waiting_bytes = 0
        self._failure: ClusterError | None = None
        self._finished = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._wake_supervisor = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._of_node: dict[int, list[_Reading]] = {}
        self._supervisor = asyncio.get_running_loop().create_task(self._supervised())

    async def next(self) -> FetchedPart | None:
        """The next part; None after the last. Raises ClusterError."""
        while not self._parts:
            if self._failure is not None:
                raise self._failure
            if self._finished:
                return None
            self._news.clear()
            await self._news.wait()
        part = self._parts.popleft()
        self._waiting_bytes -= len(part.data)
        self._room.set()
        return part

    @property
    def has_parts(self) -> bool:
        """Whether `next` gives a part without waiting."""
        return bool(self._parts)

    def add(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Read further partitions."""
        for partition, span in spans.items():
            if partition not in self._reading:
                self._reading[partition] = reading = _Reading(partition, span)
                self._unplaced.append(reading)
        self._wake_supervisor.set()

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to fetch of each partition."""
        return {partition: one.position for partition, one in self._reading.items()}

    async def close(self) -> None:
        """Stop reading, and close the connections."""
        tasks = [self._supervisor, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- the supervisor --------------------------------------------------------------------------------------

    async def _supervised(self) -> None:
        try:
            await self._place_all()
        except ClusterError as problem:
            self._fail(problem)
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # a fault of ours must not leave the caller waiting
            self._fail(ClusterError(f"reading failed: {problem!r}"))
            raise

    async def _place_all(self) -> None:
        """Hand partitions to the tasks of their leaders until all are done."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        without_leader_since: float | None = None
        while True:
            self._unplaced = [one for one in self._unplaced if not one.is_done]
            self._of_node = {node: mine for node, mine in self._of_node.items() if mine}
            idle = not self._unplaced and not self._of_node
            if idle and all(one.is_done for one in self._reading.values()):
                break
            if not self._unplaced:
                without_leader_since, pause = None, FIRST_PAUSE_SECONDS
                await self._wake_supervisor.wait()
                self._wake_supervisor.clear()
                continue
            problem = await self._place()
            if not self._unplaced:
                continue
            now = loop.time()
            without_leader_since = without_leader_since or now
            if now - without_leader_since > WITHOUT_LEADER_SECONDS:
                raise problem or refusal(
                    ErrorCode.LEADER_NOT_AVAILABLE, None, str(self._unplaced[0].partition)
                )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake_supervisor.wait(), pause)
            self._wake_supervisor.clear()
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self._finished = True
        self._news.set()

    async def _place(self) -> ClusterError | None:
        """Give the partitions that have a leader to its task; the problem of one that has none."""
        try:
            problems = await self._leaders.learn(one.partition.topic for one in self._unplaced)
        except ClusterError as problem:
            if problem.code is not None:
                raise
            return problem
        for error in problems.values():
            if error.code is not None and not ErrorCode(error.code).retriable:
                raise error
        left = []
        for one in self._unplaced:
            broker = self._leaders.leader(one.partition)
            if broker is None:
                left.append(one)
                continue
            self._of_node.setdefault(broker.node_id, []).append(one)
            task = self._tasks.get(broker.node_id)
            if task is None or task.done():
                self._tasks[broker.node_id] = asyncio.get_running_loop().create_task(self._node(broker))
        self._unplaced = left
        return next(iter(problems.values()), None)

    def _give_back(self, node_id: int, readings: list[_Reading]) -> None:
        mine = self._of_node.get(node_id, [])
        for one in readings:
            if one in mine:
                mine.remove(one)
                self._unplaced.append(one)
        self._wake_supervisor.set()

    def _fail(self, problem: ClusterError) -> None:
        self._failure = self._failure or problem
        self._news.set()

    # -- one leader ------------------------------------------------------------------------------------------

    async def _node(self, broker: Broker) -> None:
        """Fetch from one broker until it has none of the partitions any more."""
        connection: NodeConnection | None = None
        name = str(broker)
        try:
            settings = self._access.connection()
            address = Address(broker.host, broker.port)
            async with asyncio.timeout(self._cluster.timeout_seconds):
                connection = await NodeConnection.to(address, settings)
            while True:
                mine = self._of_node.get(broker.node_id, [])
                mine[:] = [one for one in mine if not one.is_done]
                if not mine:
                    break
                await self._wait_for_room()
                await self._fetch(connection, broker.node_id, mine)
        except (ConnectionLost, OSError, ProtocolError, TimeoutError):
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
        except NodeRefusesUser as problem:
            self._fail(
                ClusterError(f"{name} refuses the user: {problem}", ErrorCode.SASL_AUTHENTICATION_FAILED)
            )
        except ClusterError as problem:
            self._fail(problem)
        except asyncio.CancelledError:
            raise
        except Exception as problem:
            self._fail(ClusterError(f"reading from {name} failed: {problem!r}"))
            raise
        finally:
            if connection is not None:
                connection.hang_up()
            self._tasks.pop(broker.node_id, None)
            self._give_back(broker.node_id, list(self._of_node.get(broker.node_id, [])))

    async def _wait_for_room(self) -> None:
        while self._waiting_bytes > self._settings.waiting_bytes:
            self._room.clear()
            await self._room.wait()

    async def _fetch(self, connection: NodeConnection, node_id: int, mine: list[_Reading]) -> None:
        """One request and its answer."""
        settings = self._settings
        version = min(connection.versions.get(ApiKey.FETCH, (0, 0))[1], NEWEST_FETCH_VERSION)
        asked = {one.partition: one for one in mine}
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            isolation_level=int(settings.read_committed),
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(
                    topic=name,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            fetch_offset=asked[TopicPartition(name, index)].position,
                            partition_max_bytes=settings.partition_max_bytes,
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(asked).items()
            ],
            rack_id=settings.rack_id,
        )
        async with asyncio.timeout(settings.max_wait_ms / 1_000 + MARGIN_SECONDS):
            response: FetchResponse = await connection.ask(ApiKey.FETCH, version, request)
        if response.error_code:
            raise refusal(response.error_code, None, f"fetch from broker {node_id}")
        moved: list[_Reading] = []
        got_records = False
        for topic in response.responses:
            for data in topic.partitions:
                one = asked.get(TopicPartition(topic.topic, data.partition_index))
                if one is None:
                    continue
                got_records |= bool(data.records)
                await self._take(one, data, moved)
        if not got_records:
            self._notice_holes(response, asked)
        # The partitions that come first get the answer's bytes.
        mine.append(mine.pop(0))
        if moved:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            self._give_back(node_id, moved)

    async def _take(self, one: _Reading, data: PartitionData, moved: list[_Reading]) -> None:
        """Hand a partition's batches over, or see to its error."""
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_position(one)
        elif code in _MOVED:
            moved.append(one)
        elif code is not ErrorCode.NONE:
            raise refusal(code, None, str(one.partition))
        elif data.records:
            self._hand_over(one, data, data.records)

    def _hand_over(self, one: _Reading, data: PartitionData, records: Buffer) -> None:
        batches = [each for each in iterate_headers(records) if each[1].next_offset > one.position]
        if not batches:
            raise ClusterError(
                f"{one.partition}: the broker sends less than one batch at offset {one.position}"
            )
        start = one.position
        one.position = batches[-1][1].next_offset
        one.empty_answers = 0
        aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
        part = FetchedPart(
            one.partition,
            records,
            batches,
            aborted,
            start,
            one.stop,
            one.position,
            data.log_start_offset,
            data.last_stable_offset,
            data.high_watermark,
        )
        self._parts.append(part)
        self._waiting_bytes += len(records)
        self._news.set()

    def _notice_holes(self, response: FetchResponse, asked: Mapping[TopicPartition, _Reading]) -> None:
        """Pass over the rest of a partition that has no records up to its end.

        A broker answers at once with records that lie below the high watermark, so an answer without any,
        for no partition, says that compaction left none. Asked twice: a lower bound may have moved meanwhile.
        """
        for topic in response.responses:
            for data in topic.partitions:
                one = asked.get(TopicPartition(topic.topic, data.partition_index))
                if one is None or one.stop is None or data.error_code:
                    continue
                end = data.last_stable_offset if self._settings.read_committed else data.high_watermark
                if end >= one.stop > one.position:
                    one.empty_answers += 1
                    if one.empty_answers >= 2:
                        one.position = one.stop

    async def _find_position(self, one: _Reading) -> None:
        """Go on at the log's first record, or at its end, where the log does not have the position."""
        first = (await offsets_at(self._cluster, [one.partition], EARLIEST))[one.partition]
        last = (await offsets_at(self._cluster, [one.partition], LATEST))[one.partition]
        if first <= one.position <= last:
            return
        missing, one.position = one.position, first if one.position < first else last
        self._settings.on_skip(one.partition, missing, one.position)
