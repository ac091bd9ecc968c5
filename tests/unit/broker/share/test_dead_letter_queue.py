"""Dead letters on a broker in this process: what their topic gets, and what keeps them from it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.broker.replication.partition import Partition
from ottla.broker.share import dead_letter_queue
from ottla.core.image.features import SHARE_VERSION
from ottla.core.image.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, NotEnoughReplicas
from ottla.protocol.messages import write_share_group_state_request
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.record_batch import NewRecord, Record
from support.nodes.in_process import RawClient, connect, create_topic, running_broker, until
from support.nodes.share_member import (
    REJECT,
    RELEASE,
    SETTINGS,
    acknowledge,
    append,
    fetch,
    leaders,
    offsets,
    prepare,
    set_config,
    set_group_config,
)

TOPIC_NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
QUEUE = "dlq.t"
REJECTED = b"Offset rejected by client."
EXCEEDED = b"Offset delivery count exceeded the threshold."


async def with_queue(
    broker: Broker, records: int = 4, *, copy: bool = False, configs: dict[str, str] | None = None
) -> RawClient:
    """A topic with records, its queue, and a connection."""
    await prepare(broker, records)
    await create_topic(broker, QUEUE, configs=ENABLED | (configs or {}))
    await set_group_config(broker, TOPIC_NAME, QUEUE)
    await set_group_config(broker, COPY, str(copy).lower())
    return await connect(broker)


async def reject(client: RawClient, broker: Broker, count: int = 4) -> None:
    """Fetch and reject the first records."""
    assert offsets(await fetch(client, broker, 0)) == [(0, count - 1)]
    assert await acknowledge(client, broker, 1, 0, count - 1, REJECT) == ErrorCode.NONE


async def buried(broker: Broker, start_offset: int) -> None:
    """Wait until the group's start has come to an offset."""
    await until(lambda: leaders(broker) and leaders(broker)[0].machine.start_offset == start_offset)


def found(broker: Broker, topic: str = QUEUE) -> list[Record]:
    if topic not in broker.image.topics:
        return []
    return [
        record
        for index in range(len(broker.image.topics[topic].partitions))
        for _, records in broker.internal_appends.iterate_batches(topic, index)
        for record in records
    ]


