"""A client at the wrong broker is told the right one: Produce from v10 and Fetch from v16 on (KIP-951)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.core.image.image import BrokerImage, EndpointImage, MetadataDelta
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

OTHER = 9
BATCH = encode_batch([NewRecord(b"k", b"v", 1_000)])


def play(tmp_path: Path, scene: Callable[[Broker, RawClient], Awaitable[None]]) -> None:
    """A broker with the topic t, whose partition 0 has moved to broker 9 in rack r."""

    async def run() -> None:
        async with running_broker(tmp_path) as broker:
            await create_topic(broker, "t", partitions=2)
            image = broker.image
            image.brokers[OTHER] = BrokerImage(
                broker_id=OTHER,
                broker_epoch=1,
                incarnation_id=uuid.UUID(int=9),
                endpoints=(EndpointImage(broker.config.listener.name, "other", 1234),),
                rack="r",
                fenced=False,
            )
            topic = image.topics["t"]
            topic.partitions[0] = topic.partitions[0]._replace(
                replicas=(OTHER,), isr=(OTHER,), leader=OTHER, leader_epoch=5
            )
            broker.roles.on_metadata(MetadataDelta(changed_partitions={(topic.topic_id, 0): None}))
            client = await connect(broker)
            await scene(broker, client)
            client.close()

    asyncio.run(run())


def check(answer: Any, partition: Any, hinted: bool) -> None:
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = (partition.current_leader.leader_id, partition.current_leader.leader_epoch)
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints]
    assert leader == ((OTHER, 5) if hinted else (-1, -1))
    assert endpoints == ([(OTHER, "other", 1234, "r")] if hinted else [])


@pytest.mark.parametrize("version", [9, 10, 12, 13])
@pytest.mark.parametrize("partitions", [[0], [1, 0]], ids=["one", "several"])
def test_produce_names_the_leader(tmp_path: Path, version: int, partitions: list[int]) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        data = [PartitionProduceData(index=index, records=BATCH) for index in partitions]
        topic = TopicProduceData(partition_data=data)
        if version >= 13:
            topic.topic_id = broker.image.topics["t"].topic_id
        else:
            topic.name = "t"
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])
        # when
        answer: Any = await client.call(ApiKey.PRODUCE, version, request)
        # then
        by_index = {each.index: each for each in answer.responses[0].partition_responses}
        check(answer, by_index[0], hinted=version >= 10)
        if 1 in by_index:
            assert by_index[1].error_code == ErrorCode.NONE
            assert by_index[1].current_leader.leader_id == -1

    play(tmp_path, scene)


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_fetch_names_the_leader(tmp_path: Path, version: int) -> None:
    async def scene(broker: Broker, client: RawClient) -> None:
        wanted = FetchTopic(partitions=[FetchPartition(partition=index, fetch_offset=0) for index in (0, 1)])
        if version >= 13:
            wanted.topic_id = broker.image.topics["t"].topic_id
        else:
            wanted.topic = "t"
        # when
        answer: Any = await client.call(ApiKey.FETCH, version, FetchRequest(max_bytes=1_000, topics=[wanted]))
        # then
        moved, here = answer.responses[0].partitions
        check(answer, moved, hinted=version >= 16)
        assert (here.error_code, here.current_leader.leader_id) == (ErrorCode.NONE, -1)

    play(tmp_path, scene)
