"""Fetches the batches of partitions from their leaders without an end, whatever becomes of the source.

Theory of operation. Every leader has one task, which asks for all of its partitions, hands the batches over
and asks again while the caller works on them; what waits for the caller is bounded in bytes. A partition
whose leader has moved, or is away, goes back to the supervisor, which looks for its leader until there is
one. Topics are asked for by their ids, so a topic that was made again under its name is never taken for the
old one; with the epoch of the last batch, the leader says where its log parts from what was read. Every such
break comes from `next` between the parts before and behind it, and reading goes on. `next` raises what can't
pass: a refused user, a batch that is damaged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.client.access import Address, ClusterAccess
from ottla.client.admin.partition_offsets import EARLIEST, LATEST
from ottla.client.cluster_requests import Broker, ClusterRequests, TopicPartition, refusal
from ottla.client.connection import ConnectionLost, NodeConnection, NodeRefusesUser
from ottla.client.errors import ClusterError
from ottla.client.records.offset_lookup import offsets_at
from ottla.mirror.core.gaps import Break, Loss, out_of_range
from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.byte_budget import Budget
from ottla.protocol.errors import ErrorCode, ProtocolError
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse, PartitionData
from ottla.protocol.record_batch import BatchHeader, iterate_headers
from ottla.protocol.schema import Buffer

IDS_FROM_VERSION: Final = 13
FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 1.0
MARGIN_SECONDS: Final = 10.0
"""For an answer to come, beyond the time that the broker may wait."""
NO_ID: Final = uuid.UUID(int=0)
_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
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

_log = logging.getLogger("ottla.mirror")


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How to fetch. bytes_per_second: 0 for no limit. from_latest: where a new partition begins."""

    committed: bool = True
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 4 << 20
    partition_max_bytes: int = 1 << 20
    waiting_bytes: int = 8 << 20
    bytes_per_second: int = 0
    from_latest: bool = False


class FetchedPart(NamedTuple):
    """Batches of one partition, whole and in order; the first may begin before `start`.

    batches: position in `data` and header of each. aborted: (first offset, producer id) of the aborted
    transactions among them. next_offset: the partition's position after these batches.
    """

    partition: TopicPartition
    topic_id: uuid.UUID
    data: Buffer
    batches: list[tuple[int, BatchHeader]]
    aborted: list[tuple[int, int]]
    start: int
    next_offset: int


@dataclass(slots=True)
class Place:
    """Where a partition is read. position: None until a new partition's beginning was looked up.

    topic_id: NO_ID while it is not known. epoch: the leader's, of the last batch that was read.
    """

    partition: TopicPartition
    position: int | None
    topic_id: uuid.UUID = NO_ID
    epoch: int = -1
    high_watermark: int = -1
    stable_end: int = -1
    is_new: bool = False


