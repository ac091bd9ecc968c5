"""Batches with more to look at than the event loop can bear: checked in a thread, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.handlers.records import produce as produce_handler
from ottla.protocol.apis import ApiKey
from ottla.protocol.batch_validation import LOOP_RECORDS
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

LIGHT = encode_batch([NewRecord(b"k", b"v", 1_000)])
HEAVY_RECORDS = LOOP_RECORDS + 1
HEAVY = encode_batch([NewRecord(b"k", b"v", 1_000)] * HEAVY_RECORDS, codec=Codec.LZ4)
HEAVY_AND_WRONG = encode_batch([NewRecord(None, b"v", 1_000)] * HEAVY_RECORDS)


def play(tmp_path: Path, scene: Callable[[Broker, RawClient], Awaitable[None]]) -> None:
    """A broker with the compacted topic t of twenty partitions."""

    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            await create_topic(broker, "t", partitions=20, configs={"cleanup.policy": "compact"})
            client = await connect(broker)
            await scene(broker, client)
            client.close()

    asyncio.run(run())


def request(*batches: tuple[int, bytes], acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in batches]
    return ProduceRequest(
        acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )


async def produce(client: RawClient, *batches: tuple[int, bytes]) -> list[tuple[int, ErrorCode, int]]:
    """(partition, error, base offset) for each batch."""
    answer: Any = await client.call(ApiKey.PRODUCE, 12, request(*batches))
    return [
        (each.index, ErrorCode(each.error_code), each.base_offset)
        for each in answer.responses[0].partition_responses
    ]


def test_one_batch(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        assert await produce(client, (0, HEAVY)) == [(0, ErrorCode.NONE, 0)]
        assert await produce(client, (0, LIGHT)) == [(0, ErrorCode.NONE, HEAVY_RECORDS)]
        assert await produce(client, (0, HEAVY_AND_WRONG)) == [(0, ErrorCode.INVALID_RECORD, -1)]

    play(tmp_path, scene)


def test_several_partitions_keep_the_order_of_the_request(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        found = await produce(client, (0, LIGHT), (1, HEAVY), (2, LIGHT), (3, HEAVY_AND_WRONG), (1, HEAVY))
        assert found == [
            (0, ErrorCode.NONE, 0),
            (1, ErrorCode.NONE, 0),
            (2, ErrorCode.NONE, 0),
            (3, ErrorCode.INVALID_RECORD, -1),
            (1, ErrorCode.NONE, HEAVY_RECORDS),
        ]

    play(tmp_path, scene)


def test_what_comes_meanwhile_on_the_connection_waits_and_spoils_nothing(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        answers = await asyncio.gather(
            *(produce(other, (0, HEAVY), (1, HEAVY)) for other in [await connect(broker) for _ in range(4)])
        )
        offsets = sorted(found[0][2] for found in answers)
        assert offsets == [n * HEAVY_RECORDS for n in range(4)]
        assert broker.partitions.partition("t", 1).log.log_end_offset == 4 * HEAVY_RECORDS

    play(tmp_path, scene)


def test_a_request_of_many_partitions_leaves_turns_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_handler, "SLICE_SECONDS", 0.0)

    async def scene(broker: Broker, client: RawClient) -> None:
        found = await produce(client, *((index, LIGHT) for index in range(20)))
        assert found == [(index, ErrorCode.NONE, 0) for index in range(20)]

    play(tmp_path, scene)


def test_a_heavy_batch_that_fails_without_an_answer_closes_the_connection(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        from ottla.protocol.headers import encode_request

        for batches in ([(0, HEAVY)], [(0, HEAVY), (1, HEAVY_AND_WRONG)]):
            payload = encode_request(ApiKey.PRODUCE, 12, 1, "test", request(*batches, acks=0))
            await client.send(len(payload).to_bytes(4, "big") + payload)
        assert await client.closed_by_broker()
        assert broker.partitions.partition("t", 0).log.log_end_offset == 2 * HEAVY_RECORDS

    play(tmp_path, scene)


def test_the_topic_may_go_while_its_batch_is_checked(tmp_path: Path) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

        asked = asyncio.ensure_future(produce(client, (0, HEAVY)))
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        await broker.controller_channel.ask(delete)
        ((_, error, _),) = await asked
        assert error in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    play(tmp_path, scene)


def test_a_batch_checked_by_the_rules_of_a_topic_that_is_made_again_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compacted topic would take it; the new one, of the same name, must not get it unseen."""

    async def scene(broker: Broker, client: RawClient) -> None:
        check = broker.produced_appends.check_produced

        async def check_and_make_again(*arguments: Any, **options: Any) -> Any:
            checked = await check(*arguments, **options)
            await broker.controller_channel.ask(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            )
            await create_topic(broker, "t", partitions=20)
            return checked

        monkeypatch.setattr(broker.produced_appends, "check_produced", check_and_make_again)

        assert await produce(client, (0, HEAVY)) == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
        assert broker.partitions.partition("t", 0).log.log_end_offset == 0

    play(tmp_path, scene)