def named(records: Sequence[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    """The offset that each letter names, its delivery count and its reason."""
    told = [dict(each.headers) for each in records]
    return [
        (
            int(each["__dlq.errors.offset"] or b"-1"),
            each["__dlq.errors.delivery.count"],
            each["__dlq.errors.message"],
        )
        for each in told
    ]


def test_rejected_records_are_in_the_queue_before_the_group_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker)
            await reject(client, broker)
            await buried(broker, 4)
            assert [(each.key, each.value) for each in found(broker)] == [(None, None)] * 4
            assert [dict(each.headers) for each in found(broker)] == [
                {
                    "__dlq.errors.topic": b"t",
                    "__dlq.errors.partition": b"0",
                    "__dlq.errors.offset": str(offset).encode(),
                    "__dlq.errors.group": b"g",
                    "__dlq.errors.delivery.count": b"1",
                    "__dlq.errors.message": REJECTED,
                }
                for offset in range(4)
            ]
            assert broker.share_partitions.counters.dead_letters == 4
            client.close()

    asyncio.run(story())


def test_records_that_no_delivery_brought_to_an_end_are_in_the_queue(tmp_path: Path) -> None:
    """Released twice by members, and by one that hung up."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker, 1)
            await set_group_config(broker, "share.delivery.count.limit", "3")
            await fetch(client, broker, 0)
            assert await acknowledge(client, broker, 1, 0, 0, RELEASE) == ErrorCode.NONE
            await fetch(client, broker, 2)
            assert await acknowledge(client, broker, 3, 0, 0, RELEASE) == ErrorCode.NONE
            assert found(broker) == []
            await fetch(client, broker, 4)
            client.close()
            await until(lambda: found(broker))
            assert named(found(broker)) == [(0, b"3", EXCEEDED)]
            await until(lambda: not leaders(broker))

    asyncio.run(story())


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.GZIP])
def test_a_copy_has_the_key_and_the_value_of_its_record(tmp_path: Path, codec: Codec) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker, 0, copy=True)
            records = [
                NewRecord(b"a", b"1", 5, (("mine", b"x"),)),
                NewRecord(None, b"2", 5),
                NewRecord(b"c", None, 5),
                NewRecord(b"", b"", 5),
            ]
            await broker.internal_appends.append_records("t", 0, records[:3], codec=codec)
            await broker.internal_appends.append_records("t", 0, records[3:], codec=codec)
            before_ms = broker.now_ms()
            await fetch(client, broker, 0)
            for epoch, offset in enumerate((3, 0, 1, 2), 1):  # the order of the members, not of the log
                assert await acknowledge(client, broker, epoch, offset, offset, REJECT) == ErrorCode.NONE
            await buried(broker, 4)
            copies = {place[0]: each for each, place in zip(found(broker), named(found(broker)), strict=True)}
            assert {offset: (each.key, each.value) for offset, each in copies.items()} == {
                offset: (each.key, each.value) for offset, each in enumerate(records)
            }
            assert all("mine" not in dict(each.headers) for each in copies.values())
            assert all(before_ms <= each.timestamp <= broker.now_ms() for each in copies.values())
            client.close()

    asyncio.run(story())


def test_records_that_are_gone_have_letters_without_a_copy(tmp_path: Path) -> None:
    """Deleted by DeleteRecords while the member had them."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker, copy=True)
            await fetch(client, broker, 0)
            part = DeleteRecordsPartition(partition_index=0, offset=2)
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=5_000
            )
            answer: Any = await client.call(ApiKey.DELETE_RECORDS, 2, request)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
            assert await acknowledge(client, broker, 1, 0, 3, REJECT) == ErrorCode.NONE
            await buried(broker, 4)
            told = [(offset, each.value) for each, (offset, *_) in _pairs(broker)]
            assert told == [(0, None), (1, None), (2, b"v"), (3, b"v")]
            client.close()

    asyncio.run(story())


def _pairs(broker: Broker) -> list[tuple[Record, tuple[int, bytes | None, bytes | None]]]:
    return list(zip(found(broker), named(found(broker)), strict=True))


def test_the_marker_of_a_transaction_is_not_copied(tmp_path: Path) -> None:
    """A member that hangs up gives back whole batches, those of markers too; each offset has its letter."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker, 0, copy=True)
            await set_group_config(broker, "share.delivery.count.limit", "2")
            now_ms = broker.now_ms()  # an older record would be in a segment of its own
            await broker.internal_appends.append_records("t", 0, [NewRecord(b"k", b"v", now_ms)])
            broker.internal_appends.append_end_transaction_marker(
                "t", 0, 7, 0, 0, True, transaction_version=1
            )
            for _ in range(2):
                assert [
                    offset
                    for first, last in offsets(await fetch(client, broker, 0))
                    for offset in range(first, last + 1)
                ] == [0, 1]
                client.close()
                await until(lambda: not leaders(broker))
                client = await connect(broker)
            assert [(offset, each.key) for each, (offset, *_) in _pairs(broker)] == [(0, b"k"), (1, None)]
            client.close()

    asyncio.run(story())


def test_letters_are_written_in_batches_that_the_topic_takes(tmp_path: Path) -> None:
    """A copy that fits into no batch is left out."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker, 0, copy=True, configs={"max.message.bytes": "1000"})
            values = [b"x" * size for size in (400, 900, 1, 300, 2_000, 700)]
            for value in values:
                await broker.internal_appends.append_records("t", 0, [NewRecord(None, value, 0)])
            await reject(client, broker, 6)
            await buried(broker, 6)
            sizes = [header.size_bytes for header, _ in broker.internal_appends.iterate_batches(QUEUE, 0)]
            assert len(sizes) > 1 and max(sizes) <= 1_000
            assert [each.value for each in found(broker)] == [
                value if len(value) < 730 else None for value in values
            ]
            assert [offset for offset, *_ in named(found(broker))] == list(range(6))
            client.close()

    asyncio.run(story())