class Fetcher:
    """Reads partitions from their places on. `places` shows where, and the ends that leaders have told."""

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        places: Mapping[TopicPartition, Place],
        settings: FetchSettings,
    ) -> None:
        self.places: Final = dict(places)
        self._cluster = cluster
        self._access = access
        self._settings = settings
        self._unplaced = list(self.places.values())
        self._of_node: dict[int, list[Place]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._parts: deque[FetchedPart | Break] = deque()
        self._waiting_bytes = 0
        self._failure: Exception | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._budget = Budget(settings.bytes_per_second)
        self._loop = asyncio.get_running_loop()
        self._missing: set[str] = set()
        self._supervisor = asyncio.get_running_loop().create_task(self._supervised())

    async def next(self, seconds: float) -> FetchedPart | Break | None:
        """The next part or break; None if there is none within so many seconds.

        Raises ClusterError, ProtocolError.
        """
        if not self._parts:
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)
            if not self._parts:
                if self._failure is not None:
                    raise self._failure
                return None
        part = self._parts.popleft()
        if isinstance(part, FetchedPart):
            self._waiting_bytes -= len(part.data)
            self._room.set()
        return part

    @property
    def has_parts(self) -> bool:
        """Whether `next` gives a part without waiting."""
        return bool(self._parts)

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
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # the caller has to learn of a fault of ours too
            self._fail(problem)

    async def _place_all(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            if not self._unplaced:
                pause = FIRST_PAUSE_SECONDS
                await self._wake.wait()
                self._wake.clear()
                continue
            try:
                await self._place()
            except ClusterError as problem:
                if problem.code in (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_VERSION):
                    raise
                _log.warning("the source can't be asked for its leaders now: %s", problem)
            if not self._unplaced:
                continue
            # partitions that come back meanwhile wait as long: their leader is just what is looked for
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _place(self) -> None:
        """Give the partitions that have a leader to its task."""
        asked, self._unplaced = self._unplaced, []
        left = list(asked)
        try:
            topics = await self._cluster.topics(dict.fromkeys(one.partition.topic for one in asked))
            brokers = (await self._cluster.cluster()).brokers
            leaders: dict[TopicPartition, int] = {}
            ids: dict[str, uuid.UUID] = {}
            for topic in topics:
                name = topic.name or ""
                self._tell_missing(name, ErrorCode(topic.error_code))
                if not topic.error_code:
                    ids[name] = topic.topic_id
                    for one in topic.partitions:
                        leaders[TopicPartition(name, one.partition_index)] = one.leader_id
            for place in asked:
                broker = brokers.get(leaders.get(place.partition, -1))
                if broker is None:
                    continue
                self._recognize(place, ids[place.partition.topic])
                if place.position is None:
                    await self._begin(place)
                left.remove(place)
                self._hand_to(broker, place)
        finally:
            self._unplaced += left

    def _tell_missing(self, topic: str, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self._missing.discard(topic)
        elif topic not in self._missing:
            self._missing.add(topic)
            _log.warning("topic %s of the source can't be read now: %s", topic, code.message)

    def _recognize(self, place: Place, topic_id: uuid.UUID) -> None:
        """Take the id that the topic has now; another one than before is another topic."""
        if topic_id not in (NO_ID, place.topic_id):
            if place.topic_id != NO_ID and place.position is not None:
                self._told(Break(place.partition, Loss.MADE_AGAIN, 0, place.position - 1, 0))
                place.position, place.epoch, place.is_new = 0, -1, True
                place.high_watermark = place.stable_end = -1
            place.topic_id = topic_id

    async def _begin(self, place: Place) -> None:
        when = LATEST if self._settings.from_latest else EARLIEST
        found = await offsets_at(
            self._cluster, [place.partition], when, read_committed=self._settings.committed
        )
        place.position = max(found[place.partition], 0)

    def _hand_to(self, broker: Broker, place: Place) -> None:
        self._of_node.setdefault(broker.node_id, []).append(place)
        task = self._tasks.get(broker.node_id)
        if task is None or task.done():
            self._tasks[broker.node_id] = asyncio.get_running_loop().create_task(self._node(broker))

    def _give_back(self, node_id: int, places: list[Place]) -> None:
        mine = self._of_node.get(node_id, [])
        for one in places:
            if one in mine:
                mine.remove(one)
                self._unplaced.append(one)
        self._wake.set()

    def _told(self, found: Break) -> None:
        self._parts.append(found)
        self._news.set()

    def _fail(self, problem: Exception) -> None:
        self._failure = self._failure or problem
        self._news.set()

    # -- one leader ------------------------------------------------------------------------------------------

    async def _node(self, broker: Broker) -> None:
        """Fetch from one broker until it has none of the partitions any more, or goes away."""
        connection: NodeConnection | None = None
        try:
            async with asyncio.timeout(self._cluster.timeout_seconds):
                connection = await NodeConnection.to(
                    Address(broker.host, broker.port), self._access.connection()
                )
            while self._of_node.get(broker.node_id):
                while self._waiting_bytes > self._settings.waiting_bytes:
                    self._room.clear()
                    await self._room.wait()
                await asyncio.sleep(self._budget.wait_seconds(self._loop.time()))
                await self._fetch(connection, broker.node_id)
        except (ConnectionLost, OSError, TimeoutError) as problem:
            _log.warning("the source's %s is gone: %s", broker, str(problem) or "no answer in time")
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
        except NodeRefusesUser as problem:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            self._fail(ClusterError(f"the source's {broker} refuses the user: {problem}", code))
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # the caller has to learn of a fault of ours too
            self._fail(problem)
        finally:
            if connection is not None:
                connection.hang_up()
            self._tasks.pop(broker.node_id, None)
            self._give_back(broker.node_id, list(self._of_node.get(broker.node_id, [])))

    async def _fetch(self, connection: NodeConnection, node_id: int) -> None:
        """One request and its answer."""
        settings = self._settings
        mine = self._of_node[node_id]
        newest = APIS[ApiKey.FETCH].latest_stable_version
        version = min(connection.versions.get(ApiKey.FETCH, (0, 0))[1], newest)
        if version >= IDS_FROM_VERSION and any(one.topic_id == NO_ID for one in mine):
            version = IDS_FROM_VERSION - 1
        by_id = version >= IDS_FROM_VERSION
        request = self._request(mine, with_epochs=version >= 12)
        asked = {
            (one.topic_id if by_id else one.partition.topic, one.partition.partition): one for one in mine
        }
        async with asyncio.timeout(settings.max_wait_ms / 1_000 + MARGIN_SECONDS):
            response: FetchResponse = await connection.ask(ApiKey.FETCH, version, request)
        if response.error_code:
            raise ConnectionLost(str(refusal(response.error_code, None, f"fetch from broker {node_id}")))
        moved: list[Place] = []
        for topic in response.responses:
            for data in topic.partitions:
                place = asked.get((topic.topic_id if by_id else topic.topic, data.partition_index))
                if place is not None and not await self._take(place, data):
                    moved.append(place)
        if moved:
            self._give_back(node_id, moved)

    def _request(self, mine: list[Place], *, with_epochs: bool) -> FetchRequest:
        settings = self._settings
        topics: dict[str, FetchTopic] = {}
        for one in mine:
            name, index = one.partition
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchTopic(topic=name, topic_id=one.topic_id, partitions=[])
            assert one.position is not None
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    fetch_offset=one.position,
                    last_fetched_epoch=one.epoch if with_epochs else -1,
                    partition_max_bytes=settings.partition_max_bytes,
                )
            )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=self._budget.most_bytes(settings.max_bytes),
            isolation_level=int(settings.committed),
            session_epoch=-1,
            topics=list(topics.values()),
        )

    async def _take(self, place: Place, data: PartitionData) -> bool:
        """Take an answer about a partition; False if another node has to be asked."""
        code = ErrorCode(data.error_code)
        assert place.position is not None
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return await self._find_position(place)
        if code in _MOVED:
            return False
        if code is not ErrorCode.NONE:
            raise refusal(code, None, f"the source's partition {place.partition}")
        place.high_watermark, place.stable_end = data.high_watermark, data.last_stable_offset
        if data.diverging_epoch.epoch >= 0:
            end = min(data.diverging_epoch.end_offset, place.position)
            self._told(Break(place.partition, Loss.TRUNCATED, end, place.position - 1, end))
            place.position, place.epoch = end, -1
        elif data.records:
            self._hand_over(place, data, data.records)
        return True

    def _hand_over(self, place: Place, data: PartitionData, records: Buffer) -> None:
        assert place.position is not None
        start = place.position
        batches = [each for each in iterate_headers(records) if each[1].next_offset > start]
        if not batches:
            raise ProtocolError(f"{place.partition}: less than one batch is sent at offset {start}")
        last = batches[-1][1]
        place.position, place.epoch, place.is_new = last.next_offset, last.partition_leader_epoch, False
        mine = self._of_node_of(place)
        mine.remove(place)
        mine.append(place)  # the others are asked for first: an answer may be full before it comes to them
        aborted = [(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()]
        self._parts.append(
            FetchedPart(place.partition, place.topic_id, records, batches, aborted, start, last.next_offset)
        )
        self._waiting_bytes += len(records)
        self._budget.spend(len(records), self._loop.time())
        self._news.set()

    def _of_node_of(self, place: Place) -> list[Place]:
        return next(mine for mine in self._of_node.values() if place in mine)

    async def _find_position(self, place: Place) -> bool:
        """Go on where the log has records, and tell what is missing."""
        assert place.position is not None
        partition = place.partition
        try:
            first = (await offsets_at(self._cluster, [partition], EARLIEST))[partition]
            last = (await offsets_at(self._cluster, [partition], LATEST))[partition]
        except ClusterError as problem:
            _log.warning("the bounds of %s can't be looked up now: %s", partition, problem)
            return False
        found = out_of_range(partition, place.position, first, last)
        place.epoch = -1
        if found is not None:
            if not (place.is_new and found.loss is Loss.OVERTAKEN):
                self._told(found)
            place.position = found.goes_on
        return True
