"""Fetches within a session: what an answer leaves out, who is woken, what those who wait together share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.broker import Broker
from ottla.broker.network import server
from ottla.broker.network.answer_memory import AnswerMemory
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.storage.log import LogSlice
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

VERSION = 17
LONG_MS = 60_000


def run(data: Path, scenario: Callable[[Broker, UUID], Awaitable[None]], partitions: int = 1) -> None:
    async def play() -> None:
        async with running_broker(data) as broker:
            await create_topic(broker, "orders", partitions)
            await scenario(broker, broker.image.topics["orders"].topic_id)

    asyncio.run(play())


async def produce(broker: Broker, topic_id: UUID, value: bytes, index: int = 0) -> None:
    client = await connect(broker)
    records = encode_batch([NewRecord(None, value, 1_000)])
    data = TopicProduceData(
        topic_id=topic_id, partition_data=[PartitionProduceData(index=index, records=records)]
    )
    await client.call(ApiKey.PRODUCE, 13, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[data]))
    client.close()


class Consumer:
    """One connection with a fetch session."""

    def __init__(self, client: RawClient, topic_id: UUID) -> None:
        self._client = client
        self._topic_id = topic_id
        self._session_id = self._session_epoch = 0

    async def fetch(
        self, offsets: dict[int, int], *, max_wait_ms: int = 0, min_bytes: int = 1
    ) -> dict[int, Any]:
        """The answer's partitions by index; `offsets` are those that the request names."""
        named = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_000_000)
            for index, offset in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1_000_000,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=named)] if named else [],
        )
        answer: Any = await self._client.call(ApiKey.FETCH, VERSION, request)
        assert answer.error_code == 0
        self._session_id = answer.session_id
        self._session_epoch += 1
        return {each.partition_index: each for topic in answer.responses for each in topic.partitions}


async def consumer(broker: Broker, topic_id: UUID, offsets: dict[int, int]) -> Consumer:
    """One that has begun a session and was told of its partitions."""
    made = Consumer(await connect(broker), topic_id)
    assert set(await made.fetch(offsets)) == set(offsets)
    return made


async def until_waiting(broker: Broker, count: int, index: int = 0) -> None:
    async with asyncio.timeout(10):
        while broker.partitions.partition("orders", index).waiter_count < count:  # noqa: ASYNC110  no event
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_session_hears_of_what_has_changed_and_of_nothing_else(tmp_path: Path, partitions: int) -> None:
    async def scenario(broker: Broker, topic_id: UUID) -> None:
        # given
        reader = await consumer(broker, topic_id, dict.fromkeys(range(partitions), 0))
        assert await reader.fetch({}) == {}
        # when
        await produce(broker, topic_id, b"a")
        # then
        first = await reader.fetch({})
        assert (set(first), first[0].high_watermark) == ({0}, 1)
        assert bytes(first[0].records)
        assert await reader.fetch({0: 1}) == {}
        # when the log's start moves, and no record comes
        client = await connect(broker)
        delete = DeleteRecordsPartition(partition_index=0, offset=1)
        topic = DeleteRecordsTopic(name="orders", partitions=[delete])
        await client.call(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[topic], timeout_ms=LONG_MS))
        # then
        moved = await reader.fetch({})
        assert (set(moved), moved[0].log_start_offset, bytes(moved[0].records)) == ({0}, 1, b"")
        assert await reader.fetch({}) == {}

    run(tmp_path, scenario, partitions)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_fetch_that_wants_more_waits_on(tmp_path: Path, partitions: int) -> None:
    async def scenario(broker: Broker, topic_id: UUID) -> None:
        # given a batch of this size, and a fetch that wants two of them
        size = len(encode_batch([NewRecord(None, b"a", 1_000)]))
        reader = await consumer(broker, topic_id, dict.fromkeys(range(partitions), 0))
        last = partitions - 1
        waiting = asyncio.ensure_future(reader.fetch({}, max_wait_ms=LONG_MS, min_bytes=2 * size))
        await until_waiting(broker, 1, last)
        # when
        await produce(broker, topic_id, b"a")
        assert not waiting.done()
        await produce(broker, topic_id, b"b", last)
        # then
        answer = await waiting
        assert sum(len(each.records) for each in answer.values()) == 2 * size
        assert [broker.partitions.partition("orders", each).waiter_count for each in range(partitions)] == (
            [0] * partitions
        )

    run(tmp_path, scenario, partitions)


