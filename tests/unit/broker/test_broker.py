"""A whole broker in this process: what it answers, what survives a restart, what it does on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.broker.broker import Broker, StartError
from ottla.broker.config import BrokerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.record_batch import NewRecord, decode_records, encode_batch
from support.nodes.in_process import (
    RawClient,
    connect,
    create_topic,
    open_connections,
    running_broker,
    until,
)

NOW_MS = 1_700_000_000_000


def run(data: Path, scenario: Callable[[Broker, RawClient], Awaitable[None]], **settings: str) -> None:
    """Start a broker on `data`, run `scenario` with a client, stop the broker."""

    async def main() -> None:
        async with running_broker(
            data, {key.replace("_", "."): value for key, value in settings.items()}
        ) as broker:
            client = await connect(broker)
            await scenario(broker, client)
            client.close()

    asyncio.run(main())


async def produce(client: RawClient, topic: str, *values: bytes, acks: int = -1) -> tuple[int, int]:
    """(error code, base offset)"""
    batch = encode_batch([NewRecord(b"key", value, NOW_MS) for value in values])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])
    response = await client.call(ApiKey.PRODUCE, 9, request)
    answer = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
    return answer.error_code, answer.base_offset


def fetch_request(topic: str, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


async def fetch(client: RawClient, topic: str, offset: int, **waiting: int) -> tuple[int, list[bytes | None]]:
    """(error code, values)"""
    response = await client.call(ApiKey.FETCH, 12, fetch_request(topic, offset, **waiting))
    data = response.responses[0].partitions[0]  # type: ignore[attr-defined]
    records = decode_records(bytes(data.records)) if data.records else []
    return data.error_code, [record.value for record in records]


def test_what_is_produced_is_fetched_and_survives_a_restart(tmp_path: Path) -> None:
    async def first(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        assert await produce(client, "orders", b"a", b"b") == (0, 0)
        assert await produce(client, "orders", b"c") == (0, 2)
        assert await fetch(client, "orders", 2) == (0, [b"c"])

    async def second(broker: Broker, client: RawClient) -> None:
        assert await fetch(client, "orders", 0) == (0, [b"a", b"b"])
        assert await produce(client, "orders", b"d") == (0, 3)

    run(tmp_path, first)
    run(tmp_path, second)


def test_a_fetch_in_the_middle_of_a_batch_gives_the_whole_batch(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        await produce(client, "orders", b"a", b"b", b"c")
        assert await fetch(client, "orders", 1) == (0, [b"a", b"b", b"c"])

    run(tmp_path, scenario)


def test_a_waiting_fetch_is_answered_by_the_next_append(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        other = await connect(broker)
        waiting = asyncio.ensure_future(fetch(client, "orders", 0, max_wait_ms=60_000))
        await produce(other, "orders", b"a")
        async with asyncio.timeout(10):
            assert await waiting == (0, [b"a"])
        other.close()

    run(tmp_path, scenario)


def test_a_fetch_that_wants_more_than_comes_is_answered_when_its_time_is_up(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        await produce(client, "orders", b"a")
        assert await fetch(client, "orders", 0, max_wait_ms=50, min_bytes=1 << 20) == (0, [b"a"])

    run(tmp_path, scenario)


def test_a_client_that_leaves_takes_its_waiting_fetch_along(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        partition = broker.partitions.partition("orders", 0)
        leaver = await connect(broker)
        payload = encode_request(ApiKey.FETCH, 12, 1, "test", fetch_request("orders", 0, max_wait_ms=60_000))
        await leaver.send(len(payload).to_bytes(4, "big") + payload)
        await until(lambda: partition.waiter_count == 1)
        leaver.close()
        await until(lambda: partition.waiter_count == 0)

    run(tmp_path, scenario)


def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    async def first(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        for value in (b"a", b"b", b"c"):
            await produce(client, "orders", value)
        wanted = DeleteRecordsPartition(partition_index=0, offset=2)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[wanted])])
        response = await client.call(ApiKey.DELETE_RECORDS, 2, request)
        assert response.topics[0].partitions[0].low_watermark == 2  # type: ignore[attr-defined]

    async def second(broker: Broker, client: RawClient) -> None:
        assert (await fetch(client, "orders", 1))[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await fetch(client, "orders", 2) == (0, [b"c"])

    run(tmp_path, first)
    run(tmp_path, second)


def test_retention_deletes_old_segments_in_the_background(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        limits = {"segment.ms": "1", "retention.ms": "1", "file.delete.delay.ms": "0"}
        await create_topic(broker, "orders", configs=limits)
        await produce(client, "orders", b"a")
        partition = broker.partitions.partition("orders", 0)
        await until(lambda: partition.log.log_start_offset == 1)

    run(tmp_path, scenario, log_initial_task_delay_ms="0", log_retention_check_interval_ms="1")


def test_retention_and_checkpoints_first_run_after_the_initial_delay(tmp_path: Path) -> None:
    """As in Apache Kafka: not after an interval, and not before the delay is over."""

    async def old_record(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders", configs={"segment.ms": "1", "retention.ms": "1"})
        await produce(client, "orders", b"a")
        log = broker.partitions.partition("orders", 0).log
        log.roll(NOW_MS)
        rounds = asyncio.Semaphore(0)

        async def count() -> None:
            rounds.release()

        broker.supervisor.every("count", lambda: 1, count)
        for _ in range(50):  # as many as retention would have had
            await rounds.acquire()
        assert log.log_start_offset == 0
        assert not (tmp_path / "recovery-point-offset-checkpoint").exists()

    async def deleted(broker: Broker, client: RawClient) -> None:
        await until(lambda: broker.partitions.partition("orders", 0).log.log_start_offset == 1)

    day_ms = "86400000"
    run(
        tmp_path,
        old_record,
        log_initial_task_delay_ms=day_ms,
        log_retention_check_interval_ms="1",
        log_flush_offset_checkpoint_interval_ms="1",
    )
    run(tmp_path, deleted, log_initial_task_delay_ms="0", log_retention_check_interval_ms=day_ms)


def test_producer_ids_are_never_given_twice(tmp_path: Path) -> None:
    given: list[int] = []

    async def scenario(broker: Broker, client: RawClient) -> None:
        for _ in range(3):
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            response = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
            given.append(response.producer_id)  # type: ignore[attr-defined]

    run(tmp_path, scenario)
    run(tmp_path, scenario)
    assert len(set(given)) == 6


def test_an_api_versions_request_from_the_future_is_answered_in_version_0(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        body = encode_request(ApiKey.API_VERSIONS, 4, 7, "test", ApiVersionsRequest())
        future = body[:2] + (99).to_bytes(2, "big") + body[4:]
        await client.send(len(future).to_bytes(4, "big") + future)
        _, response = decode_response(ApiKey.API_VERSIONS, 0, await client.receive())
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]
        assert await produce(client, "nowhere", b"a") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_version_that_is_not_served_hangs_up(tmp_path: Path, version: int) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        await client.send((10).to_bytes(4, "big") + version.to_bytes(4, "big") + bytes(4) + b"\xff\xff")
        assert await client.closed_by_broker()

    run(tmp_path, scenario)


def test_a_failed_produce_without_acks_hangs_up(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        data = TopicProduceData(name="nowhere", partition_data=[PartitionProduceData(index=0, records=b"x")])
        request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data])
        payload = encode_request(ApiKey.PRODUCE, 9, 1, "test", request)
        await client.send(len(payload).to_bytes(4, "big") + payload)
        assert await client.closed_by_broker()

    run(tmp_path, scenario)


def test_a_directory_of_a_partition_that_the_metadata_does_not_know_is_set_aside(tmp_path: Path) -> None:
    async def nothing(broker: Broker, client: RawClient) -> None:
        pass

    run(tmp_path, nothing)
    (tmp_path / "ghost-0").mkdir()
    (tmp_path / "ghost-0" / "00000000000000000000.log").write_bytes(b"precious")
    run(tmp_path, nothing)
    kept = [path for path in tmp_path.iterdir() if path.name.endswith("-stray")]
    assert [(path / "00000000000000000000.log").read_bytes() for path in kept] == [b"precious"]


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        with pytest.raises(StartError, match="in use by another broker"):
            await Broker.start(BrokerConfig.from_mapping(values), on_failure=lambda: None)

    run(tmp_path, scenario)


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        waiter = await connect(broker)
        waiting = asyncio.ensure_future(fetch(waiter, "orders", 0, max_wait_ms=60_000))
        await until(lambda: broker.partitions.partition("orders", 0).waiter_count == 1)
        idle = await connect(broker)
        await until(lambda: open_connections(broker) == 3)
        await asyncio.sleep(0.05)
        await broker.server.close_idle()
        assert await idle.closed_by_broker()
        other = await connect(broker)
        await produce(other, "orders", b"a")
        assert await waiting == (0, [b"a"])

    run(tmp_path, scenario, connections_max_idle_ms="20")


def test_every_listener_is_served_and_tells_of_itself(tmp_path: Path) -> None:
    async def scenario(broker: Broker, client: RawClient) -> None:
        endpoints = broker.image.brokers[broker.node_id].endpoints
        assert [each.name for each in endpoints] == ["INSIDE", "OUTSIDE"]
        for endpoint in endpoints:
            other = RawClient(*await asyncio.open_connection(endpoint.host, endpoint.port))
            response = await other.call(ApiKey.METADATA, 9, MetadataRequest(topics=None))
            told = [(each.host, each.port) for each in response.brokers]  # type: ignore[attr-defined]
            assert told == [(endpoint.host, endpoint.port)]
            other.close()

    both = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    run(
        tmp_path,
        scenario,
        listeners=both,
        listener_security_protocol_map=protocols,
        inter_broker_listener_name="INSIDE",
    )


def test_a_corrupt_partition_stops_the_start_before_anything_is_written(tmp_path: Path) -> None:
    # Given a topic whose first batch is damaged on disk
    async def fill(broker: Broker, client: RawClient) -> None:
        await create_topic(broker, "orders")
        await produce(client, "orders", b"a", b"b")
        await produce(client, "orders", b"c")

    run(tmp_path, fill)
    segment = tmp_path / "orders-0" / "00000000000000000000.log"
    damaged = bytearray(segment.read_bytes())
    damaged[80] ^= 0xFF
    segment.write_bytes(damaged)
    metadata = sorted((tmp_path / "__cluster_metadata-0").glob("*.log"))
    before = [path.read_bytes() for path in (*metadata, segment)]

    # When a broker starts on it
    async def start() -> None:
        values = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        with pytest.raises(StartError, match=r"orders-0.*00000000000000000000\.log"):
            await Broker.start(BrokerConfig.from_mapping(values), on_failure=lambda: None)

    asyncio.run(start())

    # Then it says where, and neither the log nor the metadata has changed
    assert [path.read_bytes() for path in (*metadata, segment)] == before
