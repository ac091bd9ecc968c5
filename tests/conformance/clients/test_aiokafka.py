"""aiokafka, the asyncio client."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    InvalidTopicError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from support.clients.confluent import create_topic
from support.servers.cluster import Cluster

TIMEOUT_S = 20.0


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def reader(cluster: Cluster, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": cluster.bootstrap,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 200,
            "metadata_max_age_ms": 1000,
            "fetch_max_wait_ms": 100,
            **settings,
        },
    )


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    async with asyncio.timeout(TIMEOUT_S):
        while len(records) < count:
            for of_partition in (await consumer.getmany(timeout_ms=200)).values():
                records += of_partition
    assert len(records) == count
    return records


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            holds = condition()
            if holds if isinstance(holds, bool) else await holds:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_records_come_back(cluster: Cluster, unique_name: str, codec: str | None, idempotent: bool) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)

    async def test() -> None:
        # given
        values = [f"value {number} ".encode() * 20 for number in range(300)]
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        # when
        async with producer:
            sent = [await producer.send(topic, value, key=b"k", partition=0) for value in values]
            acknowledged = await asyncio.gather(*sent)
        # then
        assert [metadata.offset for metadata in acknowledged] == list(range(300))
        async with reader(cluster, topic) as consumer:
            records = await take(consumer, 300)
        assert [record.value for record in records] == values
        assert [record.offset for record in records] == list(range(300))

    run(test())


def test_headers_timestamps_nulls_and_keys(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            headers = [("a", b"\x00\xff"), ("b", b""), ("a", b"again")]
            await producer.send_and_wait(
                topic, b"v", key=b"k", timestamp_ms=1_600_000_000_001, headers=headers
            )
            await producer.send_and_wait(topic, None, key=b"tombstone")
            await producer.send_and_wait(topic, b"no key")
        async with reader(cluster, topic) as consumer:
            first, second, third = await take(consumer, 3)
        assert (first.key, first.value, first.timestamp) == (b"k", b"v", 1_600_000_000_001)
        assert list(first.headers) == headers
        assert (second.key, second.value) == (b"tombstone", None)
        assert (third.key, third.value) == (None, b"no key")

    run(test())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_acks(cluster: Cluster, unique_name: str, acks: int | str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks=acks) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"%d" % number)
        async with reader(cluster, topic) as consumer:
            assert [record.value for record in await take(consumer, 10)] == [b"%d" % n for n in range(10)]

    run(test())


def test_record_over_max_message_bytes_is_refused(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, config={"max.message.bytes": "1000"})

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, b"x" * 2000)
            assert (await producer.send_and_wait(topic, b"x")).offset == 0

    run(test())


def test_offsets_and_seeking(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    partition = TopicPartition(topic, 0)

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"x", timestamp_ms=1_700_000_000_000 + number * 1000)
        async with reader(cluster) as consumer:
            consumer.assign([partition])
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 10}
            found = await consumer.offsets_for_times({partition: 1_700_000_003_500})
            assert (found[partition].offset, found[partition].timestamp) == (4, 1_700_000_004_000)
            assert await consumer.offsets_for_times({partition: 1_800_000_000_000}) == {partition: None}
            consumer.seek(partition, 7)
            assert [record.offset for record in await take(consumer, 3)] == [7, 8, 9]
            await consumer.seek_to_beginning(partition)
            assert [record.offset for record in await take(consumer, 10)] == list(range(10))
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 10
            assert consumer.highwater(partition) == 10

    run(test())


def test_topic_is_created_by_its_first_use(cluster: Cluster, unique_name: str) -> None:
    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send_and_wait(unique_name, b"first")
        async with reader(cluster, unique_name) as consumer:
            assert [record.value for record in await take(consumer, 1)] == [b"first"]

    run(test())


class Rebalances(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.assigned: list[set[int]] = []

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.assigned.append({partition.partition for partition in assigned})


@pytest.mark.parametrize("strategy", [None, RoundRobinPartitionAssignor, StickyPartitionAssignor])
def test_members_share_the_partitions_and_take_over(
    cluster: Cluster, unique_name: str, strategy: type | None
) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    settings = {"partition_assignment_strategy": (strategy,)} if strategy is not None else {}

    async def test() -> None:
        async with AsyncExitStack() as stack:
            members = [
                await stack.enter_async_context(reader(cluster, topic, group_id=unique_name, **settings))
                for _ in range(2)
            ]

            def shared() -> bool:
                owned = [{p.partition for p in member.assignment()} for member in members]
                return [len(o) for o in owned] == [2, 2] and set.union(*owned) == {0, 1, 2, 3}

            await until(shared)
            await members[0].stop()
            await until(lambda: len(members[1].assignment()) == 4)

    run(test())


def test_group_goes_on_from_its_committed_offsets(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    partition = TopicPartition(topic, 0)

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, b"%d" % number)
        async with reader(cluster, topic, group_id=unique_name, max_poll_records=4) as consumer:
            records = (await consumer.getmany(timeout_ms=10_000))[partition]
            assert len(records) == 4
            await consumer.commit({partition: (4, "four")})
        async with reader(cluster, topic, group_id=unique_name) as consumer:
            assert await consumer.committed(partition) == 4
            assert [record.offset for record in await take(consumer, 6)] == list(range(4, 10))

    run(test())


def test_static_member_keeps_its_partitions(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)

    async def test() -> None:
        async def member(name: str, listener: Rebalances) -> AIOKafkaConsumer:
            consumer = reader(cluster, group_id=unique_name, group_instance_id=name)
            consumer.subscribe([topic], listener=listener)
            await consumer.start()
            return consumer

        first_listener, second_listener = Rebalances(), Rebalances()
        first, second = await member("first", first_listener), await member("second", second_listener)
        try:
            # the listeners hear of an assignment a moment after the consumers have it
            heard = (first_listener.assigned, second_listener.assigned)
            await until(lambda: [len(assigned[-1]) for assigned in heard if assigned] == [1, 1])
            owned, rebalances = set(second.assignment()), len(first_listener.assigned)
            await second.stop()
            second = await member("second", second_listener)
            await until(lambda: len(second.assignment()) == 1)
            assert second.assignment() == owned
            assert len(first_listener.assigned) == rebalances
        finally:
            await first.stop()
            await second.stop()

    run(test())


def test_read_committed_consumer(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)

    async def test() -> None:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
            await producer.send_and_wait(topic, b"plain")
        async with reader(cluster, topic, isolation_level="read_committed") as consumer:
            assert [record.value for record in await take(consumer, 1)] == [b"plain"]
            assert consumer.last_stable_offset(TopicPartition(topic, 0)) == 1

    run(test())


def test_admin(cluster: Cluster, unique_name: str) -> None:
    async def test() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            await _topics_and_configs(admin, unique_name)
            await _records_and_groups(cluster, admin, unique_name)
            await admin.delete_topics([unique_name])

            async def gone() -> bool:
                return unique_name not in await admin.list_topics()

            await until(gone)
            with pytest.raises(UnknownTopicOrPartitionError):
                raise_first_error(await admin.delete_topics([unique_name]), "topic_error_codes")
        finally:
            await admin.close()

    run(test())


async def _topics_and_configs(admin: AIOKafkaAdminClient, topic: str) -> None:
    new_topic = NewTopic(
        topic, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "60000"}
    )
    raise_first_error(await admin.create_topics([new_topic]), "topic_errors")

    async def has_partitions(count: int) -> bool:
        (described,) = await admin.describe_topics([topic])
        return len(described["partitions"]) == count and described["error_code"] == 0

    await until(lambda: has_partitions(2))
    with pytest.raises(TopicAlreadyExistsError):
        raise_first_error(await admin.create_topics([new_topic]), "topic_errors")
    with pytest.raises(InvalidTopicError):
        raise_first_error(await admin.create_topics([NewTopic("not/a/name", 1, 1)]), "topic_errors")
    await admin.create_partitions({topic: NewPartitions(3)})
    await until(lambda: has_partitions(3))

    async def config() -> dict[str, str]:
        (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (resource,) = response.resources
        return {entry[0]: entry[1] for entry in resource[4]}

    assert (await config())["retention.ms"] == "60000"
    change = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "1048576"})
    await admin.alter_configs([change])

    async def changed() -> bool:
        return (await config())["segment.bytes"] == "1048576"

    await until(changed)
    assert (await config())["retention.ms"] == "604800000"
    described = await admin.describe_cluster()
    assert len(described["brokers"]) == 1


async def _records_and_groups(cluster: Cluster, admin: AIOKafkaAdminClient, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(6):
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
    assert await admin.delete_records({partition: RecordsToDelete(before_offset=2)}) == {partition: 2}
    group = f"group-{uuid.uuid4()}"
    async with reader(cluster, topic, group_id=group) as consumer:
        assert [record.offset for record in await take(consumer, 4)] == [2, 3, 4, 5]
        await consumer.commit()
        (described,) = await admin.describe_consumer_groups([group])
        (state,) = described.groups
        assert (state[0], state[1], state[2], state[3]) == (0, group, "Stable", "consumer")
        offsets = await admin.list_consumer_group_offsets(group)
        assert offsets[partition].offset == 6
    assert (group, "consumer") in [(listed[0], listed[1]) for listed in await admin.list_consumer_groups()]
    coordinator = await admin.find_coordinator(group)
    assert coordinator >= 0


def raise_first_error(response: Any, name: str) -> None:
    for entry in getattr(response, name):
        if entry[1] != 0:
            raise for_code(entry[1])(entry)