def test_a_record_that_the_topic_refuses_costs_no_other_its_letter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A compacted topic takes no record without a key."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker, 0, copy=True, configs={"cleanup.policy": "compact"})
            keys = [b"a", None, b"b", b"c", None, b"d", b"e"]
            await broker.internal_appends.append_records("t", 0, [NewRecord(key, b"v", 0) for key in keys])
            await reject(client, broker, 7)
            await buried(broker, 7)
            assert [each.key for each in found(broker)] == [key for key in keys if key is not None]
            counters = broker.share_partitions.counters
            assert (counters.dead_letters, counters.lost_dead_letters) == (5, 2)
            client.close()

    asyncio.run(story())
    assert "were not written: dlq.t-0: INVALID_RECORD" in caplog.text


@pytest.mark.parametrize(
    ("topic", "configs", "message"),
    [
        ("dlq.other", None, "dlq.other does not exist"),
        ("dlq.t", {}, "dlq.t does not have errors.deadletterqueue.group.enable=true"),
        ("t2", ENABLED, "the name of t2 does not begin with dlq."),
    ],
)
def test_without_a_topic_that_may_be_the_queue_letters_are_lost_and_the_group_goes_on(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    topic: str,
    configs: dict[str, str] | None,
    message: str,
) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            await prepare(broker)
            if configs is not None:
                await create_topic(broker, topic, configs=configs)
            await set_group_config(broker, TOPIC_NAME, topic)
            client = await connect(broker)
            await reject(client, broker)
            await buried(broker, 4)
            assert found(broker, topic) == []
            assert broker.share_partitions.counters.lost_dead_letters == 4
            # when the mistake is mended
            if configs is None:
                await create_topic(broker, topic, configs=ENABLED)
            elif not configs:
                await set_config(broker, TOPIC_RESOURCE, topic, *next(iter(ENABLED.items())))
            else:
                await set_config(broker, BROKER_RESOURCE, "", "errors.deadletterqueue.topic.name.prefix", "")
            await append(broker)
            assert offsets(await fetch(client, broker, 2)) == [(4, 4)]
            assert await acknowledge(client, broker, 3, 4, 4, REJECT) == ErrorCode.NONE
            await buried(broker, 5)
            assert named(found(broker, topic)) == [(4, b"1", REJECTED)]
            client.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert f"4 dead letters of group=g topic=t partition=0 were not written: {message}" in caplog.text


def test_a_missing_topic_is_created_if_the_brokers_allow_it(tmp_path: Path) -> None:
    settings = SETTINGS | {
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "num.partitions": "3",
        "log.message.timestamp.type": "LogAppendTime",
    }

    async def story() -> None:
        async with running_broker(tmp_path, settings) as broker:
            await prepare(broker)
            await set_group_config(broker, TOPIC_NAME, QUEUE)
            client = await connect(broker)
            await reject(client, broker)
            await buried(broker, 4)
            assert [offset for offset, *_ in named(found(broker))] == [0, 1, 2, 3]
            topic = broker.image.topics[QUEUE]
            assert len(topic.partitions) == 3
            assert broker.image.configs[TOPIC_RESOURCE, QUEUE] == ENABLED | {
                "message.timestamp.type": "CreateTime"
            }
            client.close()

    asyncio.run(story())


def test_a_failure_that_passes_holds_letters_back_but_no_other_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tries fail: the queue's replicas are out of sync. The last member leaves meanwhile."""
    monkeypatch.setattr(dead_letter_queue, "FIRST_RETRY_SECONDS", 0.01)

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            # given
            client = await with_queue(broker)
            append_produced = broker.produced_appends.append_produced
            tries = 0

            def refuse(partition: Partition, *arguments: Any, **more: Any) -> Any:
                nonlocal tries
                tries += 1
                if tries <= 3:
                    raise NotEnoughReplicas
                if more["acks"] != -1:
                    raise AssertionError("letters need all replicas")
                return append_produced(partition, *arguments, **more)

            monkeypatch.setattr(broker.produced_appends, "append_produced", refuse)
            # when
            await reject(client, broker, 4)
            await append(broker)
            # then
            assert offsets(await fetch(client, broker, 2)) == [(4, 4)]
            assert await acknowledge(client, broker, 3, 4, 4) == ErrorCode.NONE
            client.close()
            await until(lambda: not leaders(broker))
            assert tries == 4
            assert [offset for offset, *_ in named(found(broker))] == [0, 1, 2, 3]

    asyncio.run(story())