def test_who_wait_for_the_same_records_share_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = LogSlice.read

    def counted(piece: LogSlice) -> bytes:
        reads.append(piece.first_batch_offset)
        return read(piece)

    async def scenario(broker: Broker, topic_id: UUID) -> None:
        # given four that have read everything
        readers = [await consumer(broker, topic_id, {0: 0}) for _ in range(4)]
        waiting = [asyncio.ensure_future(each.fetch({}, max_wait_ms=LONG_MS)) for each in readers]
        await until_waiting(broker, 4)
        monkeypatch.setattr(LogSlice, "read", counted)
        # when
        await produce(broker, topic_id, b"first")
        # then
        answers = [bytes(answer[0].records) for answer in await asyncio.gather(*waiting)]
        assert len(answers) == 4
        assert len(set(answers)) == 1
        assert reads == [0]
        # when the next one comes, it is read again
        waiting = [asyncio.ensure_future(each.fetch({0: 1}, max_wait_ms=LONG_MS)) for each in readers]
        await until_waiting(broker, 4)
        await produce(broker, topic_id, b"second")
        later = [bytes(answer[0].records) for answer in await asyncio.gather(*waiting)]
        assert b"second" in later[0]
        assert len(set(later)) == 1
        assert reads == [0, 1]

    run(tmp_path, scenario)


def test_a_fetch_that_waits_for_more_reads_nothing_until_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read = LogSlice.read

    def counted(piece: LogSlice) -> bytes:
        reads.append(piece.size_bytes)
        return read(piece)

    async def scenario(broker: Broker, topic_id: UUID) -> None:
        # given a fetch that wants all of five batches
        size = len(encode_batch([NewRecord(None, b"a", 1_000)]))
        reader = await consumer(broker, topic_id, {0: 0})
        monkeypatch.setattr(LogSlice, "read", counted)
        waiting = asyncio.ensure_future(reader.fetch({}, max_wait_ms=LONG_MS, min_bytes=5 * size))
        await until_waiting(broker, 1)
        # when they come one by one
        for number in range(5):
            assert reads == []
            await produce(broker, topic_id, b"%d" % number)
        # then
        assert len((await waiting)[0].records) == 5 * size
        assert reads == [5 * size]

    run(tmp_path, scenario)


def test_fetches_that_are_answered_together_share_the_room_for_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = 6

    async def scenario(broker: Broker, topic_id: UUID) -> None:
        # given room for one fetch and half of another, and three that wait for the last of some batches
        size = len(encode_batch([NewRecord(None, b"a", 1_000)]))
        readers = [await consumer(broker, topic_id, {0: 0}) for _ in range(3)]
        wanted = batches * size
        waiting = [
            asyncio.ensure_future(each.fetch({}, max_wait_ms=LONG_MS, min_bytes=wanted)) for each in readers
        ]
        await until_waiting(broker, 3)
        for number in range(batches):
            await produce(broker, topic_id, b"%d" % number)
        # then they get all of it, half of it, and no less than a batch
        answers = await asyncio.gather(*waiting)
        sizes = sorted(len(answer[0].records) for answer in answers)
        assert sizes == [size, wanted // 2, wanted]
        # and once these are sent there is room again
        later = await readers[0].fetch({0: 0})
        assert len(later[0].records) == wanted

    size = len(encode_batch([NewRecord(None, b"a", 1_000)]))
    room = batches * size * 3 // 2
    monkeypatch.setattr(server, "AnswerMemory", lambda loop: AnswerMemory(loop, room))
    run(tmp_path, scenario)
