"""One partition's way: a writer that tries a record every tick, and a reader of all that comes.

A try is one Produce request with acks=all, never repeated, so that an error is an error of the cluster and
nothing is written twice by us. Writer and reader have a connection each: a fetch waits at the broker. After
an error the leader is asked for anew, and the next tick is the next try.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from ottla.client.access import Address, ClusterAccess
from ottla.client.cluster_requests import Broker, TopicPartition
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser, connect_problem
from ottla.client.errors import ClusterError
from ottla.client.records.leaders import PartitionLeaders
from ottla.doctor.probe.figures import PartitionFigures
from ottla.doctor.snapshot import ClockReading
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import CorruptBatch, ErrorCode, ProtocolError
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch, iterate_headers

NEWEST_PRODUCE: Final = 11
NEWEST_FETCH: Final = 12
"""Later versions name topics by id."""
FETCH_WAIT_MS: Final = 500
FETCH_BYTES: Final = 1 << 20
PAUSE_SECONDS: Final = 0.1
LATEST: Final = -1
EARLIEST: Final = -2
LEARN_SECONDS: Final = 0.2
"""Between two questions for the leaders."""


class Leaders:
    """The leaders of the probe's partitions, asked for at most every LEARN_SECONDS by all paths together."""

    def __init__(self, known: PartitionLeaders, topic: str) -> None:
        self._known = known
        self._topic = topic
        self._learning = asyncio.Lock()
        self._learned = 0.0

    async def of(self, partition: TopicPartition, *, anew: bool) -> Broker:
        """The leader. Raises ClusterError if there is none for now."""
        if anew or self._known.leader(partition) is None:
            async with self._learning:
                now = asyncio.get_running_loop().time()
                if now - self._learned > LEARN_SECONDS:
                    await self._known.learn([self._topic])
                    self._learned = asyncio.get_running_loop().time()
        leader = self._known.leader(partition)
        if leader is None:
            raise ClusterError(f"{partition} has no leader", ErrorCode.LEADER_NOT_AVAILABLE)
        return leader


class _Way:
    """A connection to the leader, opened anew after an error."""

    def __init__(self, access: ClusterAccess, leaders: Leaders, partition: TopicPartition) -> None:
        self._access = access
        self._leaders = leaders
        self._partition = partition
        self._connection: NodeConnection | None = None
        self._anew = False
        self.leader: Broker | None = None

    async def ask(self, key: ApiKey, newest: int, request: Any, seconds: float) -> Any:
        """The leader's answer. Raises ClusterError with the reason where there is none in time."""
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connected()
                version = min(newest, connection.versions.get(key, (0, newest))[1])
                return await connection.ask(key, version, request)
        except TimeoutError:
            self.hang_up()
            raise ClusterError(f"no answer in {seconds:.0f} seconds") from None
        except NodeRefusesUser as problem:
            self.hang_up()
            raise ClusterError(
                f"the user is refused: {problem}", ErrorCode.SASL_AUTHENTICATION_FAILED
            ) from None
        except (ConnectionLost, OSError, ProtocolError) as problem:
            self.hang_up()
            raise ClusterError(connect_problem(problem)) from None
        except ClusterError:
            self.hang_up()
            raise

    def hang_up(self) -> None:
        """Close the connection; the next request asks for the leader."""
        if self._connection is not None:
            self._connection.hang_up()
        self._connection, self._anew = None, True

    async def _connected(self) -> NodeConnection:
        if self._connection is None or not self._connection.open:
            self.leader = await self._leaders.of(self._partition, anew=self._anew)
            address = Address(self.leader.host, self.leader.port)
            self._connection = await NodeConnection.to(address, self._access.connection())
            self._anew = False
        return self._connection


