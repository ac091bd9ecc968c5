"""The session of a client that is to wait for a while: every answer says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.broker import Broker
from ottla.broker.handlers.table import broker_table
from ottla.broker.network.context import Session
from ottla.broker.network.dispatch import Dispatcher
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_groups_request import ListGroupsRequest
from ottla.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.schema import Message
from support.nodes.in_process import create_topic, running_broker

THROTTLE_MS = 1234


class OneClient:
    """A connection that stands for its session."""

    def __init__(self) -> None:
        self.session = Session("127.0.0.1", "PLAINTEXT", "User:alice")


def produce() -> ProduceRequest:
    records = encode_batch([NewRecord(b"k", b"v", 0)])
    data = [PartitionProduceData(index=index, records=records) for index in (0, 1)]
    return ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )


def produce_one() -> ProduceRequest:
    request = produce()
    del request.topic_data[0].partition_data[1]
    return request


def fetch() -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=[wanted])])


async def ask(broker: Broker, throttle_ms: int, key: ApiKey, version: int, request: Message) -> Message:
    dispatcher, client = Dispatcher(broker, broker_table()), OneClient()
    client.session.throttle_ms = throttle_ms
    reply = dispatcher(client, memoryview(bytearray(encode_request(key, version, 1, "c", request))))
    if asyncio.iscoroutine(reply) or asyncio.isfuture(reply):
        reply = await reply
    assert reply is not None
    return decode_response(key, version, b"".join(bytes(part) for part in reply)[4:])[1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "version", "request_"),
    [
        (ApiKey.PRODUCE, 9, produce()),
        (ApiKey.PRODUCE, 12, produce_one()),
        (ApiKey.FETCH, 12, fetch()),
        (ApiKey.LIST_GROUPS, 4, ListGroupsRequest()),
    ],
)
def test_an_answer_says_how_long_to_wait(
    tmp_path: Path, key: ApiKey, version: int, request_: Message
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await create_topic(broker, "t", 2)
            answer = await ask(broker, THROTTLE_MS, key, version, request_)
            assert answer.throttle_time_ms == THROTTLE_MS  # type: ignore[attr-defined]
            assert (await ask(broker, 0, key, version, request_)).throttle_time_ms == 0  # type: ignore[attr-defined]

    asyncio.run(scenario())
