"""Batches with a right CRC whose records are nonsense or bombs: the broker survives looking into them later.

A topic that asks for nothing takes what a producer has sealed. Later somebody looks inside all the same: a
search by timestamp, the cleaner once the topic is compacted, a broker that starts again.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.protocol import record_queries
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec, compress
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.clients.wire import produce_request
from support.nodes.in_process import RawClient, connect, with_client
from support.protocol.batches import with_payload

TOPIC = "hostile"
NOW_MS = 1_700_000_000_000
MAX_TIMESTAMP = -3
WAIT_S = 20
SOUND = encode_batch([NewRecord(b"k", b"v", NOW_MS)])
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.cleaner.min.cleanable.ratio": "0"}


def packed(codec: Codec, payload: bytes) -> bytes:
    return with_payload(encode_batch([NewRecord(b"k", b"v", NOW_MS)], codec=codec), payload)


HOSTILE = {
    "nonsense": with_payload(SOUND, b"\xff" * 40),
    "a record that is cut": with_payload(SOUND, b"\x7e\x00\x00\x00\x00\x00\x00"),
    "nonsense, said to be gzip": packed(Codec.GZIP, b"\xff" * 40),
    "a bomb of gzip": packed(Codec.GZIP, compress(Codec.GZIP, bytes(200 << 20))),
    "a bomb of zstd": packed(Codec.ZSTD, compress(Codec.ZSTD, bytes(200 << 20))),
    "a bomb of lz4": packed(Codec.LZ4, compress(Codec.LZ4, bytes(200 << 20))),
    "zeros": packed(Codec.ZSTD, compress(Codec.ZSTD, bytes(1 << 20))),
}


async def produce(client: RawClient, batch: bytes) -> None:
    answer: Any = await client.call(ApiKey.PRODUCE, 11, produce_request(TOPIC, 0, batch))
    assert answer.responses[0].partition_responses[0].error_code == 0


async def offset_at(client: RawClient, timestamp_ms: int) -> tuple[int, int]:
    """(error code, offset) of a search by timestamp."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[wanted])
    answer: Any = await client.call(ApiKey.LIST_OFFSETS, 9, ListOffsetsRequest(topics=[topic]))
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_search_by_timestamp_finds_an_unreadable_batch(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(_: Broker, client: RawClient) -> None:
        # given
        await produce(client, SOUND)
        await produce(client, HOSTILE[kind])
        # then
        assert await offset_at(client, NOW_MS) == (0, 0)
        assert await offset_at(client, NOW_MS + 1) == (0, -1)
        assert await offset_at(client, MAX_TIMESTAMP) == (0, 0)

    async def again(_: Broker, client: RawClient) -> None:
        await produce(client, SOUND)
        assert await offset_at(client, NOW_MS) == (0, 0)

    with_client(tmp_path, story, SETTINGS, [TOPIC])
    with_client(tmp_path, again, SETTINGS)
    assert not [each for each in caplog.records if each.exc_info]


def test_an_unreadable_batch_counts_as_its_first_offset(tmp_path: Path) -> None:
    async def story(_: Broker, client: RawClient) -> None:
        await produce(client, HOSTILE["nonsense"])
        assert await offset_at(client, NOW_MS) == (0, 0)
        assert await offset_at(client, MAX_TIMESTAMP) == (0, 0)

    with_client(tmp_path, story, SETTINGS, [TOPIC])


def test_others_are_served_while_a_search_looks_into_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a search that takes as long as the test wants
    begun, may_end = threading.Event(), threading.Event()
    find = record_queries.find_offset_by_timestamp

    def slow(*args: Any, **options: Any) -> tuple[int, int] | None:
        begun.set()
        assert may_end.wait(WAIT_S)
        return find(*args, **options)

    monkeypatch.setattr(record_queries, "find_offset_by_timestamp", slow)

    async def story(broker: Broker, client: RawClient) -> None:
        await produce(client, SOUND)
        other = await connect(broker)
        # when
        search = asyncio.ensure_future(offset_at(client, NOW_MS))
        assert await asyncio.to_thread(begun.wait, WAIT_S)
        # then
        answer: Any = await other.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert answer.brokers
        may_end.set()
        assert await search == (0, 0)
        other.close()

    with_client(tmp_path, story, SETTINGS, [TOPIC])


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_cleaner_leaves_a_log_alone_that_it_cannot_read(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: Broker, client: RawClient) -> None:
        # given
        await produce(client, HOSTILE[kind])
        for _ in range(3):
            await produce(client, SOUND)
        partition = broker.partitions.partition(TOPIC, 0)
        partition.log.roll(broker.now_ms())
        # when
        resource = AlterConfigsResource(
            resource_type=2,
            resource_name=TOPIC,
            configs=[AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")],
        )
        await client.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource])
        )
        cleaner = broker.replication.cleaner
        async with asyncio.timeout(WAIT_S):
            while not (cleaner.uncleanable or cleaner.cleanings):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        # then
        assert await offset_at(client, NOW_MS) == (0, 0)

    with_client(tmp_path, story, SETTINGS, [TOPIC])
    assert not [each for each in caplog.records if each.exc_info]