class Path:
    """A partition's writer and reader. run: the id of this run; the records of others are passed over."""

    def __init__(
        self,
        access: ClusterAccess,
        leaders: Leaders,
        partition: TopicPartition,
        figures: PartitionFigures,
        run: bytes,
        on_clock: Callable[[ClockReading], None],
    ) -> None:
        self.figures = figures
        self.reading = asyncio.Event()
        """Set when the reader has its place, before which nothing is written."""
        self._partition = partition
        self._run = run
        self._on_clock = on_clock
        self._writing = _Way(access, leaders, partition)
        self._fetching = _Way(access, leaders, partition)
        self._position = -1
        self._start = LATEST

    def begin_blind(self) -> None:
        """Write although nothing can be read yet: that it can't be is to be seen. The reader comes later."""
        if not self.reading.is_set():
            self._start = EARLIEST
            self.reading.set()

    def close(self) -> None:
        """Hang up."""
        self._writing.hang_up()
        self._fetching.hang_up()

    async def write(self, interval_seconds: float, timeout_seconds: float) -> None:
        """Write a record every interval, until cancelled."""
        loop = asyncio.get_running_loop()
        await self.reading.wait()
        number = 0
        due = loop.time()
        while True:
            await self._try(number, timeout_seconds)
            number += 1
            due = max(due + interval_seconds, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _try(self, number: int, timeout_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        sent, sent_ms = loop.time(), time.time_ns() / 1_000_000
        record = NewRecord(self._run, str(number).encode(), round(sent_ms))
        data = PartitionProduceData(index=self._partition.partition, records=encode_batch([record]))
        request = ProduceRequest(
            acks=-1,
            timeout_ms=round(timeout_seconds * 1_000),
            topic_data=[TopicProduceData(name=self._partition.topic, partition_data=[data])],
        )
        try:
            answer = await self._writing.ask(ApiKey.PRODUCE, NEWEST_PRODUCE, request, timeout_seconds)
            (told,) = answer.responses[0].partition_responses
            if told.error_code:
                self._writing.hang_up()
                raise ClusterError(ErrorCode(told.error_code).message, told.error_code)
        except ClusterError as problem:
            self.figures.failed(sent, str(problem))
            return
        now = loop.time()
        self.figures.acknowledged(number, told.base_offset, sent, now)
        leader = self._writing.leader
        if told.log_append_time_ms > 0 and leader is not None:
            half_ms = (now - sent) * 500
            skew_ms = told.log_append_time_ms - (sent_ms + half_ms)
            self._on_clock(ClockReading(f"broker {leader.node_id}", skew_ms, half_ms))

    async def read(self, timeout_seconds: float) -> None:
        """Read from the end of the partition on, until cancelled."""
        while True:
            try:
                if self._position < 0:
                    start = self._start
                    position = await self._end(timeout_seconds, start)
                    if start != self._start:
                        continue  # records are being written meanwhile
                    self._position = position
                    self.reading.set()
                await self._fetch(timeout_seconds)
            except ClusterError as problem:
                if problem.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    # Cut by a new leader, or purged: acknowledged records that are gone count as lost.
                    with contextlib.suppress(ClusterError):
                        self._position = await self._end(timeout_seconds)
                self._fetching.hang_up()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _end(self, timeout_seconds: float, which: int = LATEST) -> int:
        """The partition's end, or its start for EARLIEST."""
        place = ListOffsetsPartition(partition_index=self._partition.partition, timestamp=which)
        topic = ListOffsetsTopic(name=self._partition.topic, partitions=[place])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self._fetching.ask(ApiKey.LIST_OFFSETS, 6, request, timeout_seconds)
        (told,) = answer.topics[0].partitions
        if told.error_code:
            raise ClusterError(ErrorCode(told.error_code).message, told.error_code)
        return int(told.offset)

    async def _fetch(self, timeout_seconds: float) -> None:
        place = FetchPartition(
            partition=self._partition.partition,
            fetch_offset=self._position,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            session_epoch=-1,
            topics=[FetchTopic(topic=self._partition.topic, partitions=[place])],
        )
        seconds = timeout_seconds + FETCH_WAIT_MS / 1_000
        answer = await self._fetching.ask(ApiKey.FETCH, NEWEST_FETCH, request, seconds)
        if answer.error_code:
            raise ClusterError(ErrorCode(answer.error_code).message, answer.error_code)
        (told,) = answer.responses[0].partitions
        if told.error_code:
            raise ClusterError(ErrorCode(told.error_code).message, told.error_code)
        now = asyncio.get_running_loop().time()
        try:
            self._take(bytes(told.records or b""), now)
        except CorruptBatch as problem:
            raise ClusterError(f"a batch that can't be read: {problem}") from None

    def _take(self, records: bytes, now: float) -> None:
        for start, header in iterate_headers(records):
            for record in decode_records(records, start):
                if record.offset >= self._position and record.key == self._run and record.value is not None:
                    self.figures.read(int(record.value), record.offset, now)
            self._position = max(self._position, header.next_offset)
        self.figures.passed(self._position)