def test_letters_on_their_way_survive_the_end_of_their_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given letters that could not be written, when the broker starts again, then the first member's fetch
    makes its leader write them."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker)

            def refuse(partition: Partition, *arguments: Any, **more: Any) -> Any:
                raise OSError("no space left")

            monkeypatch.setattr(broker.produced_appends, "append_produced", refuse)
            await reject(client, broker)
            client.close()
        async with running_broker(tmp_path, SETTINGS) as broker:
            assert found(broker) == []
            client = await connect(broker)
            await append(broker)
            assert offsets(await fetch(client, broker, 0)) == [(4, 4)]
            await buried(broker, 4)
            assert named(found(broker)) == [(offset, b"1", REJECTED) for offset in range(4)]
            client.close()

    asyncio.run(story())


def test_a_group_whose_topic_is_taken_away_gives_its_waiting_letters_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_queue, "FIRST_RETRY_SECONDS", 0.01)

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker)

            def refuse(partition: Partition, *arguments: Any, **more: Any) -> Any:
                raise NotEnoughReplicas

            monkeypatch.setattr(broker.produced_appends, "append_produced", refuse)
            await reject(client, broker)
            await set_group_config(broker, TOPIC_NAME, "")
            await buried(broker, 4)
            assert found(broker) == []
            client.close()

    asyncio.run(story())


def test_dead_letters_begin_with_share_version_2(tmp_path: Path) -> None:
    """Given a cluster that came from Kafka 4.3, when share.version is raised, then from then on."""

    async def finalize(client: RawClient, level: int, kind: int) -> None:
        update = FeatureUpdateKey(feature=SHARE_VERSION, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(timeout_ms=5_000, feature_updates=[update])
        answer: Any = await client.call(ApiKey.UPDATE_FEATURES, 2, request)
        assert answer.error_code == ErrorCode.NONE

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker)
            await finalize(client, 1, 2)
            await reject(client, broker)
            await buried(broker, 4)
            assert found(broker) == []
            await finalize(client, 2, 1)
            await append(broker)
            assert offsets(await fetch(client, broker, 2)) == [(4, 4)]
            assert await acknowledge(client, broker, 3, 4, 4, REJECT) == ErrorCode.NONE
            await buried(broker, 5)
            assert named(found(broker)) == [(4, b"1", REJECTED)]
            client.close()

    asyncio.run(story())


def test_a_state_with_letters_without_end_costs_no_memory(tmp_path: Path) -> None:
    """Any client may write a state: letters of 2^50 offsets are written batch by batch, until the topic
    is taken from the group."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            client = await with_queue(broker)
            batches = [
                write_share_group_state_request.StateBatch(
                    first_offset=0, last_offset=1 << 50, delivery_state=3, delivery_count=1
                )
            ]
            data = write_share_group_state_request.PartitionData(
                partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=batches
            )
            topic = write_share_group_state_request.WriteStateData(
                topic_id=broker.image.topics["t"].topic_id, partitions=[data]
            )
            await broker.share_state.write(
                write_share_group_state_request.WriteShareGroupStateRequest(group_id="g", topics=[topic])
            )
            await fetch(client, broker, 0, max_wait_ms=0)
            await until(lambda: broker.share_partitions.counters.dead_letters >= 2_000)
            await set_group_config(broker, TOPIC_NAME, "")
            await buried(broker, (1 << 50) + 1)
            counters = broker.share_partitions.counters
            assert counters.dead_letters + counters.lost_dead_letters == (1 << 50) + 1
            client.close()

    asyncio.run(story())
