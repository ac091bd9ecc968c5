"""The reader of partitions beside a scripted leader: exact ends, moved leaders, bounds, lost positions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import Broker, Cluster, ClusterRequests, TopicPartition
from ottla.client.connection import ConnectionLost, NodeConnection
from ottla.client.errors import ClusterError
from ottla.client.records.reader import FetchedPart, ReadSettings, RecordReader, Span
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchRequest
from ottla.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.record_batch import NewRecord, encode_batch

PLACE = TopicPartition("t", 0)
ACCESS = ClusterAccess("127.0.0.1:1")


def batch(first: int, count: int, size: int = 1) -> bytes:
    return encode_batch([NewRecord(None, b"v" * size, 1)] * count, base_offset=first)


def answer(records: bytes = b"", code: int = 0, end: int = 10) -> FetchResponse:
    data = PartitionData(
        partition_index=0,
        error_code=code,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=[],
        records=records,
    )
    return FetchResponse(session_id=0, responses=[FetchableTopicResponse(topic="t", partitions=[data])])


class Leader:
    """A cluster of one broker; `fetches` gives the answer to each position that is asked for, or an error."""

    def __init__(self, fetches: Callable[[int], FetchResponse | Exception]) -> None:
        self.fetches = fetches
        self.positions: list[int] = []
        self.connected = 0
        self.versions = {int(ApiKey.FETCH): (4, 12)}
        self.timeout_seconds = 5.0
        self.timeout_ms = 5_000
        self.log_start = 0

    async def topics(self, names: Any) -> list[MetadataResponseTopic]:
        partition = MetadataResponsePartition(error_code=0, partition_index=0, leader_id=1)
        return [MetadataResponseTopic(error_code=0, name="t", partitions=[partition])]

    async def cluster(self) -> Cluster:
        return Cluster("c", 1, {1: Broker(1, "127.0.0.1", 1)})

    async def ask_leaders(
        self, partitions: Any, request: Any, answer: Any, parts: Any, seconds: float | None = None
    ) -> Any:
        timestamp = request(partitions).topics[0].partitions[0].timestamp
        found = ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, offset=self.log_start if timestamp == -2 else 10
        )
        response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])
        return {place: value for place, _, value in parts(response)}

    async def ask(self, key: int, version: int, request: FetchRequest) -> FetchResponse:
        await asyncio.sleep(0)
        self.positions.append(request.topics[0].partitions[0].fetch_offset)
        found = self.fetches(self.positions[-1])
        if isinstance(found, Exception):
            raise found
        return found

    def hang_up(self) -> None:
        pass


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[FetchedPart]]:
    """Reads a span from a scripted leader, to its end."""

    def reading(leader: Leader, span: Span, settings: ReadSettings | None = None) -> list[FetchedPart]:
        async def to(address: object, access: object) -> Leader:
            leader.connected += 1
            return leader

        monkeypatch.setattr(NodeConnection, "to", to)

        async def run() -> list[FetchedPart]:
            cluster: ClusterRequests = leader  # type: ignore[assignment]
            reader = RecordReader(cluster, ACCESS, {PLACE: span}, settings)
            found = []
            try:
                async with asyncio.timeout(10):
                    while (part := await reader.next()) is not None:
                        found.append(part)
                    return found
            finally:
                await reader.close()

        return asyncio.run(run())

    return reading


def test_batches_come_in_order_up_to_the_end(read: Callable[..., list[FetchedPart]]) -> None:
    leader = Leader(lambda position: answer(batch(position // 4 * 4, 4)))
    parts = read(leader, Span(2, 10))
    assert [part.next_offset for part in parts] == [4, 8, 12]
    assert leader.positions == [2, 4, 8]


def test_an_end_in_a_hole_that_compaction_left_is_reached(read: Callable[..., list[FetchedPart]]) -> None:
    """The last record is at offset 4, the end at 10: nothing ever comes from 5 on."""
    leader = Leader(lambda position: answer(batch(4, 1)) if position < 5 else answer())
    parts = read(leader, Span(0, 10))
    assert [part.next_offset for part in parts] == [5]
    assert leader.positions == [0, 5, 5]


def test_an_end_that_is_not_there_yet_is_waited_for(read: Callable[..., list[FetchedPart]]) -> None:
    asked = 0

    def fetches(position: int) -> FetchResponse:
        nonlocal asked
        asked += 1
        return answer(end=5) if asked < 20 else answer(batch(5, 5), end=10)

    assert [part.next_offset for part in read(Leader(fetches), Span(5, 10))] == [10]


def test_a_moved_leader_and_a_lost_connection_lose_nothing(read: Callable[..., list[FetchedPart]]) -> None:
    script: list[FetchResponse | Exception] = [
        answer(batch(0, 3)),
        answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ConnectionLost("gone"),
        answer(batch(3, 3)),
        answer(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        answer(batch(6, 4)),
    ]
    leader = Leader(lambda _: script.pop(0))
    parts = read(leader, Span(0, 10))
    assert [(part.start, part.next_offset) for part in parts] == [(0, 3), (3, 6), (6, 10)]
    assert leader.connected >= 3


def test_a_position_that_is_not_in_the_log_any_more_is_told(read: Callable[..., list[FetchedPart]]) -> None:
    skips: list[tuple[TopicPartition, int, int]] = []

    def fetches(position: int) -> FetchResponse:
        return answer(code=ErrorCode.OFFSET_OUT_OF_RANGE) if position < 6 else answer(batch(6, 4))

    leader = Leader(fetches)
    leader.log_start = 6
    settings = ReadSettings(on_skip=lambda *skip: skips.append(skip))
    assert [part.start for part in read(leader, Span(0, 10), settings)] == [6]
    assert skips == [(PLACE, 0, 6)]


def test_a_refusal_ends_the_reading(read: Callable[..., list[FetchedPart]]) -> None:
    leader = Leader(lambda _: answer(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ClusterError, match=r"t-0: .*TOPIC_AUTHORIZATION_FAILED"):
        read(leader, Span(0, 10))


def test_a_slow_caller_stops_the_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(lambda position: answer(batch(position, 1, 1_000), end=1_000))

    async def to(address: object, access: object) -> Leader:
        return leader

    monkeypatch.setattr(NodeConnection, "to", to)

    async def run() -> None:
        cluster: ClusterRequests = leader  # type: ignore[assignment]
        reader = RecordReader(cluster, ACCESS, {PLACE: Span(0)}, ReadSettings(waiting_bytes=5_000))
        try:
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(leader.positions) <= 6
            before = len(leader.positions)
            for _ in range(before):
                await reader.next()
            for _ in range(200):
                await asyncio.sleep(0)
            assert before < len(leader.positions) <= 2 * before + 1
        finally:
            await reader.close()

    asyncio.run(run())
