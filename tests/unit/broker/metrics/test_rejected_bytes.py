"""Bytes that are refused because a batch is too large: counted by topic, wherever the batch is checked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.metrics.topics import TopicMetrics
from ottla.metrics.exposition import Exposition
from ottla.protocol.apis import ApiKey
from ottla.protocol.batch_validation import LOOP_RECORDS
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.clients.scrapes import Scrape
from support.nodes.in_process import RawClient, connect, create_topic, running_broker

REJECTED = "kafka_server_brokertopicmetrics_bytesrejected_total"
MOST_BYTES = 2_500


def scrape(broker: Broker) -> Scrape:
    return Scrape.of_text(Exposition([TopicMetrics(broker.replication.partitions).read]).text())


async def produce(client: RawClient, topic: str, *batches: bytes) -> list[ErrorCode]:
    """The error of each batch, which go to partitions of their own."""
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    request = ProduceRequest(
        acks=-1, timeout_ms=5_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    answer: Any = await client.call(ApiKey.PRODUCE, 12, request)
    return [ErrorCode(each.error_code) for each in answer.responses[0].partition_responses]


def records(*sizes: int) -> list[NewRecord]:
    return [NewRecord(b"k", b"v" * size, 1_000) for size in sizes]


def test_batches_that_are_too_large_count_by_topic_and_others_do_not(tmp_path: Path) -> None:
    async def run() -> None:
        drawn = Random(21)
        async with running_broker(tmp_path) as broker:
            most = {"max.message.bytes": str(MOST_BYTES)}
            expected = {"plain": 0, "grows": 0}
            await create_topic(broker, "plain", partitions=8, configs=most)
            await create_topic(
                broker, "grows", partitions=8, configs={**most, "compression.type": "uncompressed"}
            )
            client = await connect(broker)
            for _ in range(30):
                batches = [
                    encode_batch(records(*(drawn.randrange(1_500) for _ in range(drawn.randrange(1, 4)))))
                    for _ in range(drawn.choice((1, 1, 5)))
                ]
                codes = await produce(client, "plain", *batches)
                assert codes == [
                    ErrorCode.MESSAGE_TOO_LARGE if len(each) > MOST_BYTES else ErrorCode.NONE
                    for each in batches
                ]
                expected["plain"] += sum(len(each) for each in batches if len(each) > MOST_BYTES)
            assert expected["plain"] > 0
            # Too large in the topic's codec alone: what was sent counts. The second is checked in a thread.
            small = encode_batch(records(6_000), codec=Codec.LZ4)
            heavy = encode_batch(records(*[1] * (LOOP_RECORDS + 1)), codec=Codec.ZSTD)
            for each in (small, heavy):
                assert len(each) <= MOST_BYTES
                assert await produce(client, "grows", each) == [ErrorCode.MESSAGE_TOO_LARGE]
                expected["grows"] += len(each)
            damaged = bytearray(encode_batch(records(10)))
            damaged[-1] ^= 1
            assert await produce(client, "plain", bytes(damaged)) == [ErrorCode.CORRUPT_MESSAGE]

            found = scrape(broker)
            for topic, size_bytes in expected.items():
                assert found.value(REJECTED, topic=topic) == size_bytes
            assert found.value(REJECTED) == sum(expected.values())

            deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="plain")], timeout_ms=5_000)
            await client.call(ApiKey.DELETE_TOPICS, 6, deleted)
            async with asyncio.timeout(10):
                while (found := scrape(broker)).has(REJECTED, topic="plain"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert found.value(REJECTED) == sum(expected.values()), "the total does not go back"
            client.close()

    asyncio.run(run())
